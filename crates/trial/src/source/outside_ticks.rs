//! A server's tick seen from outside, by the kernel's records of when its thread was given a CPU: for servers that tell nothing.

use std::sync::atomic::AtomicBool;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::ticks::account::{Account, Due, account};
use evenkeel_measure::meters::ticks::tempo::Tempo;
use evenkeel_measure::meters::ticks::threads::look;
use evenkeel_measure::meters::ticks::watcher::{Watcher, Window};
use evenkeel_stats::{Direction, quantile};

use crate::error::TrialError;
use crate::metric::Metric;
use crate::source::Source;
use crate::workload::Sample;

/// What it yields, the usual one first.
pub const METRICS: &[Metric] = &[
    Metric::us(
        "due_to_done_us_p99",
        "99th percentile of the time from a tick's due time until it is done, seen from outside",
    ),
    Metric::us("due_to_done_us_p50", "median time from a tick's due time until it is done, seen from outside"),
    Metric::us("tick_lateness_us_p50", "median lateness of the server's tick, seen from outside"),
    Metric::us("tick_lateness_us_p99", "99th percentile of the lateness of the server's tick, seen from outside"),
    Metric::us("tick_interval_us_p50", "median time from one tick to the next, seen from outside"),
    Metric::us("tick_interval_us_p99", "99th percentile of the time from one tick to the next, seen from outside"),
    Metric::us("tick_work_us_p50", "median time that a tick is on a CPU"),
    Metric::us("tick_work_us_p99", "99th percentile of the time that a tick is on a CPU"),
    Metric::us("tick_wall_us_p50", "median time from a tick's beginning to its end, seen from outside"),
    Metric::us("tick_wall_us_p99", "99th percentile of the time from a tick's beginning to its end, seen from outside"),
    Metric::new("missed_ticks_share", "ticks that did not begin before the next was due", "share", Direction::Lower),
    Metric::new(
        "preempted_ticks_share",
        "ticks that lost the CPU while they had work to do",
        "share",
        Direction::Lower,
    ),
];

/// A watched thread of the server.
pub struct OutsideTicks {
    watcher: Watcher,
    name: String,
    tid: u32,
    tempo: Tempo,
    /// How long after what was asked for the earliest ticks begin, as it was last seen.
    asked_ns: Option<f64>,
}

impl OutsideTicks {
    /// Looks at the threads of `pids` for some three seconds, and watches the one that keeps time and works most; or the one of this name.
    ///
    /// # Errors
    /// If the processes are not there, may not be watched, or no tick is to be seen.
    pub fn of(pids: &[u32], thread: Option<&str>) -> Result<OutsideTicks, TrialError> {
        let failed = |why: String| TrialError::Workload { program: "the server's threads".to_owned(), why };
        let stop = AtomicBool::new(false);
        let found = look(pids, thread, &Watch::new(&stop, &|_, _| {})).map_err(|error| failed(error.to_string()))?;
        let chosen = found.chosen;
        let Some(tempo) = chosen.tempo else {
            let why = chosen.why.map_or_else(|| "nothing was seen of it".to_owned(), |why| why.to_string());
            let who = format!("{} (thread {})", chosen.name, chosen.tid);
            return Err(failed(format!(
                "no tick is to be seen from outside: {who} works most of those watched, and {why}"
            )));
        };
        let watcher =
            Watcher::of(chosen.tid).map_err(|errno| failed(format!("watch thread {}: {errno}", chosen.tid)))?;
        Ok(OutsideTicks { watcher, name: chosen.name, tid: chosen.tid, tempo, asked_ns: None })
    }

    fn error(&self, why: impl Into<String>) -> TrialError {
        TrialError::Workload { program: format!("{} (thread {})", self.name, self.tid), why: why.into() }
    }
}

impl Source for OutsideTicks {
    fn describe(&self) -> String {
        format!(
            "tick of thread {} ({}) seen from outside by switch records, {:.1} Hz",
            self.name,
            self.tid,
            self.tempo.hz()
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        METRICS.to_vec()
    }

    fn begin(&mut self) -> Result<(), TrialError> {
        self.watcher.begin();
        Ok(())
    }

    fn end(&mut self) -> Result<Sample, TrialError> {
        let window = self.watcher.end();
        if window.is_over {
            return Err(self.error("it has ended"));
        }
        if window.is_too_much {
            return Err(self.error("it wakes far more often than any tick now, and was not watched on"));
        }
        let told = account(&window.wakes, &window.asked, Some(&self.tempo), self.asked_ns);
        let told = told.map_err(|why| {
            let seen = format!("{} wakes were seen, {} records lost", window.wakes.len(), window.unseen.records);
            self.error(format!("no tick was to be seen in this window: {why} ({seen})"))
        })?;
        (self.tempo, self.asked_ns) = (told.tempo, told.asked_ns.or(self.asked_ns));
        Ok(sample(&told, &window))
    }
}

/// The numbers of a window, what was lost among them.
fn sample(told: &Account, window: &Window) -> Sample {
    let span_ns = window.to_ns.saturating_sub(window.from_ns).max(1) as f64;
    let due = told.ticks + told.missed + told.hidden;
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let mut sample = Sample::from(
        [
            ("tick_hz", told.tempo.hz()),
            ("ticks", told.ticks as f64),
            ("missed_ticks", told.missed as f64),
            ("missed_ticks_share", share(told.missed, due)),
            ("hidden_ticks", told.hidden as f64),
            ("preempted_ticks_share", share(told.preempted_ticks, told.ticks)),
            ("moved_ticks_share", share(told.moved_ticks, told.ticks)),
            ("other_wakes_per_s", told.other_wakes as f64 / span_ns * 1e9),
            ("tick_work_share", told.work_share),
            ("due_as_asked", f64::from(u8::from(told.due == Due::AsAsked))),
            ("switch_records_lost", (window.unseen.records + window.unseen.wakes) as f64),
            ("switch_ring_overflows", window.unseen.overflows as f64),
            ("observer_cpu_share", window.reader_cpu_ns as f64 / span_ns),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let lists = [
        ("tick_interval_us", &told.interval_ns),
        ("tick_lateness_us", &told.lateness_ns),
        ("tick_work_us", &told.work_ns),
        ("tick_wall_us", &told.wall_ns),
        ("due_to_done_us", &told.due_to_done_ns),
    ];
    for (name, list) in lists {
        let values: Vec<f64> = list.iter().map(|ns| *ns as f64 / 1e3).collect();
        for (quantile_name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            sample.extend(quantile(&values, q).map(|value| (format!("{name}_{quantile_name}"), value)));
        }
    }
    sample
}
