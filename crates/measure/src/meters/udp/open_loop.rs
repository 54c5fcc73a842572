//! Shared code of the open loops with one thread and with two: the plan, the due times, and the counts of sent and received packets.

use evenkeel_sys::udp::{self, Inbox, Outbox, SentStamp};
use evenkeel_sys::{clock, thread};

use super::client::Session;
use super::order::{Order, Place};
use super::settings::{Pace, Receive, Settings};
use super::wire::{FromClient, FromServer, Numbered};
use crate::MeterError;
use crate::pinned::stay_on;

/// A sleeping sender wakes this long before a packet is due and spins for the rest,
/// because a wake-up from idle takes some tens of microseconds.
pub(super) const AWAKE_NS: u64 = 50_000;
/// How long to wait for answers after the last packet.
const GRACE_NS: u64 = 1_000_000_000;
/// How long to wait for duplicate answers once every packet has an answer.
pub(super) const QUIET_NS: u64 = 30_000_000;
/// How often to report progress.
pub(super) const PROGRESS_NS: u64 = 100_000_000;
/// The maximum number of timestamps to hold. A packet has at most three.
const STAMPS_MAX: usize = 100_000;

/// The packets to send, and how to send them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) rate_hz: f64,
    pub(super) bytes: usize,
    pub(super) packets: u64,
    pub(super) pace: Pace,
    pub(super) receive: Receive,
    pub(super) cpu: Option<usize>,
    pub(super) stamps: Stamps,
}

impl Plan {
    pub(super) fn new(settings: &Settings, packets: u64, stamps: Stamps) -> Plan {
        Plan {
            rate_hz: settings.rate_hz,
            bytes: settings.bytes,
            packets,
            pace: settings.pace,
            receive: settings.receive,
            cpu: settings.cpu,
            stamps,
        }
    }
}

/// The kernel timestamps to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamps {
    /// Timestamps of received packets.
    Received,
    /// Timestamps of sent packets too. These timestamps wake any thread that sleeps for a packet, so they get a separate run.
    Both,
}

/// One answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct EchoReceived {
    pub(super) sequence: u64,
    /// When the packet was due, and (the next fields) when it was sent and when its answer was read, on the monotonic clock.
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) read_ns: u64,
    /// The time from the kernel's receipt of the answer until our thread read it.
    pub(super) held_ns: Option<u64>,
    /// Whether our thread slept when the answer arrived.
    pub(super) woken: bool,
    /// Times at the server.
    /// The first is the time from its kernel's receipt of the packet until its thread read the packet.
    /// The second is the time from there to the answer.
    pub(super) waited_ns: Option<u32>,
    pub(super) turn_ns: Option<u32>,
}

/// The totals of a run.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Packets that were sent.
    pub(super) sent: u64,
    /// Packets that the kernel did not accept.
    pub(super) not_sent: u64,
    /// How late each packet was sent, in nanoseconds.
    pub(super) late_ns: evenkeel_stats::Histogram,
    /// The order counts of the answers.
    pub(super) back: Order,
    /// The time from the first packet's due time until the last packet was sent.
    pub(super) lasted_ns: u64,
    /// CPU time of both threads.
    pub(super) cpu_ns: u64,
    /// Timestamps of sent packets, if requested.
    pub(super) stamps: Vec<SentStamp>,
}

/// When packets are due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beat {
    pub(super) start_ns: u64,
    pub(super) rate_hz: f64,
}

impl Beat {
    pub(super) fn due_ns(&self, sequence: u64) -> u64 {
        self.start_ns + (sequence as f64 * 1e9 / self.rate_hz) as u64
    }
}

/// Prepares a thread: its CPU, and a timer slack that lets sleeps end on time.
pub(super) fn settle(cpu: Option<usize>) -> Result<(), MeterError> {
    cpu.map_or(Ok(()), stay_on)?;
    thread::set_timer_slack_ns(std::num::NonZeroU64::new(1))
        .map_err(|errno| MeterError::refused("set the timer slack", errno))
}

