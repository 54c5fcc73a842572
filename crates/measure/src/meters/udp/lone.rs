//! The same open loop as `echo`, by one thread that stays awake between packets and sleeps only while the newest of them has no answer: what
//! the usual ping-pong programs do. The CPU is warm when a packet goes, and nobody on it is in the way of whoever takes the answer.

use evenkeel_sys::udp::{self, Inbox, Outbox, Wait};
use evenkeel_sys::{Errno, clock};

use super::Receive;
use super::client::Session;
use super::echo::{self, AWAKE_NS, Beat, Done, Plan, QUIET_NS, Seen, Stamps, TELL_NS, Taken};
use super::wire::PACKET_BYTES_MAX;
use crate::{MeterError, Watch};

/// Sends by the plan and gives each answer to `see`, in the order that they come.
pub(super) fn run(
    session: &Session,
    plan: &Plan,
    beat: Beat,
    watch: &Watch<'_>,
    mut see: impl FnMut(&Seen),
) -> Result<Done, MeterError> {
    echo::settle(plan.cpu)?;
    let (mut out, mut inbox) = (Outbox::new(plan.bytes), Inbox::new(PACKET_BYTES_MAX));
    let (mut done, mut taken) = (Done::default(), Taken::default());
    let (mut next, mut told_ns, mut ended_ns) = (0, 0, None);
    loop {
        let now_ns = clock::monotonic_ns();
        if next < plan.packets && !watch.stopped() {
            let due_ns = beat.due_ns(next);
            if due_ns <= now_ns {
                next = done.fill(&mut out, session, plan, beat, next, now_ns);
                done.flush(&mut out, session, plan);
            }
            if now_ns >= told_ns + TELL_NS {
                told_ns = now_ns;
                watch.progress(next as f64 / plan.packets as f64, "echo");
            }
        } else if taken.is_over(now_ns, *ended_ns.get_or_insert(now_ns), next) {
            break;
        }
        // With all answers in, the clock alone is looked at; what was doubled on its way is read with the next.
        if taken.is_whole(next) && ended_ns.is_none() {
            std::hint::spin_loop();
            continue;
        }
        let (woken, got) = listen(session, &mut inbox, plan.receive, sleep_ns(plan, beat, &taken, next));
        match got {
            Ok(_) => taken.take(&inbox, session, beat, next, woken, &mut see),
            // A stamp that came later than its packet went ends the sleep too, and again until it is taken.
            Err(Errno::AGAIN) if plan.stamps == Stamps::Both => echo::fetch(session, &mut done.stamps),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(MeterError::refused("receive answers", errno)),
        }
    }
    done.lasted_ns = ended_ns.unwrap_or(0).saturating_sub(beat.start_ns());
    if plan.stamps == Stamps::Both {
        echo::fetch(session, &mut done.stamps);
    }
    Ok(Done { back: taken.back, cpu_ns: clock::thread_cpu_ns(), ..done })
}

/// How long it may sleep for an answer. An older one that is missing is looked for without sleep: it may be lost.
fn sleep_ns(plan: &Plan, beat: Beat, taken: &Taken, next: u64) -> Option<u64> {
    if next >= plan.packets {
        return Some(QUIET_NS);
    }
    let is_waiting = taken.upto < next;
    let left_ns = beat.due_ns(next).saturating_sub(clock::monotonic_ns());
    Some(left_ns.saturating_sub(AWAKE_NS)).filter(|left_ns| is_waiting && *left_ns > 0)
}

/// Whether it slept, and what came.
fn listen(
    session: &Session,
    inbox: &mut Inbox,
    receive: Receive,
    sleep_ns: Option<u64>,
) -> (bool, Result<usize, Errno>) {
    let got = inbox.receive(session.socket(), Wait::NotForOne);
    let Some(for_ns) = sleep_ns.filter(|_| got == Err(Errno::AGAIN) && receive == Receive::Sleep) else {
        return (false, got);
    };
    match udp::await_packet(session.socket(), for_ns) {
        Ok(()) => (true, inbox.receive(session.socket(), Wait::NotForOne)),
        Err(errno) => (true, Err(errno)),
    }
}
