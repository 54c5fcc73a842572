//! Observes the tick of a server from outside, by the kernel's switch records of the tick's thread.
//! The source is for servers that do not report their ticks.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_hostfs::proc::ProcessStat;
use evenkeel_measure::Watch;
use evenkeel_measure::meters::ticks::account::{Account, Due};
use evenkeel_measure::meters::ticks::choice::Wanted;
use evenkeel_measure::meters::ticks::loops::{TickLoop, Waits};
use evenkeel_measure::meters::ticks::stream::Stream;
use evenkeel_measure::meters::ticks::tempo::Pacing;
use evenkeel_measure::meters::ticks::threads::tasks;
use evenkeel_measure::meters::ticks::views::Workers;
use evenkeel_measure::meters::ticks::watcher::{Watched, Watcher};
use evenkeel_measure::meters::ticks::{self, share_followed, tick_account};
use evenkeel_stats::{Direction, quantile};
use evenkeel_sys::{clock, schedstat};

use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::source::Source;
use crate::unclear_tick::UnclearTick;
use crate::workload::Sample;

/// The measurement fails after this many consecutive windows in which the server got no CPU.
const WITHOUT_CPU_MAX: u32 = 8;

/// How long evenkeel watches a server to find its tick: the first attempt, and the maximum if the first attempt does not suffice.
const LOOK_NS: u64 = 3_000_000_000;
const LOOK_MOST_NS: u64 = 9_000_000_000;
/// A quantile of ticks may decide a trial only if the tick rate is at least this high, in Hz.
const P99_HZ_MIN: f64 = 500.0;
const P90_HZ_MIN: f64 = 100.0;

/// Arms may be interleaved within a window if evenkeel can follow the tick in at least this share of short stretches.
/// The next constants are the number of ticks in a stretch, and the minimum length of a stretch.
const TURNS_FOLLOWED_MIN: f64 = 0.9;
const TURN_TICKS: f64 = 5.0;
const TURN_NS: f64 = 250e6;
/// A window with fewer ticks does not change the expected rate.
const TEMPO_TICKS_MIN: u64 = 12;

/// The metrics of this source. [`OutsideTicks::metrics`] puts the metric that decides first.
pub const METRICS: &[Metric] = &[
    Metric::us(
        "due_to_done_us_p99",
        "99th percentile of the time from a tick's due time until it is done, observed from outside",
    ),
    Metric::us(
        "due_to_done_us_p90",
        "90th percentile of the time from a tick's due time until it is done, observed from outside",
    ),
    Metric::us("due_to_done_us_p50", "median time from a tick's due time until it is done, observed from outside"),
    Metric::us("tick_lateness_us_p50", "median lateness of the server's tick, observed from outside"),
    Metric::us("tick_lateness_us_p99", "99th percentile of the lateness of the server's tick, observed from outside"),
    Metric::us("tick_interval_us_p50", "median time from one tick to the next, observed from outside"),
    Metric::us("tick_interval_us_p99", "99th percentile of the time from one tick to the next, observed from outside"),
    Metric::us("tick_work_us_p50", "median time that a tick is on a CPU"),
    Metric::us("tick_work_us_p99", "99th percentile of the time that a tick is on a CPU"),
    Metric::us("tick_wall_us_p50", "median time from a tick's beginning to its end, observed from outside"),
    Metric::us(
        "tick_wall_us_p90",
        "90th percentile of the time from a tick's beginning to its end, observed from outside",
    ),
    Metric::us(
        "tick_wall_us_p99",
        "99th percentile of the time from a tick's beginning to its end, observed from outside",
    ),
    Metric::new("missed_ticks_share", "ticks that did not begin before the next was due", "share", Direction::Lower),
    Metric::new(
        "preempted_ticks_share",
        "ticks that lost the CPU while they had work to do",
        "share",
        Direction::Lower,
    ),
];

/// A server whose tick is observed.
pub struct OutsideTicks {
    watcher: Watcher,
    tick: TickLoop,
    /// Whether evenkeel can follow the tick in a window of a quarter of a second, or of five ticks if these take longer.
    takes_turns: bool,
    /// Whether due times are known, so that lateness can be measured.
    has_due: bool,
    /// How long after the requested wake time the earliest ticks begin, from the last measurement. None if unknown.
    asked_ns: Option<f64>,
    /// The kernel's counts of the busiest thread at the beginning of the window.
    begun: Option<Counted>,
    /// The number of consecutive windows in which the thread got no CPU, up to now.
    without_cpu: u32,
}

