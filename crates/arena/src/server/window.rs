//! The counts and times of the server between two `window` commands.

use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_rt::{ApplyStatus, Done, TickClock};

use crate::control::{Drops, ServerWindow, SinceStart};
use crate::durations::{DurationHistogram, quantiles};
use crate::game::sim::Fired;
use crate::net::gate::Refusal;
use crate::time::{now_ns, process_cpu_ns};

/// Marks a count that the kernel does not report.
const UNKNOWN: u64 = u64::MAX;

/// Datagrams since the start, counted by both threads. Each number is independent, so no ordering is needed.
#[derive(Debug, Default)]
pub(super) struct Counters {
    received: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    send_failed: AtomicU64,
    overflowed: AtomicU64,
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

    pub(super) fn sent(&self, packets: u64, bytes: u64) {
        self.sent.fetch_add(packets, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn send_failed(&self, packets: u64) {
        self.send_failed.fetch_add(packets, Ordering::Relaxed);
    }

    /// Stores how many datagrams did not fit into the socket's buffer so far, if the kernel reports it.
    pub(super) fn overflowed(&self, packets: Option<u64>) {
        self.overflowed.store(packets.unwrap_or(UNKNOWN), Ordering::Relaxed);
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
            sent_bytes: read(&self.sent_bytes),
            send_failed: read(&self.send_failed),
            overflowed: Some(read(&self.overflowed)).filter(|count| *count != UNKNOWN),
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
    sent_bytes: u64,
    send_failed: u64,
    overflowed: Option<u64>,
    drops: Drops,
}

impl Counts {
    fn since(&self, before: &Self) -> Self {
        let (now, then) = (&self.drops, &before.drops);
        Self {
            received: self.received - before.received,
            sent: self.sent - before.sent,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            send_failed: self.send_failed - before.send_failed,
            overflowed: self.overflowed.zip(before.overflowed).map(|(now, then)| now.saturating_sub(then)),
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

/// The window being measured.
#[derive(Debug)]
pub(super) struct Window {
    opened_ns: u64,
    opened_cpu_ns: u64,
    opened_counts: Counts,
    period_ns: u64,
    ticks: u64,
    missed_ticks: u64,
    lateness: DurationHistogram,
    due_to_done: DurationHistogram,
    work: DurationHistogram,
    longest_gap_ns: u64,
    snapshots_full: u64,
    jobs: u64,
    shots: u64,
    shots_hit: u64,
    shots_too_old: u64,
    rewound: DurationHistogram,
    /// When the last tick began. It is kept when a window ends: a gap between two windows belongs to the second.
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
            lateness: DurationHistogram::new(),
            due_to_done: DurationHistogram::new(),
            work: DurationHistogram::new(),
            longest_gap_ns: 0,
            snapshots_full: 0,
            jobs: 0,
            shots: 0,
            shots_hit: 0,
            shots_too_old: 0,
            rewound: DurationHistogram::new(),
            last_start_ns: None,
        }
    }

    pub(super) fn record(&mut self, done: &Done) {
        self.ticks += 1;
        self.missed_ticks += done.tick.missed;
        self.lateness.record_ns(done.lateness_ns());
        self.due_to_done.record_ns(done.due_to_done_ns());
        self.work.record_ns(done.work_ns());
        if let Some(last) = self.last_start_ns {
            let gap_ns = done.tick.began_ns.saturating_sub(last + self.period_ns);
            self.longest_gap_ns = self.longest_gap_ns.max(gap_ns);
        }
        self.last_start_ns = Some(done.tick.began_ns);
    }

    pub(super) fn snapshot(&mut self, is_full: bool) {
        self.snapshots_full += u64::from(is_full);
    }

    pub(super) fn jobs(&mut self, jobs: u64) {
        self.jobs += jobs;
    }

    pub(super) fn shot(&mut self, fired: &Fired) {
        self.shots += 1;
        self.shots_hit += u64::from(fired.hit.is_some());
        self.shots_too_old += u64::from(fired.too_old);
        self.rewound.record_ns(u64::from(fired.rewound) * self.period_ns / 256);
    }

    /// Returns the numbers so far, and starts a new window.
    pub(super) fn close(&mut self, counters: &Counters, players: u64, clock: &TickClock) -> ServerWindow {
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
            bytes_out: packets.sent_bytes,
            dropped_in: packets.drops.total(),
            drops: packets.drops,
            dropped_out: packets.send_failed,
            overflowed_in: packets.overflowed,
            jobs: std::mem::take(&mut self.jobs),
            cpu_us: (cpu_ns - self.opened_cpu_ns) as f64 / 1_000.0,
            span_us: (now_ns - self.opened_ns) as f64 / 1_000.0,
            longest_gap_us: std::mem::take(&mut self.longest_gap_ns) as f64 / 1_000.0,
            snapshots_full: std::mem::take(&mut self.snapshots_full),
            shots: std::mem::take(&mut self.shots),
            shots_hit: std::mem::take(&mut self.shots_hit),
            shots_too_old: std::mem::take(&mut self.shots_too_old),
            rewound_us: self.rewound.take(),
            resident_kib: resident_kib(),
            since_start: since_start(clock),
            thread: thread_in_words(clock),
        };
        (self.opened_ns, self.opened_cpu_ns) = (now_ns, cpu_ns);
        self.opened_counts = counts;
        window
    }
}

/// The figures of the clock itself.
fn since_start(clock: &TickClock) -> SinceStart {
    let report = clock.report();
    SinceStart {
        ticks: report.ticks,
        missed_ticks: report.missed,
        tick_lateness_us: quantiles(report.lateness_ns.as_ref()),
        due_to_done_us: quantiles(report.due_to_done_ns.as_ref()),
        work_us: quantiles(report.work_ns.as_ref()),
        margin_us: report.margin_ns as f64 / 1_000.0,
    }
}

/// The resident memory of this process, in KiB. None if the kernel does not report it.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn thread_in_words(clock: &TickClock) -> String {
    let Some(report) = clock.thread() else {
        return "not set up".to_owned();
    };
    let settings = [("short slice", report.slice), ("timer slack", report.timer_slack), ("real-time", report.fifo)];
    let parts = settings.into_iter().filter_map(|(setting, status)| match status {
        ApplyStatus::NotRequested => None,
        ApplyStatus::Active => Some(format!("{setting} in force")),
        ApplyStatus::Refused(errno) => Some(format!("{setting} refused ({errno})")),
        ApplyStatus::Suspended => Some(format!("{setting} relieved: the tick took nearly all of its CPU")),
        ApplyStatus::NoEffect => Some(format!("{setting} without effect")),
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "as the kernel treats any thread".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use evenkeel_rt::{Tick, TickSettings};

    use super::*;

    const MS: u64 = 1_000_000;

    fn tick(due_ms: u64, late_ms: u64, missed: u64) -> Done {
        let tick = Tick { number: 0, due_ns: due_ms * MS, began_ns: (due_ms + late_ms) * MS, missed };
        Done { tick, done_ns: (due_ms + late_ms + 2) * MS }
    }

    #[test]
    fn a_window_holds_its_own_ticks_and_packets() {
        let counters = Counters::default();
        let clock = TickClock::start(TickSettings::default()).unwrap();
        counters.received();
        let mut window = Window::open(&counters, 20 * MS);
        counters.received();
        counters.received();
        counters.refused(Refusal::Replayed);
        counters.sent(1, 100);
        for rewound in [512, 256] {
            window.shot(&Fired { rewound, too_old: rewound > 300, hit: None });
        }
        window.record(&tick(100, 1, 0));
        window.record(&tick(120, 45, 2)); // began 64 ms after the one before: 44 missing
        let first = window.close(&counters, 3, &clock);
        assert_eq!((first.ticks, first.missed_ticks), (2, 2));
        assert_eq!((first.packets_in, first.dropped_in), (2, 1));
        assert_eq!(first.drops.replayed, 1);
        assert_eq!((first.packets_out, first.bytes_out), (1, 100));
        assert_eq!((first.shots, first.shots_hit, first.shots_too_old), (2, 0, 1));
        let rewound_us = first.rewound_us.max.unwrap();
        assert!((39_900.0..40_100.0).contains(&rewound_us), "{rewound_us}");
        assert!(first.resident_kib.unwrap() > 100);
        assert_eq!(first.longest_gap_us, 44_000.0);
        assert_eq!(first.players, 3);
        let max_us = [&first.tick_lateness_us, &first.due_to_done_us, &first.work_us];
        for (quantiles, want_us) in max_us.into_iter().zip([45_000.0, 47_000.0, 2_000.0]) {
            let ratio = quantiles.max.unwrap() / want_us;
            assert!((0.998..1.002).contains(&ratio), "{quantiles:?}");
        }

        // This tick is late, but it comes one period after the previous tick, which began in the earlier window. So no time is missing.
        window.record(&tick(180, 5, 0));
        let second = window.close(&counters, 3, &clock);
        assert_eq!((second.ticks, second.missed_ticks), (1, 0));
        assert_eq!((second.packets_in, second.dropped_in), (0, 0));
        assert_eq!(second.longest_gap_us, 0.0);
    }
}
