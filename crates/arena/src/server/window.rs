//! What the server counts and times between two `window` commands.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{now_ns, process_cpu_ns};
use crate::control::{Drops, ServerWindow};
use crate::gate::Refusal;
use crate::tally::Tally;

/// Datagrams since the start, counted by both threads. Each number stands for itself, so no ordering is needed.
#[derive(Debug, Default)]
pub(super) struct Counters {
    received: AtomicU64,
    sent: AtomicU64,
    send_failed: AtomicU64,
    malformed: AtomicU64,
    unproven: AtomicU64,
    rate_limited: AtomicU64,
    replayed: AtomicU64,
    queue_full: AtomicU64,
}

impl Counters {
    pub(super) fn received(&self) {
        add(&self.received);
    }

    pub(super) fn sent(&self) {
        add(&self.sent);
    }

    pub(super) fn send_failed(&self) {
        add(&self.send_failed);
    }

    pub(super) fn refused(&self, refusal: Refusal) {
        add(match refusal {
            Refusal::Malformed => &self.malformed,
            Refusal::Unproven => &self.unproven,
            Refusal::RateLimited => &self.rate_limited,
            Refusal::Replayed => &self.replayed,
            Refusal::QueueFull => &self.queue_full,
        });
    }

    fn now(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            received: read(&self.received),
            sent: read(&self.sent),
            send_failed: read(&self.send_failed),
            drops: Drops {
                malformed: read(&self.malformed),
                unproven: read(&self.unproven),
                rate_limited: read(&self.rate_limited),
                replayed: read(&self.replayed),
                queue_full: read(&self.queue_full),
            },
        }
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    received: u64,
    sent: u64,
    send_failed: u64,
    drops: Drops,
}

impl Counts {
    fn since(&self, before: &Self) -> Self {
        let (now, then) = (&self.drops, &before.drops);
        Self {
            received: self.received - before.received,
            sent: self.sent - before.sent,
            send_failed: self.send_failed - before.send_failed,
            drops: Drops {
                malformed: now.malformed - then.malformed,
                unproven: now.unproven - then.unproven,
                rate_limited: now.rate_limited - then.rate_limited,
                replayed: now.replayed - then.replayed,
                queue_full: now.queue_full - then.queue_full,
            },
        }
    }
}

/// When one tick was due, began and ended, and how many deadlines had to be skipped after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TickTimes {
    pub(super) due_ns: u64,
    pub(super) start_ns: u64,
    pub(super) done_ns: u64,
    pub(super) missed: u64,
}

/// The window being measured.
#[derive(Debug)]
pub(super) struct Window {
    opened_ns: u64,
    opened_cpu_ns: u64,
    opened_counts: Counts,
    period_ns: u64,
    ticks: u64,
    missed_ticks: u64,
    lateness: Tally,
    due_to_done: Tally,
    work: Tally,
    longest_gap_ns: u64,
    /// Survives the window: a gap between two windows belongs to the second.
    last_start_ns: Option<u64>,
}

impl Window {
    pub(super) fn open(counters: &Counters, period_ns: u64) -> Self {
        Self {
            opened_ns: now_ns(),
            opened_cpu_ns: process_cpu_ns(),
            opened_counts: counters.now(),
            period_ns,
            ticks: 0,
            missed_ticks: 0,
            lateness: Tally::new(),
            due_to_done: Tally::new(),
            work: Tally::new(),
            longest_gap_ns: 0,
            last_start_ns: None,
        }
    }

    pub(super) fn record(&mut self, tick: TickTimes) {
        self.ticks += 1;
        self.missed_ticks += tick.missed;
        self.lateness.record_ns(tick.start_ns.saturating_sub(tick.due_ns));
        self.due_to_done.record_ns(tick.done_ns.saturating_sub(tick.due_ns));
        self.work.record_ns(tick.done_ns.saturating_sub(tick.start_ns));
        if let Some(last) = self.last_start_ns {
            let gap_ns = tick.start_ns.saturating_sub(last + self.period_ns);
            self.longest_gap_ns = self.longest_gap_ns.max(gap_ns);
        }
        self.last_start_ns = Some(tick.start_ns);
    }

    /// The numbers so far; from here on they start again.
    pub(super) fn close(&mut self, counters: &Counters, players: u64) -> ServerWindow {
        let (now_ns, cpu_ns, counts) = (now_ns(), process_cpu_ns(), counters.now());
        let packets = counts.since(&self.opened_counts);
        let window = ServerWindow {
            ticks: std::mem::take(&mut self.ticks),
            missed_ticks: std::mem::take(&mut self.missed_ticks),
            tick_lateness_us: self.lateness.take(),
            due_to_done_us: self.due_to_done.take(),
            work_us: self.work.take(),
            players,
            packets_in: packets.received,
            packets_out: packets.sent,
            dropped_in: packets.drops.total(),
            drops: packets.drops,
            dropped_out: packets.send_failed,
            cpu_us: (cpu_ns - self.opened_cpu_ns) as f64 / 1_000.0,
            span_us: (now_ns - self.opened_ns) as f64 / 1_000.0,
            longest_gap_us: std::mem::take(&mut self.longest_gap_ns) as f64 / 1_000.0,
        };
        (self.opened_ns, self.opened_cpu_ns) = (now_ns, cpu_ns);
        self.opened_counts = counts;
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn tick(due_ms: u64, late_ms: u64, missed: u64) -> TickTimes {
        TickTimes {
            due_ns: due_ms * MS,
            start_ns: (due_ms + late_ms) * MS,
            done_ns: (due_ms + late_ms + 2) * MS,
            missed,
        }
    }

    #[test]
    fn a_window_holds_its_own_ticks_and_packets() {
        let counters = Counters::default();
        counters.received();
        let mut window = Window::open(&counters, 20 * MS);
        counters.received();
        counters.received();
        counters.refused(Refusal::Replayed);
        window.record(tick(100, 1, 0));
        window.record(tick(120, 45, 2)); // began 64 ms after the one before: 44 missing
        let first = window.close(&counters, 3);
        assert_eq!((first.ticks, first.missed_ticks), (2, 2));
        assert_eq!((first.packets_in, first.dropped_in), (2, 1));
        assert_eq!(first.drops.replayed, 1);
        assert_eq!(first.longest_gap_us, 44_000.0);
        assert_eq!(first.players, 3);
        let max_us = [&first.tick_lateness_us, &first.due_to_done_us, &first.work_us];
        for (quantiles, want_us) in max_us.into_iter().zip([45_000.0, 47_000.0, 2_000.0]) {
            let ratio = quantiles.max.unwrap() / want_us;
            assert!((0.998..1.002).contains(&ratio), "{quantiles:?}");
        }

        // Late, but a period after the last one began, in the window before: nothing is missing.
        window.record(tick(180, 5, 0));
        let second = window.close(&counters, 3);
        assert_eq!((second.ticks, second.missed_ticks), (1, 0));
        assert_eq!((second.packets_in, second.dropped_in), (0, 0));
        assert_eq!(second.longest_gap_us, 0.0);
    }
}