/// The kernel's counts of a thread.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at_ns: u64,
    ran_ns: u64,
    /// How long the thread was ready but had no CPU. A wait that still continues is not included.
    waited_ns: u64,
    is_ready: bool,
}

impl Counted {
    fn read(tid: u32) -> Option<Counted> {
        let (ran_ns, waited_ns, _) = schedstat::of_thread(tid)?;
        let is_ready = ProcessStat::read(tid)?.state == 'R';
        Some(Counted { at_ns: clock::monotonic_ns(), ran_ns, waited_ns, is_ready })
    }

    /// How long the thread was ready but had no CPU since `before`. None unless the wait was most of the time.
    fn starved_since(&self, before: &Counted) -> Option<u64> {
        let span_ns = self.at_ns.saturating_sub(before.at_ns);
        let ran_ns = self.ran_ns.saturating_sub(before.ran_ns);
        let still_ns = if self.is_ready { span_ns.saturating_sub(ran_ns) } else { 0 };
        let waited_ns = self.waited_ns.saturating_sub(before.waited_ns).min(span_ns).max(still_ns);
        (waited_ns > span_ns / 2).then_some(waited_ns)
    }
}

impl OutsideTicks {
    /// Watches the threads of `pids` for some three seconds. Then follows the `wanted` loop.
    /// By default, this is the loop with most of the work.
    ///
    /// # Errors
    /// Fails if the processes do not exist or may not be watched, if the tick loop is unclear, or if the user asked to stop.
    pub fn start(pids: &[u32], wanted: &Wanted, stop: &AtomicBool) -> Result<OutsideTicks, WorkloadError> {
        let failed = |why: String| WorkloadError::Program { program: "the server's threads".to_owned(), why };
        let settings = ticks::Settings { pids: pids.to_vec(), wanted: wanted.clone(), for_ns: LOOK_NS };
        let found = ticks::look(&settings, LOOK_MOST_NS, &Watch::new(stop, &|_, _| {}));
        // The user stopped the watch early, so its result shows nothing about the server.
        if stop.load(Ordering::Relaxed) {
            return Err(WorkloadError::Stopped);
        }
        let (choice, stream) = found.map_err(|error| failed(error.to_string()))?;
        let tick = match choice.tick() {
            Ok(tick) => tick.clone(),
            Err(why) => return Err(WorkloadError::UnclearTick(Box::new(UnclearTick::new(why, &choice, &stream)))),
        };
        let watched = match tick.of {
            Workers::Thread(tid) => {
                let pid = tick.carriers.first().map_or(0, |carrier| carrier.pid);
                Watched::Threads(vec![(pid, tid)])
            }
            Workers::Pool(_) | Workers::Process | Workers::Function(_) => {
                // If the server has more threads than evenkeel can watch, the threads that do the tick's work come first.
                let mut threads: Vec<(u32, u32)> = pids.iter().flat_map(|pid| tasks(*pid)).collect();
                threads.sort_by_key(|(_, tid)| !tick.carriers.iter().any(|carrier| carrier.tid == *tid));
                Watched::Growing(threads)
            }
        };
        let function = wanted.function.as_ref().map(|function| function.probed(pids)).transpose();
        let function = function.map_err(|error| failed(error.to_string()))?;
        let watcher = Watcher::start(&watched, function);
        let watcher = watcher.map_err(|errno| failed(format!("watch {}: {errno}", tick.workers())))?;
        let asked_ns = tick_account(&stream, &tick, None).ok().and_then(|account| account.asked_ns);
        let has_due = asked_ns.is_some() || tick.tempo.pacing == Pacing::FixedTimes;
        let turn_ns = (TURN_TICKS * tick.tempo.period_ns).max(TURN_NS) as u64;
        let takes_turns = share_followed(&stream, &tick, turn_ns) >= TURNS_FOLLOWED_MIN;
        Ok(OutsideTicks { watcher, tick, takes_turns, has_due, asked_ns, begun: None, without_cpu: 0 })
    }

