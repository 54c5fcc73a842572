//! The same open loop as `echo`, on one thread.
//! The thread stays awake between packets, and sleeps only while the newest packet has no answer.
//! The usual ping-pong programs do the same.
//! The CPU is warm when a packet is sent, and no other thread on this CPU delays the answer.

use evenkeel_sys::timer_fd::Alarm;
use evenkeel_sys::udp::{self, Inbox, Outbox, Wait};
use evenkeel_sys::{Errno, clock};

use super::client::Session;
use super::open_loop::{AWAKE_NS, Beat, Done, EchoReceived, PROGRESS_NS, Plan, QUIET_NS, Stamps, Taken, fetch, settle};
use super::settings::Receive;
use super::wire::PACKET_BYTES_MAX;
use crate::{MeterError, Watch};

/// Sends by the plan and passes each answer to `see`, in order of arrival.
pub(super) fn run(
    session: &Session,
    plan: &Plan,
    beat: Beat,
    watch: &Watch<'_>,
    mut see: impl FnMut(&EchoReceived),
) -> Result<Done, MeterError> {
    settle(plan.cpu)?;
    let (mut out, mut inbox) = (Outbox::new(plan.bytes), Inbox::new(PACKET_BYTES_MAX));
    let (mut done, mut taken) = (Done::default(), Taken::default());
    let (mut next, mut reported_ns, mut ended_ns) = (0, 0, None);
    let mut limit = SleepLimit::new()?;
    loop {
        let now_ns = clock::monotonic_ns();
        if next < plan.packets && !watch.stopped() {
            if beat.due_ns(next) <= now_ns {
                next = done.fill(&mut out, session, plan, beat, next, now_ns);
                done.flush(&mut out, session, plan);
            }
            if now_ns >= reported_ns + PROGRESS_NS {
                reported_ns = now_ns;
                watch.progress(next as f64 / plan.packets as f64, "echo");
            }
        } else if taken.is_over(now_ns, *ended_ns.get_or_insert(now_ns), next) {
            break;
        }
        // When all answers have arrived, only read the clock. Duplicates are read with the next packet.
        if taken.is_whole(next) && ended_ns.is_none() {
            limit.set(beat.due_ns(next + 1).saturating_sub(AWAKE_NS))?;
            std::hint::spin_loop();
            continue;
        }
        let mut got = inbox.receive(session.socket(), Wait::NotForOne);
        // Sleep only while the newest packet has no answer, or after the last packet.
        // If only older answers are missing, they may be lost, so poll then.
        let sleeps = plan.receive == Receive::Sleep && (taken.upto < next || ended_ns.is_some());
        let woken = got == Err(Errno::AGAIN) && sleeps;
        if woken {
            let until_ns =
                if next < plan.packets { beat.due_ns(next).saturating_sub(AWAKE_NS) } else { now_ns + QUIET_NS };
            got = limit.sleep(session, until_ns).and_then(|()| inbox.receive(session.socket(), Wait::NotForOne));
        }
        match got {
            Ok(_) => taken.take(&inbox, session, beat, next, woken, &mut see),
            // A timestamp that arrives after its packet was sent also ends the sleep, again and again until the timestamp is read.
            Err(Errno::AGAIN) if plan.stamps == Stamps::Both => fetch(session, &mut done.stamps),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {}
            Err(errno) => return Err(MeterError::refused("receive answers", errno)),
        }
    }
    done.lasted_ns = ended_ns.unwrap_or(0).saturating_sub(beat.start_ns);
    if plan.stamps == Stamps::Both {
        fetch(session, &mut done.stamps);
    }
    Ok(Done { back: taken.back, cpu_ns: clock::thread_cpu_ns(), ..done })
}

/// A timer that ends a sleep in time for the next packet. It is armed before the previous packet is sent.
/// A timer that is armed just before each sleep, and cleared afterwards, would add some microseconds to each round trip
/// (on a virtual machine).
struct SleepLimit {
    alarm: Alarm,
    at_ns: u64,
}

impl SleepLimit {
    fn new() -> Result<SleepLimit, MeterError> {
        let alarm = Alarm::new().map_err(|errno| MeterError::refused("make a timer", errno))?;
        Ok(SleepLimit { alarm, at_ns: 0 })
    }

    fn set(&mut self, at_ns: u64) -> Result<(), MeterError> {
        if self.at_ns != at_ns {
            self.alarm.set(at_ns).map_err(|errno| MeterError::refused("set a timer", errno))?;
            self.at_ns = at_ns;
        }
        Ok(())
    }

    /// Sleeps until a packet arrives or until this time. Returns at once if the time has passed.
    fn sleep(&mut self, session: &Session, until_ns: u64) -> Result<(), Errno> {
        if until_ns <= clock::monotonic_ns() {
            return Ok(());
        }
        if self.at_ns != until_ns {
            self.alarm.set(until_ns)?;
            self.at_ns = until_ns;
        }
        udp::await_packet(session.socket(), &self.alarm)
    }
}