impl Done {
    /// Puts all packets that are due by now into a batch. Late packets are sent anyway. Returns the number of the next packet.
    pub(super) fn fill(
        &mut self,
        out: &mut Outbox,
        session: &Session,
        plan: &Plan,
        beat: Beat,
        mut next: u64,
        now_ns: u64,
    ) -> u64 {
        while next < plan.packets && beat.due_ns(next) <= now_ns {
            let Some(packet) = out.push(None, plan.bytes) else { break };
            FromClient::Echo(Numbered { session: session.secret(), sequence: next, sent_ns: now_ns }).write(packet);
            self.late_ns.record(now_ns - beat.due_ns(next));
            next += 1;
        }
        next
    }

    /// Sends the batch.
    pub(super) fn flush(&mut self, out: &mut Outbox, session: &Session, plan: &Plan) {
        let said = out.send(session.socket());
        self.sent += said.sent as u64;
        self.not_sent += said.refused as u64;
        if plan.stamps == Stamps::Both {
            fetch(session, &mut self.stamps);
        }
    }
}

pub(super) fn fetch(session: &Session, stamps: &mut Vec<SentStamp>) {
    while let Ok(Some(stamp)) = udp::sent_stamp(session.socket()) {
        if stamps.len() < STAMPS_MAX {
            stamps.push(stamp);
        }
    }
}

/// The answers so far.
#[derive(Default)]
pub(super) struct Taken {
    /// The order of the answers, by the server's numbers.
    pub(super) back: Order,
    /// The order of the answers, by our numbers.
    seen: Order,
    last_ns: u64,
    /// The highest of our numbers that has an answer, plus one.
    pub(super) upto: u64,
}

impl Taken {
    /// Whether all answers have arrived, or it is time to stop waiting for the rest.
    pub(super) fn is_over(&self, now_ns: u64, ended_ns: u64, sent: u64) -> bool {
        // If the network duplicated a packet, the second answer arrives after all first answers.
        let is_quiet = now_ns > self.last_ns + QUIET_NS;
        now_ns > ended_ns + GRACE_NS || (is_quiet && self.is_whole(sent))
    }

    /// Whether each of the first `sent` packets has its answer.
    pub(super) fn is_whole(&self, sent: u64) -> bool {
        self.seen.counts().arrived >= sent
    }

    /// Takes the answers of one call.
    pub(super) fn take(
        &mut self,
        inbox: &Inbox,
        session: &Session,
        beat: Beat,
        sent: u64,
        woken: bool,
        see: &mut impl FnMut(&EchoReceived),
    ) {
        let (read_ns, wall_ns) = (clock::monotonic_ns(), clock::realtime_ns());
        self.last_ns = read_ns;
        for packet in inbox.packets() {
            let Ok(FromServer::Answer(answer)) = FromServer::parse(packet.bytes) else { continue };
            let Numbered { session: of, sequence, sent_ns } = answer.to;
            // An answer to a packet that we never sent, or of another session, is forged.
            if of != session.secret() || sequence >= sent || sent_ns > read_ns {
                continue;
            }
            // Duplicates from the network or the server are counted, but timed only once.
            self.back.see(answer.number);
            if matches!(self.seen.see(sequence), Place::Again | Place::TooOld) {
                continue;
            }
            self.upto = self.upto.max(sequence + 1);
            see(&EchoReceived {
                sequence,
                due_ns: beat.due_ns(sequence),
                sent_ns,
                read_ns,
                held_ns: packet.stamp_ns.and_then(|stamp_ns| wall_ns.checked_sub(stamp_ns)),
                woken,
                waited_ns: answer.waited_ns,
                turn_ns: answer.turn_ns,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_by_the_clock_and_not_by_each_other() {
        let beat = Beat { start_ns: 1000, rate_hz: 3.0 };
        let due: Vec<u64> = (0..4).map(|at| beat.due_ns(at)).collect();
        assert_eq!(due, [1000, 333_334_333, 666_667_666, 1_000_001_000]);
    }
}
