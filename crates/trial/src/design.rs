//! `Design`: everything that is fixed before a trial starts, so that no result can influence it.

use std::time::Duration;

use evenkeel_workload::Metric;
use serde::{Deserialize, Serialize};

use crate::arm::ARMS_MAX;
use crate::error::TrialError;
use crate::rules::Rules;

/// The maximum number of pairs of one trial. With windows of one second they take more than five hours.
const PAIRS_MAX: usize = 10_000;
/// The maximum number of guards, because each gets a share of the error that is allowed for all of them.
const GUARDS_MAX: usize = 16;
/// The shortest window, and the shortest interleave.
const WINDOW_MIN: Duration = Duration::from_millis(10);
/// The maximum number of interleaves of one window.
const INTERLEAVES_MAX: u32 = 100;
/// The maximum settle time: a slower setting can't be switched between windows.
const SETTLE_MAX: Duration = Duration::from_secs(600);

/// How a trial is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Design {
    /// The one number that decides.
    pub metric: Metric,
    /// Numbers that may not get worse: each can veto a *better*.
    #[serde(default)]
    pub guards: Vec<Guard>,
    /// When it ends.
    pub stop: Stop,
    /// Further pairs that may replace dropped ones.
    pub spare_pairs: usize,
    /// The pairs of the A/A phase at the beginning, in which both windows are the unchanged machine.
    pub control_pairs: usize,
    /// How long one window measures.
    #[serde(rename = "window_ms", with = "ms")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub window: Duration,
    /// How long the machine is left alone after a switch.
    pub settle: Settle,
    /// Interleaves of each window: the arms of a pair or block alternate this often (A B A B). 1: each window is measured in one piece.
    #[serde(alias = "turns", default = "one", skip_serializing_if = "is_one")]
    pub interleaves: u32,
    /// Seed of the order of the arms within each pair or block.
    pub seed: u64,
    /// Confidence of the interval.
    pub confidence: f64,
    /// The smallest effect that matters, as a share: 0.05 is five per cent.
    pub smallest_effect_ratio: f64,
    /// When a window is dropped.
    pub rules: Rules,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_one(interleaves: &u32) -> bool {
    *interleaves == 1
}

/// A number that may not get worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Guard {
    /// The number.
    pub metric: Metric,
    /// The smallest harm that vetoes, as a share: 0.25 is a quarter worse.
    pub harm_ratio: f64,
}

impl Guard {
    /// Whether a ratio to arm A is a harm large enough to veto.
    pub(crate) fn is_harm(&self, ratio: f64) -> bool {
        self.metric.times_worse(ratio) >= 1.0 + self.harm_ratio
    }
}

/// When a trial ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// A fixed number of pairs and one test at the end, with the signed-rank interval.
    After {
        /// How many.
        pairs: usize,
    },
    /// The test looks after every pair, and ends as soon as it is decided; the interval holds at every look.
    Sequential {
        /// Fewer pairs than this decide nothing.
        pairs_min: usize,
        /// The maximum number of pairs.
        pairs_max: usize,
        /// No pair begins if it would end later than this, counted from the start of the session.
        #[serde(rename = "budget_ms", with = "optional_ms", default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
        budget: Option<Duration>,
    },
}

impl Stop {
    /// The maximum number of pairs that count.
    pub fn pairs_max(self) -> usize {
        match self {
            Stop::After { pairs } => pairs,
            Stop::Sequential { pairs_max, .. } => pairs_max,
        }
    }

    /// The minimum number of pairs for a verdict, if it ends early.
    pub fn pairs_min(self) -> usize {
        match self {
            Stop::After { pairs } => pairs.min(PAIRS_MIN),
            Stop::Sequential { pairs_min, .. } => pairs_min,
        }
    }

    /// Whether it tests after every pair.
    pub fn is_sequential(self) -> bool {
        matches!(self, Stop::Sequential { .. })
    }
}

/// How long the machine is left alone after a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Settle {
    /// A fixed length.
    Fixed {
        /// The time.
        #[serde(rename = "ms", with = "ms")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        time: Duration,
    },
    /// As long as the metric still moves after a switch, as measured before the first pair.
    Found {
        /// At the least.
        #[serde(rename = "least_ms", with = "ms")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        least: Duration,
        /// The maximum; a longer settle time becomes a caveat.
        #[serde(rename = "most_ms", with = "ms")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        most: Duration,
    },
}

impl Settle {
    /// The shortest possible settle time.
    pub fn least(self) -> Duration {
        match self {
            Settle::Fixed { time } => time,
            Settle::Found { least, .. } => least,
        }
    }

    /// The longest possible settle time.
    pub fn most(self) -> Duration {
        match self {
            Settle::Fixed { time } => time,
            Settle::Found { most, .. } => most,
        }
    }
}

