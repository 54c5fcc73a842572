//! The ticks of a server that does not report them, as observed from outside by the kernel's switch records.

use std::collections::BTreeMap;

use evenkeel_measure::meters::ticks::account::Due;
use serde::{Deserialize, Serialize};

use super::telemetry::{HistogramSample, TelemetrySample};

/// The ticks of a server, observed from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutsideSample {
    /// The counts since evenkeel began to watch the server, in the form of a telemetry page.
    pub ticks: TelemetrySample,
    /// Which threads do the ticks, as text.
    pub workers: String,
    /// The thread that does the ticks. None if there are several.
    pub tid: Option<u32>,
    /// The moment from which lateness is counted.
    pub due: DueSample,
    /// The number of due times at which the thread was already awake. Their ticks count, but their lateness is unknown.
    pub hidden: u64,
    /// The start of the time in which ticks were counted since the previous sample, on the monotonic clock.
    pub counted_from_ns: u64,
    /// The end of the time in which ticks were counted, on the monotonic clock.
    pub counted_to_ns: u64,
    /// How long the tick's thread waited for a CPU while it was awake, in nanoseconds, since evenkeel began to watch it.
    pub waited_awake_ns: u64,
    /// How late the kernel may fire timers of the tick's thread, in nanoseconds. None if no tick was late, or if the slack cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<u64>,
    /// The late ticks since the previous sample.
    pub late: Vec<OutsideLate>,
    /// The number of further late ticks beyond the maximum.
    pub late_beyond: u64,
    /// The missed ticks since the previous sample that became due while the tick's thread waited for another thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed_waiting: Vec<OutsideLate>,
    /// The number of missed ticks since the previous sample whose thread was ready when they were due, and for nearly all of the time after,
    /// but had no CPU. None if the records do not show when the thread was woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_ready: Option<u64>,
    /// The names of the server's threads for which the tick's thread waited.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wakers: BTreeMap<u32, String>,
    /// The number of lost switch records. Ticks may be missing because of them.
    pub lost: u64,
    /// The number of due times at which records were lost, and for which the remaining records show no tick or a late tick.
    /// These due times count neither as ticks nor as missed ticks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncounted: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl OutsideSample {
    /// Counts of zero, for the start of this session.
    pub fn zero(&self) -> OutsideSample {
        let page = TelemetrySample { ticks: 0, missed: 0, ..self.ticks.clone() };
        let empty = HistogramSample::default;
        OutsideSample {
            ticks: TelemetrySample { lateness: empty(), work: empty(), due_to_done: empty(), ..page },
            hidden: 0,
            counted_to_ns: self.counted_from_ns,
            waited_awake_ns: 0,
            timer_slack_ns: None,
            late: Vec::new(),
            late_beyond: 0,
            missed_waiting: Vec::new(),
            missed_ready: None,
            wakers: BTreeMap::new(),
            lost: 0,
            uncounted: 0,
            ..self.clone()
        }
    }
}

/// The moment from which lateness is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DueSample {
    /// The end of the sleep that the thread requested from the kernel.
    AsAsked,
    /// The time of the earliest ticks. A delay that all ticks have is not visible.
    Earliest,
    /// Unknown, because the ticks have no fixed times.
    Unknown,
}

impl From<Due> for DueSample {
    fn from(due: Due) -> DueSample {
        match due {
            Due::AsAsked => DueSample::AsAsked,
            Due::Earliest => DueSample::Earliest,
            Due::Unknown => DueSample::Unknown,
        }
    }
}

/// A late tick, and what the switch records of its thread show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideLate {
    /// The due time of the tick, on the monotonic clock.
    pub due_ns: u64,
    /// How late the tick began, in nanoseconds. If the previous tick was long, this is a lower bound.
    pub lateness_ns: u64,
    /// The CPU on which the tick's wake began.
    pub cpu: usize,
    /// What the thread did when the tick was due.
    pub was: LateWas,
    /// How long the thread was ready before it got a CPU for this tick, in nanoseconds. None if the records do not show when it was woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_ns: Option<u64>,
}

/// What the tick's thread did when the tick was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "was")]
pub enum LateWas {
    /// The thread slept, or had been woken but had no CPU yet.
    Off,
    /// The thread slept in the middle of a tick until another thread woke it.
    Waited {
        /// When the thread fell asleep, on the monotonic clock.
        since_ns: u64,
        /// When the thread was woken, on the monotonic clock.
        until_ns: u64,
        /// The thread that woke the tick's thread.
        by: u32,
    },
    /// The thread was awake, because an earlier tick lasted too long.
    Awake {
        /// How long the thread ran since that wake-up, in nanoseconds.
        on_cpu_ns: u64,
        /// How long the thread waited for a CPU since that wake-up, in nanoseconds.
        waited_ns: u64,
        /// How late the first tick since that wake-up began, in nanoseconds.
        /// None if this is unknown, or if the ticks before it were missed. Many servers then do the missed ticks at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        began_late_ns: Option<u64>,
    },
}
