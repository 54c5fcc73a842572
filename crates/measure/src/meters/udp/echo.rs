//! Round trips on an open loop.
//! Each packet has a fixed due time and is sent then, even if earlier answers are missing.
//! A packet's latency counts from the due time, so the measurement includes a stall that delays our sends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_sys::udp::{self, Inbox, Outbox, Wait};
use evenkeel_sys::{Errno, clock};

use super::client::Session;
use super::lone;
use super::open_loop::{AWAKE_NS, Beat, Done, EchoReceived, PROGRESS_NS, Plan, Stamps, Taken, fetch, settle};
use super::order::Order;
use super::settings::{Pace, Receive};
use super::wire::PACKET_BYTES_MAX;
use crate::{MeterError, Watch};

/// The state that the two threads share.
#[derive(Debug, Default)]
struct Shared {
    sent: AtomicU64,
    ended: AtomicBool,
}

/// Sends by the plan and passes each answer to `see`, in order of arrival.
pub(super) fn run(
    session: &Session,
    plan: &Plan,
    watch: &Watch<'_>,
    see: impl FnMut(&EchoReceived) + Send,
) -> Result<Done, MeterError> {
    if plan.stamps == Stamps::Both {
        udp::stamp_sent(session.socket()).map_err(|errno| MeterError::refused("have sent packets stamped", errno))?;
    }
    let beat = Beat { start_ns: clock::monotonic_ns() + 5_000_000, rate_hz: plan.rate_hz };
    let died = |_| MeterError::not_possible("measure the round trip", "a thread of it died");
    if plan.pace == Pace::Awake {
        // The single loop also gets its own thread, so that its settings end with the thread.
        let done = std::thread::scope(|scope| scope.spawn(|| lone::run(session, plan, beat, watch, see)).join());
        return done.map_err(died)?;
    }
    let shared = Shared::default();
    let (sent, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(session, plan, beat, &shared, see));
        let sender = scope.spawn(|| {
            let sent = send(session, plan, beat, &shared, watch);
            shared.ended.store(true, Ordering::Release);
            sent
        });
        (sender.join(), receiver.join())
    });
    let (sent, (back, receiver_cpu_ns)) = (sent.map_err(died)??, received.map_err(died)??);
    Ok(Done { back, cpu_ns: sent.cpu_ns + receiver_cpu_ns, ..sent })
}

fn send(session: &Session, plan: &Plan, beat: Beat, shared: &Shared, watch: &Watch<'_>) -> Result<Done, MeterError> {
    settle(plan.cpu)?;
    let mut out = Outbox::new(plan.bytes);
    let mut done = Done::default();
    let (mut next, mut reported_ns) = (0, 0);
    while next < plan.packets && !watch.stopped() {
        let due_ns = beat.due_ns(next);
        if due_ns >= reported_ns + PROGRESS_NS {
            reported_ns = due_ns;
            watch.progress(next as f64 / plan.packets as f64, "echo");
        }
        if plan.pace == Pace::Sleep && due_ns > clock::monotonic_ns() + AWAKE_NS {
            clock::sleep_until_ns(due_ns - AWAKE_NS);
        }
        let mut now_ns = clock::monotonic_ns();
        while now_ns < due_ns {
            std::hint::spin_loop();
            now_ns = clock::monotonic_ns();
        }
        next = done.fill(&mut out, session, plan, beat, next, now_ns);
        shared.sent.store(next, Ordering::Release);
        done.flush(&mut out, session, plan);
    }
    done.lasted_ns = clock::monotonic_ns().saturating_sub(beat.start_ns);
    if plan.stamps == Stamps::Both {
        clock::sleep_until_ns(clock::monotonic_ns() + 20_000_000);
        fetch(session, &mut done.stamps);
    }
    done.cpu_ns = clock::thread_cpu_ns();
    Ok(done)
}

fn receive(
    session: &Session,
    plan: &Plan,
    beat: Beat,
    shared: &Shared,
    mut see: impl FnMut(&EchoReceived),
) -> Result<(Order, u64), MeterError> {
    settle(plan.cpu)?;
    let mut inbox = Inbox::new(PACKET_BYTES_MAX);
    let (mut taken, mut ended_ns) = (Taken::default(), None);
    loop {
        if shared.ended.load(Ordering::Acquire) {
            let now_ns = clock::monotonic_ns();
            if taken.is_over(now_ns, *ended_ns.get_or_insert(now_ns), shared.sent.load(Ordering::Acquire)) {
                break;
            }
        }
        // `woken` shows whether the thread had to sleep for this packet, so first ask without sleeping.
        let (mut woken, mut got) = (false, inbox.receive(session.socket(), Wait::Not));
        if got == Err(Errno::AGAIN) && plan.receive == Receive::Sleep {
            (woken, got) = (true, inbox.receive(session.socket(), Wait::Sleep));
        }
        match got {
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => continue,
            Err(errno) => return Err(MeterError::refused("receive answers", errno)),
        }
        taken.take(&inbox, session, beat, shared.sent.load(Ordering::Acquire), woken, &mut see);
    }
    Ok((taken.back, clock::thread_cpu_ns()))
}
