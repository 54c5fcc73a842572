//! A sample's record of the ticks of a server that reports nothing, observed from outside by the kernel's switch records.

use std::collections::BTreeMap;

use evenkeel_measure::meters::ticks::account::Due;
use serde::{Deserialize, Serialize};

use super::telemetry::{HistogramSample, TelemetrySample};

/// The ticks of a server, observed from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutsideSample {
    /// The counts since evenkeel began to watch the server, in the form of a page of telemetry.
    pub ticks: TelemetrySample,
    /// Which threads do the ticks, in words.
    pub workers: String,
    /// The thread that does the ticks, if it is a single one.
    pub tid: Option<u32>,
    /// The reference of lateness.
    pub due: DueSample,
    /// Due times at which the thread was already awake. Their ticks count, but they have no lateness.
    pub hidden: u64,
    /// The ticks that were counted since the sample before began at this time, on the monotonic clock.
    pub counted_from_ns: u64,
    /// The counted ticks ended at this time, on the monotonic clock.
    pub counted_to_ns: u64,
    /// How long the tick's thread waited for a CPU in the middle of its wakes, in nanoseconds, since evenkeel began to watch it.
    pub waited_awake_ns: u64,
    /// How late the kernel may fire the timers of the tick's thread, if ticks were late and it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<u64>,
    /// The late ticks since the sample before.
    pub late: Vec<OutsideLate>,
    /// The number of further late ticks, beyond the maximum.
    pub late_beyond: u64,
    /// The missed ticks since the sample before that were due while the thread waited for another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed_waiting: Vec<OutsideLate>,
    /// The names of the server's threads that the tick's thread waited for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wakers: BTreeMap<u32, String>,
    /// Switch records that were lost, so that ticks may be missing.
    pub lost: u64,
    /// Due times at which records were lost, and for which the other records show no tick or a late one. They count neither as ticks
    /// nor as missed ticks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncounted: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl OutsideSample {
    /// The zero counts at the start of this session.
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
            wakers: BTreeMap::new(),
            lost: 0,
            uncounted: 0,
            ..self.clone()
        }
    }
}

/// The reference of lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DueSample {
    /// The sleep that the thread requested from the kernel.
    AsAsked,
    /// The earliest ticks: a delay that all ticks share does not show.
    Earliest,
    /// None: the ticks keep no set times.
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

/// A late tick, with what the switch records of its thread show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideLate {
    /// When it was due, on the monotonic clock.
    pub due_ns: u64,
    /// How late it began, in nanoseconds. If the previous tick was long, this is a lower bound.
    pub lateness_ns: u64,
    /// The CPU on which its wake-up began.
    pub cpu: usize,
    /// What the thread did when the tick was due.
    pub was: LateWas,
}

/// What the tick's thread did when the tick was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "was")]
pub enum LateWas {
    /// It slept, or was woken and had no CPU yet.
    Off,
    /// It slept in the middle of a tick, until another thread woke it.
    Waited {
        /// When it fell asleep, on the monotonic clock.
        since_ns: u64,
        /// When it was woken.
        until_ns: u64,
        /// The thread that woke it.
        by: u32,
    },
    /// It was awake: an earlier tick lasted too long.
    Awake {
        /// How long the thread ran since that wake-up, in nanoseconds.
        on_cpu_ns: u64,
        /// How long the thread waited for a CPU since that wake-up, in nanoseconds.
        waited_ns: u64,
    },
}
