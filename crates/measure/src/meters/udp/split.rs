//! Splits the time of a round trip into parts: our own wake-up, the path to the driver, the network,
//! the server's wait and work, and the wait of the answer on this host.
//! The split is a separate run, because the kernel's timestamps of sent packets wake the thread that waits for answers.

use std::collections::HashMap;
use std::net::SocketAddr;

use evenkeel_sys::udp::{Inbox, Moment, Outbox, Wait};
use evenkeel_sys::{Errno, clock};
use serde::Serialize;

use super::client::Session;
use super::echo;
use super::open_loop::{EchoReceived, Plan, Stamps, settle};
use super::settings::{Receive, Settings};
use super::wire::{FromClient, FromServer, Numbered, PACKET_BYTES_MAX};
use crate::{MeterError, Samples, Watch};

/// The number of packets of the split. It suffices for a p99.
const PACKETS_MIN: f64 = 200.0;
const PACKETS_MAX: f64 = 20_000.0;
/// The number of packets of the run without sleeps, and its time limit.
const SPIN_PACKETS: u64 = 1000;
const SPIN_NS: u64 = 500_000_000;
/// If the wall clock was set by more than this during the run, the split is invalid.
const CLOCK_SET_NS: i64 = 1_000_000;

/// The parts of round trips. For each packet, the parts add up to its latency from the due time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Split {
    /// The time from the due time until the kernel got the packet.
    pub late_ns: Samples,
    /// The time from the kernel's receipt of the packet until the driver had the packet: the sending half of the kernel, and device queues.
    pub send_path_ns: Samples,
    /// The time from the driver to the other kernel, and back: the network in both directions, with the server's sending half.
    pub network_ns: Samples,
    /// At the server, the time from its kernel's receipt until its thread read the packet: softirq, socket queue and wake.
    pub server_wait_ns: Samples,
    /// At the server, the time from the read of the packet until the answer was sent.
    pub server_turn_ns: Samples,
    /// On this host, the time from the kernel's receipt of the answer until our thread read it, if the thread slept: softirq and wake.
    pub woken_ns: Samples,
    /// The same stretch as `woken_ns`, if the thread was awake: softirq and the wait for the thread's turn.
    pub queued_ns: Samples,
    /// The same stretch as `woken_ns`, for a thread that only polls, one packet at a time: softirq alone.
    /// The wake is the difference between `woken_ns` and this stretch.
    pub softirq_ns: Samples,
    /// The total, from the due time.
    pub from_due_ns: Samples,
}

pub(super) fn run(settings: &Settings, to: SocketAddr, watch: &Watch<'_>) -> Result<Split, MeterError> {
    let mut split = Split {
        late_ns: settings.samples("late_ns"),
        send_path_ns: settings.samples("send_path_ns"),
        network_ns: settings.samples("network_ns"),
        server_wait_ns: settings.samples("server_wait_ns"),
        server_turn_ns: settings.samples("server_turn_ns"),
        woken_ns: settings.samples("woken_ns"),
        queued_ns: settings.samples("queued_ns"),
        softirq_ns: settings.samples("softirq_ns"),
        from_due_ns: settings.samples("from_due_ns"),
    };
    let session = Session::open(to, settings.receive_buffer_bytes)?;
    let packets = settings.rate_hz.clamp(PACKETS_MIN, PACKETS_MAX) as u64;
    let mut all = Vec::with_capacity(packets as usize);
    let offset_ns = wall_offset_ns();
    let done = watch.part(0.0, 0.7, |watch| {
        echo::run(&session, &Plan::new(settings, packets, Stamps::Both), watch, |seen| all.push(*seen))
    })?;
    if (wall_offset_ns() - offset_ns).abs() > CLOCK_SET_NS {
        split.network_ns.lose(packets, "the clock was set meanwhile");
        return Ok(split);
    }
    let to_driver = done.stamps.iter().filter(|stamp| stamp.moment == Moment::ToDriver);
    let to_driver_ns: HashMap<u64, u64> =
        to_driver.map(|stamp| (u64::from(stamp.id), stamp.ns.saturating_add_signed(-offset_ns))).collect();
    for seen in &all {
        match parts(seen, to_driver_ns.get(&seen.sequence).copied()) {
            Some(parts) => split.record(seen, &parts),
            None => split.network_ns.lose(1, "a stamp of the kernel or of the server was missing, or out of order"),
        }
    }
    split.network_ns.lose(done.sent.saturating_sub(all.len() as u64), "no answer came");
    drop(session);
    watch.part(0.7, 1.0, |watch| softirq(settings, to, watch, &mut split.softirq_ns))?;
    Ok(split)
}

/// The parts of one round trip, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    late_ns: u64,
    send_path_ns: u64,
    network_ns: u64,
    server_wait_ns: u64,
    server_turn_ns: u64,
    held_ns: u64,
}

/// The parts of this round trip. None if a part is unknown, or if the clocks contradict each other.
fn parts(seen: &EchoReceived, to_driver_ns: Option<u64>) -> Option<Parts> {
    let (held_ns, to_driver_ns) = (seen.held_ns?, to_driver_ns?);
    let (server_wait_ns, server_turn_ns) = (u64::from(seen.waited_ns?), u64::from(seen.turn_ns?));
    let came_ns = seen.read_ns.checked_sub(held_ns)?;
    let between_ns = came_ns.checked_sub(to_driver_ns)?;
    Some(Parts {
        late_ns: seen.sent_ns.checked_sub(seen.due_ns)?,
        send_path_ns: to_driver_ns.checked_sub(seen.sent_ns)?,
        network_ns: between_ns.checked_sub(server_wait_ns + server_turn_ns)?,
        server_wait_ns,
        server_turn_ns,
        held_ns,
    })
}

