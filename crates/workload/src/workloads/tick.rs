//! `tick`: a plain tick loop, without a game and without packets. Its lateness depends only on the machine and on the loop's way to sleep.

use std::time::Duration;

use evenkeel_stats::Direction;
use serde_json::{Value, json};

use crate::entry::{Entry, Options, number, unknown};
use crate::error::WorkloadError;
use crate::kit::pair::{Pair, arguments, parts};
use crate::metric::Metric;
use crate::workload::{Sample, Workload};

const NAME: &str = "tick";
const SLACK: &str = "process.timer_slack_ns";

/// A trial compares ratios. The number of missed ticks is 0 in most windows, which cannot form a ratio.
/// So the metric that can decide is the share of ticks that were not missed. `missed` is only reported.
const METRICS: &[Metric] = &[
    Metric::us("tick_lateness_us_p50", "median lateness of a tick"),
    Metric::us("tick_lateness_us_p90", "90th percentile of the lateness of a tick"),
    Metric::us("tick_lateness_us_p99", "99th percentile of the lateness of a tick"),
    Metric::us("due_to_done_us_p50", "median time from a tick's due time until it is done"),
    Metric::us("due_to_done_us_p99", "99th percentile of the time from a tick's due time until it is done"),
    Metric::new("kept_share", "share of the ticks that were not missed", "share", Direction::Higher),
    Metric::new("cpu_share", "CPU time of the server in one CPU's", "share", Direction::Lower),
];

/// The registry entry of the workload.
pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    title: "a bare tick loop of evenkeel-rt, or one that sleeps as most servers do",
    install: None,
    settings: &[
        ("hz=200", "ticks a second, 10 to 2000"),
        ("work-us=100", "time that a tick is busy, in microseconds, 0 to 100000"),
        (
            "how=nanosleep",
            "how it waits: nanosleep (clock_nanosleep, as most servers do), timerfd (which timer slack does not touch), steady \
             (evenkeel-rt: short slice, exact timers, a learned margin waited out awake)",
        ),
    ],
    metrics: &[METRICS],
    start: |options| Ok(Box::new(Tick::start(options)?)),
};

/// The running tick loop.
struct Tick {
    pair: Pair,
    hz: u64,
    work_us: u64,
    how: String,
    /// The timer slack of the tick thread when it started, in nanoseconds.
    slack_ns_before: u64,
}

impl Tick {
    fn start(options: &Options) -> Result<Tick, WorkloadError> {
        let (mut hz, mut work_us, mut how) = (200, 100, "nanosleep");
        for (name, value) in &options.set {
            match name.as_str() {
                "hz" => hz = number(name, value, 10..=2000)?,
                "work-us" => work_us = number(name, value, 0..=100_000)?,
                "how" if ["nanosleep", "timerfd", "steady"].contains(&value.as_str()) => how = value,
                "how" => {
                    return Err(WorkloadError::setting(name, value, "expected nanosleep, timerfd or steady"));
                }
                _ => return Err(unknown(&ENTRY, name)),
            }
        }
        let mut server = arguments("tick", &[("hz", hz), ("work-us", work_us)]);
        server.extend(["--how".to_owned(), how.to_owned()]);
        let pair = Pair::start(parts(options, server, None))?;
        let mut tick = Tick { pair, hz, work_us, how: how.to_owned(), slack_ns_before: 0 };
        tick.slack_ns_before = tick.slack_ns(None)?;
        Ok(tick)
    }

    fn slack_ns(&mut self, value: Option<u64>) -> Result<u64, WorkloadError> {
        let answer = self.pair.ask_server(&json!({"cmd": "timer_slack_ns", "value": value}))?;
        let slack_ns = answer.get("timer_slack_ns").and_then(Value::as_u64);
        slack_ns.ok_or_else(|| self.pair.server_error(format!("it answered {answer} to a question for its slack")))
    }
}

impl Workload for Tick {
    fn describe(&self) -> String {
        let Tick { hz, work_us, how, .. } = self;
        format!("tick: {hz} ticks a second, busy for {work_us} us in each, waiting by {how}; {}", self.pair.place())
    }

    fn metrics(&self) -> &[Metric] {
        METRICS
    }

    fn ticks_per_s(&self) -> Option<f64> {
        Some(self.hz as f64)
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn pids(&self) -> Vec<u32> {
        self.pair.pids()
    }

    /// The loop can set its own timer slack without a privilege.
    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        if knob != SLACK {
            return self.pair.set(knob, value);
        }
        let wanted = match value {
            None => self.slack_ns_before,
            Some(value) => number("process.timer_slack_ns", value, 1..=1_000_000_000)?,
        };
        self.slack_ns(Some(wanted)).map(|slack_ns| slack_ns.to_string())
    }

    fn restart(&mut self) -> Result<(), WorkloadError> {
        self.pair.restart()
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        let mut sample = self.pair.window(settle, window, begin)?;
        let (ticks, missed) = (sample.get("ticks").copied(), sample.get("missed").copied());
        match ticks.zip(missed) {
            Some((ticks, missed)) if ticks > 0.0 => {
                sample.insert("kept_share".into(), ticks / (ticks + missed));
                Ok(sample)
            }
            _ => Err(self.pair.server_error("it had no tick in a window")),
        }
    }

    fn stop(&mut self) {
        self.pair.stop();
    }
}
