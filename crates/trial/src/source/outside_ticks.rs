//! A server's tick seen from outside, by the kernel's records of when its thread was given a CPU: for servers that tell nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_measure::Watch;
use evenkeel_measure::meters::ticks::account::{Account, Due, account};
use evenkeel_measure::meters::ticks::tempo::Tempo;
use evenkeel_measure::meters::ticks::threads::look;
use evenkeel_measure::meters::ticks::watcher::{Watcher, Window};
use evenkeel_stats::{Direction, quantile};
use evenkeel_sys::clock;
use evenkeel_sys::schedstat::parse_schedstat;

use crate::error::TrialError;
use crate::metric::Metric;
use crate::processes::Stat;
use crate::source::Source;
use crate::workload::Sample;

/// Windows in a row without a CPU after which no better one is to be hoped for.
const WITHOUT_CPU_MAX: u32 = 8;

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
    /// What the kernel had counted of the thread when the window began.
    begun: Option<Counted>,
    /// Windows in a row, up to now, in which it was given no CPU.
    without_cpu: u32,
}

/// What the kernel counts of a thread that is looked at from outside.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at_ns: u64,
    ran_ns: u64,
    /// Of turns that came: one that is waited for still is not in it.
    waited_ns: u64,
    is_ready: bool,
}

impl Counted {
    fn of(tid: u32) -> Option<Counted> {
        let (ran_ns, waited_ns, _) = parse_schedstat(&std::fs::read(format!("/proc/{tid}/schedstat")).ok()?)?;
        let is_ready = Stat::of(tid)?.state == 'R';
        Some(Counted { at_ns: clock::monotonic_ns(), ran_ns, waited_ns, is_ready })
    }

    /// How long the thread was ready to run since `before` without a CPU, where that was for most of the time.
    fn starved_since(&self, before: &Counted) -> Option<u64> {
        let span_ns = self.at_ns.saturating_sub(before.at_ns);
        let ran_ns = self.ran_ns.saturating_sub(before.ran_ns);
        let still_ns = if self.is_ready { span_ns.saturating_sub(ran_ns) } else { 0 };
        let waited_ns = self.waited_ns.saturating_sub(before.waited_ns).min(span_ns).max(still_ns);
        (waited_ns > span_ns / 2).then_some(waited_ns)
    }
}

impl OutsideTicks {
    /// Looks at the threads of `pids` for some three seconds, and watches the one that keeps time and works most; or the one of this name.
    ///
    /// # Errors
    /// If the processes are not there, may not be watched, or no tick is to be seen; or if the user asked to stop.
    pub fn of(pids: &[u32], thread: Option<&str>, stop: &AtomicBool) -> Result<OutsideTicks, TrialError> {
        let failed = |why: String| TrialError::Workload { program: "the server's threads".to_owned(), why };
        let found = look(pids, thread, &Watch::new(stop, &|_, _| {}));
        // A look that was cut short tells nothing of the server.
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Stopped);
        }
        let found = found.map_err(|error| failed(error.to_string()))?;
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
        Ok(OutsideTicks {
            watcher,
            name: chosen.name,
            tid: chosen.tid,
            tempo,
            asked_ns: None,
            begun: None,
            without_cpu: 0,
        })
    }

    fn error(&self, why: impl Into<String>) -> TrialError {
        TrialError::Workload { program: self.who(), why: why.into() }
    }

    fn who(&self) -> String {
        format!("{} (thread {})", self.name, self.tid)
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
        self.begun = Counted::of(self.tid);
        self.watcher.begin();
        Ok(())
    }

    fn end(&mut self) -> Result<Sample, TrialError> {
        let window = self.watcher.end();
        let now = Counted::of(self.tid);
        if window.is_over {
            return Err(self.error("it has ended"));
        }
        if window.is_too_much {
            return Err(self.error("it wakes far more often than any tick now, and was not watched on"));
        }
        let told = account(&window.wakes, &window.asked, Some(&self.tempo), self.asked_ns);
        // Only where there is no number: one that shows how long the tick had to wait is what is measured.
        if let (Err(_), Some(begun), Some(now)) = (&told, &self.begun, &now)
            && let Some(waited_ns) = now.starved_since(begun)
        {
            self.without_cpu += 1;
            return Err(no_cpu(&self.who(), self.without_cpu, waited_ns, now.at_ns.saturating_sub(begun.at_ns)));
        }
        self.without_cpu = 0;
        let told = told.map_err(|why| {
            let seen = format!("{} wakes were seen, {} records lost", window.wakes.len(), window.unseen.records);
            TrialError::NoValue {
                program: self.who(),
                why: format!("no tick was to be seen in this window: {why} ({seen})"),
            }
        })?;
        (self.tempo, self.asked_ns) = (told.tempo, told.asked_ns.or(self.asked_ns));
        Ok(sample(&told, &window))
    }
}

/// Of a window in which a thread was given no CPU, the latest of so many in a row: it is dropped, unless they are too many.
fn no_cpu(who: &str, in_a_row: u32, waited_ns: u64, span_ns: u64) -> TrialError {
    let (program, waited_ms, span_ms) = (who.to_owned(), waited_ns / 1_000_000, span_ns / 1_000_000);
    if in_a_row < WITHOUT_CPU_MAX {
        return TrialError::NoCpu { program, waited_ms, span_ms };
    }
    let why = format!(
        "it was ready to run and was given no CPU in {in_a_row} windows in a row, for {waited_ms} ms of the {span_ms} ms of the last: \
         somebody else has its CPU (`evenkeel measure gaps` tells who)"
    );
    TrialError::Workload { program, why }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_a_cpu_is_told_from_one_that_sleeps_or_works() {
        let ms = 1_000_000;
        let counted = |at_ms, ran_ms, waited_ms, is_ready| Counted {
            at_ns: at_ms * ms,
            ran_ns: ran_ms * ms,
            waited_ns: waited_ms * ms,
            is_ready,
        };
        let begun = counted(1000, 70, 5, false);
        for (what, now, expected_ms) in [
            ("it sleeps", counted(1400, 70, 5, false), None),
            ("it works", counted(1400, 465, 7, true), None),
            ("it waited, and has had its turn", counted(1400, 75, 355, false), Some(350)),
            ("it waits still", counted(1400, 80, 5, true), Some(390)),
            ("it waited for a moment", counted(1400, 200, 100, false), None),
            ("it had waited for long before", counted(1400, 75, 3005, false), Some(400)),
        ] {
            assert_eq!(now.starved_since(&begun), expected_ms.map(|wait: u64| wait * ms), "{what}");
        }
        assert!(Counted::of(std::process::id()).is_some_and(|us| us.ran_ns > 0));
    }

    #[test]
    fn windows_without_a_cpu_are_dropped_until_there_are_too_many_in_a_row() {
        let told = |in_a_row| no_cpu("main (thread 7)", in_a_row, 390_000_000, 400_000_000);
        assert!(matches!(told(1), TrialError::NoCpu { waited_ms: 390, span_ms: 400, .. }));
        assert!(matches!(told(WITHOUT_CPU_MAX - 1), TrialError::NoCpu { .. }));
        let last = told(WITHOUT_CPU_MAX).to_string();
        let expected = "hear from main (thread 7): it was ready to run and was given no CPU in 8 windows in a row, for 390 ms of the 400 ms";
        assert!(last.starts_with(expected), "{last}");
    }
}