impl Split {
    fn record(&mut self, seen: &EchoReceived, parts: &Parts) {
        self.late_ns.record(parts.late_ns);
        self.send_path_ns.record(parts.send_path_ns);
        self.network_ns.record(parts.network_ns);
        self.server_wait_ns.record(parts.server_wait_ns);
        self.server_turn_ns.record(parts.server_turn_ns);
        let held = if seen.woken { &mut self.woken_ns } else { &mut self.queued_ns };
        held.record(parts.held_ns);
        self.from_due_ns.record(seen.read_ns.saturating_sub(seen.due_ns));
    }
}

/// The offset from the monotonic to the wall clock.
fn wall_offset_ns() -> i64 {
    let one = || {
        let before_ns = clock::monotonic_ns();
        let wall_ns = clock::realtime_ns();
        let after_ns = clock::monotonic_ns();
        let middle_ns = before_ns + (after_ns - before_ns) / 2;
        (after_ns - before_ns, wall_ns.wrapping_sub(middle_ns).cast_signed())
    };
    (0..20).map(|_| one()).min_by_key(|(apart_ns, _)| *apart_ns).map_or(0, |(_, offset_ns)| offset_ns)
}

/// Sends one packet at a time and polls without sleeping, so the time from the kernel's receipt to ours contains no wake.
fn softirq(settings: &Settings, to: SocketAddr, watch: &Watch<'_>, samples: &mut Samples) -> Result<(), MeterError> {
    if settings.receive == Receive::Sleep && std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        samples.lose(SPIN_PACKETS, "there is one CPU: who spins on it keeps the kernel from what is measured");
        return Ok(());
    }
    let session = Session::open(to, settings.receive_buffer_bytes)?;
    let body = || -> Result<(), MeterError> {
        settle(settings.cpu)?;
        let (mut out, mut inbox) = (Outbox::new(settings.bytes), Inbox::new(PACKET_BYTES_MAX));
        let until_ns = clock::monotonic_ns() + SPIN_NS;
        for sequence in 0..SPIN_PACKETS {
            let sent_ns = clock::monotonic_ns();
            if sent_ns >= until_ns || watch.stopped() {
                break;
            }
            watch.progress(sequence as f64 / SPIN_PACKETS as f64, "softirq");
            if let Some(packet) = out.push(None, settings.bytes) {
                FromClient::Echo(Numbered { session: session.secret(), sequence, sent_ns }).write(packet);
            }
            out.send(session.socket());
            match spin(&session, &mut inbox, sequence, sent_ns + SPIN_NS / 10)? {
                Some(held_ns) => samples.record(held_ns),
                None => samples.lose(1, "no answer with a stamp came"),
            }
        }
        Ok(())
    };
    // Run this on a separate thread, so that its CPU and timer slack end with the thread.
    match std::thread::scope(|scope| scope.spawn(body).join()) {
        Ok(done) => done,
        Err(_) => Err(MeterError::not_possible("measure the softirq", "its thread died")),
    }
}

/// Polls for the answer, and returns how long the kernel held the answer.
fn spin(session: &Session, inbox: &mut Inbox, sequence: u64, until_ns: u64) -> Result<Option<u64>, MeterError> {
    while clock::monotonic_ns() < until_ns {
        match inbox.receive(session.socket(), Wait::Not) {
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => continue,
            Err(errno) => return Err(MeterError::refused("receive answers", errno)),
        }
        let wall_ns = clock::realtime_ns();
        for packet in inbox.packets() {
            let answer = FromServer::parse(packet.bytes);
            if matches!(answer, Ok(FromServer::Answer(answer)) if answer.to.sequence == sequence) {
                return Ok(packet.stamp_ns.and_then(|stamp_ns| wall_ns.checked_sub(stamp_ns)));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_add_up(times in proptest::array::uniform5(0_u64..5_000_000_000), held_ns in 0_u64..1000, waited: u32, turn: u32) {
            let mut times = times;
            times.sort_unstable();
            let [due_ns, sent_ns, to_driver_ns, came_ns, read_ns] = times;
            let _ = came_ns;
            let seen = EchoReceived {
                sequence: 0,
                due_ns,
                sent_ns,
                read_ns,
                held_ns: Some(held_ns),
                woken: true,
                waited_ns: Some(waited),
                turn_ns: Some(turn),
            };
            if let Some(parts) = parts(&seen, Some(to_driver_ns)) {
                let Parts { late_ns, send_path_ns, network_ns, server_wait_ns, server_turn_ns, held_ns } = parts;
                let sum = late_ns + send_path_ns + network_ns + server_wait_ns + server_turn_ns + held_ns;
                prop_assert_eq!(sum, read_ns - due_ns);
            }
            prop_assert_eq!(parts(&seen, None), None);
            prop_assert_eq!(parts(&EchoReceived { held_ns: None, ..seen }, Some(to_driver_ns)), None);
        }
    }
}
