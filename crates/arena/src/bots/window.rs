//! The counts and times of the bots between two `window` commands.

use crate::control::{BotsWindow, Quantiles};
use crate::durations::DurationHistogram;
use crate::time::{now_ns, process_cpu_ns};

/// The window being measured.
pub(super) struct Window {
    opened_ns: u64,
    opened_cpu_ns: u64,
    pub(super) interval: DurationHistogram,
    pub(super) jitter: DurationHistogram,
    pub(super) age: DurationHistogram,
    pub(super) input_to_snapshot: DurationHistogram,
    pub(super) rewound: DurationHistogram,
    pub(super) snapshots: u64,
    pub(super) snapshots_lost: u64,
    pub(super) snapshots_unreadable: u64,
    pub(super) snapshot_bytes: u64,
    pub(super) inputs_sent: u64,
    pub(super) shots: u64,
    pub(super) shots_hit: u64,
    pub(super) shots_too_old: u64,
}

impl Window {
    pub(super) fn open() -> Self {
        Self {
            opened_ns: now_ns(),
            opened_cpu_ns: process_cpu_ns(),
            interval: DurationHistogram::new(),
            jitter: DurationHistogram::new(),
            age: DurationHistogram::new(),
            input_to_snapshot: DurationHistogram::new(),
            rewound: DurationHistogram::new(),
            snapshots: 0,
            snapshots_lost: 0,
            snapshots_unreadable: 0,
            snapshot_bytes: 0,
            inputs_sent: 0,
            shots: 0,
            shots_hit: 0,
            shots_too_old: 0,
        }
    }

    /// Returns the numbers so far, without those of the probe, and starts a new window.
    pub(super) fn close(&mut self) -> BotsWindow {
        let (now_ns, cpu_ns) = (now_ns(), process_cpu_ns());
        let count = std::mem::take::<u64>;
        let window = BotsWindow {
            round_trip_us: Quantiles::default(),
            snapshot_interval_us: self.interval.take(),
            snapshot_jitter_us: self.jitter.take(),
            snapshots: count(&mut self.snapshots),
            snapshots_lost: count(&mut self.snapshots_lost),
            silent_bots: 0,
            pings_lost: 0,
            inputs_sent: count(&mut self.inputs_sent),
            snapshot_age_us: self.age.take(),
            input_to_snapshot_us: self.input_to_snapshot.take(),
            snapshot_bytes: count(&mut self.snapshot_bytes),
            snapshots_unreadable: count(&mut self.snapshots_unreadable),
            shots: count(&mut self.shots),
            shots_hit: count(&mut self.shots_hit),
            shots_too_old: count(&mut self.shots_too_old),
            rewound_us: self.rewound.take(),
            cpu_us: (cpu_ns - self.opened_cpu_ns) as f64 / 1_000.0,
            span_us: (now_ns - self.opened_ns) as f64 / 1_000.0,
        };
        (self.opened_ns, self.opened_cpu_ns) = (now_ns, cpu_ns);
        window
    }
}