    /// The tick rate in Hz.
    pub fn hz(&self) -> f64 {
        self.tick.tempo.hz()
    }

    /// The thread that does most of the tick's work.
    fn busiest(&self) -> Option<u32> {
        self.tick.carriers.first().map(|carrier| carrier.tid)
    }

    fn error(&self, why: impl Into<String>) -> WorkloadError {
        WorkloadError::Program { program: self.who(), why: why.into() }
    }

    fn who(&self) -> String {
        self.tick.workers()
    }
}

/// The name of the default metric: a quantile for which a second has enough ticks.
/// If due times are known, it is the quantile of the time from due to done.
fn usual_metric(hz: f64, has_due: bool) -> String {
    let quantile = match hz {
        hz if hz >= P99_HZ_MIN => "p99",
        hz if hz >= P90_HZ_MIN => "p90",
        _ => "p50",
    };
    format!("{}_us_{quantile}", if has_due { "due_to_done" } else { "tick_wall" })
}

impl Source for OutsideTicks {
    fn describe(&self) -> String {
        let pacing = match self.tick.tempo.pacing {
            Pacing::FixedTimes => "at set times",
            Pacing::Chained => "chained",
            Pacing::Unknown => "at set times or chained (unclear which)",
        };
        let polls = match self.tick.waits {
            Waits::PollsFor { ns } if self.tick.within_hz.is_some() => format!(", begun by a poll of {} us", ns / 1000),
            _ => String::new(),
        };
        let begins = match &self.tick.of {
            Workers::Function(name) => format!(" and entries of {name}"),
            _ => String::new(),
        };
        format!(
            "tick of {} observed from outside by switch records{begins}, {:.1} Hz {pacing}{polls}",
            self.who(),
            self.hz()
        )
    }

    /// Leaves out the thread, the rate and the pacing, because each start determines these again.
    fn identity(&self) -> String {
        "tick observed from outside by switch records".to_owned()
    }

    /// The metrics, with the default first.
    fn metrics(&self) -> Vec<Metric> {
        let usual = usual_metric(self.hz(), self.has_due);
        let needs_due = |metric: &Metric| ["due_to_done", "tick_lateness"].iter().any(|of| metric.name.starts_with(of));
        let mut metrics: Vec<Metric> =
            METRICS.iter().filter(|metric| self.has_due || !needs_due(metric)).cloned().collect();
        metrics.sort_by_key(|metric| metric.name != usual);
        metrics
    }

    fn events_per_s(&self) -> Option<f64> {
        Some(self.hz())
    }

    fn takes_turns(&self) -> bool {
        self.takes_turns
    }

    fn begin(&mut self) -> Result<(), WorkloadError> {
        self.begun = self.busiest().and_then(Counted::read);
        self.watcher.begin();
        Ok(())
    }

    fn end(&mut self) -> Result<Sample, WorkloadError> {
        let stream = self.watcher.end();
        let now = self.busiest().and_then(Counted::read);
        if stream.threads.is_empty() || stream.threads.iter().all(|thread| thread.is_over) {
            return Err(self.error("it has ended"));
        }
        if stream.threads.iter().any(|thread| thread.is_too_much && Some(thread.tid) == self.busiest()) {
            return Err(self.error("it now wakes far more often than any tick, so evenkeel stopped observing it"));
        }
        let account = tick_account(&stream, &self.tick, self.asked_ns);
        // A thread without a CPU is reported only if the window has no value.
        // If the window has a value, that value already contains the wait. The trial must measure such waits.
        if let (Err(_), Some(begun), Some(now)) = (&account, &self.begun, &now)
            && let Some(waited_ns) = now.starved_since(begun)
        {
            self.without_cpu += 1;
            return Err(no_cpu(&self.who(), self.without_cpu, waited_ns, now.at_ns.saturating_sub(begun.at_ns)));
        }
        self.without_cpu = 0;
        let account = account.map_err(|why| {
            let wakes: usize = stream.threads.iter().map(|thread| thread.wakes.len()).sum();
            let seen = format!("{wakes} wakes were recorded, {} records lost", stream.unseen.records);
            WorkloadError::NoValue {
                program: self.who(),
                why: format!("evenkeel saw no tick in this window: {why} ({seen})"),
            }
        })?;
        self.asked_ns = account.asked_ns.or(self.asked_ns);
        // With few ticks, the measured rate is too inexact to predict the next ticks.
        if account.ticks >= TEMPO_TICKS_MIN {
            self.tick.tempo = account.tempo;
        }
        Ok(sample(&account, &stream))
    }
}