impl Design {
    /// A design that is tested once, after `pairs` pairs, with the default settle time, confidence and rules. It has a third as many
    /// spare pairs, no guard, and no A/A phase.
    pub fn new(metric: Metric, pairs: usize, window: Duration, seed: u64) -> Design {
        Design {
            smallest_effect_ratio: metric.smallest_effect_ratio(),
            metric,
            guards: Vec::new(),
            stop: Stop::After { pairs },
            spare_pairs: pairs / 3,
            control_pairs: 0,
            window,
            settle: Settle::Fixed { time: Duration::from_millis(100) },
            interleaves: 1,
            seed,
            confidence: 0.95,
            rules: Rules::default(),
        }
    }

    /// A design that is tested after every pair, with an A/A phase first.
    pub fn sequential(metric: Metric, pairs_max: usize, window: Duration, seed: u64) -> Design {
        Design {
            stop: Stop::Sequential { pairs_min: PAIRS_MIN, pairs_max, budget: None },
            control_pairs: CONTROL_PAIRS,
            settle: Settle::Found { least: Duration::from_millis(50), most: Duration::from_secs(5).max(window * 2) },
            ..Design::new(metric, pairs_max, window, seed)
        }
    }

    /// # Errors
    /// If the design can never give a verdict.
    pub fn check(&self) -> Result<(), TrialError> {
        let bad = |why: String| Err(TrialError::Design(why));
        let pairs = self.stop.pairs_max();
        if pairs == 0 || pairs.saturating_add(self.spare_pairs) > PAIRS_MAX || self.control_pairs > PAIRS_MAX {
            return bad(format!("{pairs} pairs and {} spare ones: at least 1, at most {PAIRS_MAX}", self.spare_pairs));
        }
        if self.window < WINDOW_MIN || self.window > Duration::from_secs(3600) {
            return bad(format!("a window of {:?}: at least 10 ms, at most an hour", self.window));
        }
        if self.interleaves == 0 || self.interleaves > INTERLEAVES_MAX || self.window / self.interleaves < WINDOW_MIN {
            return bad(format!(
                "windows of {:?} in {} interleaves: 1 to {INTERLEAVES_MAX} of 10 ms at least",
                self.window, self.interleaves
            ));
        }
        if self.settle.least() > self.settle.most() || self.settle.most() > SETTLE_MAX {
            return bad(format!("a settle time of {:?}: at most {SETTLE_MAX:?} is allowed", self.settle.most()));
        }
        if !(self.smallest_effect_ratio > 0.0 && self.smallest_effect_ratio < 10.0) {
            return bad(format!("{} as the smallest effect: more than 0, less than 10", self.smallest_effect_ratio));
        }
        if !(self.confidence > 0.5 && self.confidence < 1.0) {
            return bad(format!("a confidence of {}: more than 0.5, less than 1", self.confidence));
        }
        check_guards(&self.guards, &self.metric)
    }

    /// # Errors
    /// If the design can't give a verdict with this number of arms.
    pub fn check_for(&self, arms: usize) -> Result<(), TrialError> {
        self.check()?;
        let bad = |why: String| Err(TrialError::Design(why));
        if !(2..=ARMS_MAX).contains(&arms) {
            return bad(format!("{arms} arms: at least 2, at most {ARMS_MAX}, the machine as it is among them"));
        }
        let windows = self.stop.pairs_max().saturating_add(self.spare_pairs).saturating_mul(arms);
        if windows > 2 * PAIRS_MAX {
            return bad(format!("{windows} windows of {arms} arms: at most {}", 2 * PAIRS_MAX));
        }
        Ok(())
    }
}

/// # Errors
/// If there are too many guards, or one of them could never veto.
pub(crate) fn check_guards(guards: &[Guard], metric: &Metric) -> Result<(), TrialError> {
    let bad = |why: String| Err(TrialError::Design(why));
    if guards.len() > GUARDS_MAX {
        return bad(format!("{} guards: at most {GUARDS_MAX}", guards.len()));
    }
    for guard in guards {
        let name = &guard.metric.name;
        if *name == metric.name {
            return bad(format!("{name} as a guard: it is what decides already"));
        }
        if !(guard.harm_ratio > 0.0 && guard.harm_ratio < 10.0) {
            return bad(format!("{} as the harm of {name}: more than 0, less than 10", guard.harm_ratio));
        }
    }
    Ok(())
}

/// A sign test of five pairs can't reach an e-value of 20, so this has no effect at the usual confidence. At a lower confidence it prevents
/// an end after two lucky pairs.
const PAIRS_MIN: usize = 5;
/// Enough pairs that a difference between equal arms could be claimed, and would be noticed.
const CONTROL_PAIRS: usize = 10;

/// Durations as whole milliseconds.
mod ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// The same for an optional value.
mod optional_ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::ms::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