/// The error for a window in which a thread got no CPU. The window is dropped, unless too many such windows came in a row.
fn no_cpu(who: &str, in_a_row: u32, waited_ns: u64, span_ns: u64) -> WorkloadError {
    let (program, waited_ms, span_ms) = (who.to_owned(), waited_ns / 1_000_000, span_ns / 1_000_000);
    if in_a_row < WITHOUT_CPU_MAX {
        return WorkloadError::NoCpu { program, waited_ms, span_ms };
    }
    let why = format!(
        "it was ready to run and got no CPU in {in_a_row} windows in a row, for {waited_ms} ms of the {span_ms} ms of the last: \
         other work has its CPU (`evenkeel measure gaps` shows which)"
    );
    WorkloadError::Program { program, why }
}

/// The values of a window, including the number of lost records.
fn sample(account: &Account, stream: &Stream) -> Sample {
    let span_ns = stream.span_ns() as f64;
    let due = account.ticks + account.missed + account.hidden;
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let mut sample = Sample::from(
        [
            ("tick_hz", account.tempo.hz()),
            ("ticks", account.ticks as f64),
            ("missed_ticks", account.missed as f64),
            ("missed_ticks_share", share(account.missed, due)),
            ("hidden_ticks", account.hidden as f64),
            ("preempted_ticks_share", share(account.preempted_ticks, account.ticks)),
            ("moved_ticks_share", share(account.moved_ticks, account.ticks)),
            ("other_wakes_per_s", account.other_wakes as f64 / span_ns * 1e9),
            ("tick_work_share", account.work_share),
            ("due_as_asked", f64::from(u8::from(account.due == Due::AsAsked))),
            ("switch_records_lost", (stream.unseen.records + stream.unseen.wakes) as f64),
            ("switch_ring_overflows", stream.unseen.overflows as f64),
            ("observer_cpu_share", stream.reader_cpu_ns as f64 / span_ns),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let lists = [
        ("tick_interval_us", &account.interval_ns),
        ("tick_lateness_us", &account.lateness_ns),
        ("tick_work_us", &account.work_ns),
        ("tick_wall_us", &account.wall_ns),
        ("due_to_done_us", &account.due_to_done_ns),
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
    fn the_default_quantile_has_enough_ticks_in_a_second() {
        let table = [
            (20.0, true, "due_to_done_us_p50"),
            (100.0, true, "due_to_done_us_p90"),
            (500.0, true, "due_to_done_us_p99"),
            (20.0, false, "tick_wall_us_p50"),
        ];
        for (hz, has_due, metric) in table {
            assert_eq!(usual_metric(hz, has_due), metric, "{hz} Hz");
            assert!(METRICS.iter().any(|known| known.name == metric), "{metric}");
        }
    }

    #[test]
    fn a_starved_thread_is_distinguished_from_a_sleeping_or_working_one() {
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
        assert!(Counted::read(std::process::id()).is_some_and(|us| us.ran_ns > 0));
    }

    #[test]
    fn windows_without_a_cpu_are_dropped_until_there_are_too_many_in_a_row() {
        let error = |in_a_row| no_cpu("main (thread 7)", in_a_row, 390_000_000, 400_000_000);
        assert!(matches!(error(1), WorkloadError::NoCpu { waited_ms: 390, span_ms: 400, .. }));
        assert!(matches!(error(WITHOUT_CPU_MAX - 1), WorkloadError::NoCpu { .. }));
        let last = error(WITHOUT_CPU_MAX).to_string();
        let expected = "measure main (thread 7): it was ready to run and got no CPU in 8 windows in a row, for 390 ms of the 400 ms";
        assert!(last.starts_with(expected), "{last}");
    }
}
