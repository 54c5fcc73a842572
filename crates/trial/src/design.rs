//! `Design`: everything that is fixed before a trial starts, so that no result can influence it.

use std::time::Duration;

use evenkeel_workload::Metric;
use serde::{Deserialize, Serialize};

use crate::arm::ARMS_MAX;
use crate::error::TrialError;
use crate::rules::Rules;

/// The maximum number of pairs of one trial. With windows of one second they take more than five hours.
const PAIRS_MAX: usize = 10_000;
/// The maximum number of guards. The allowed error is divided among them, so each further guard needs more evidence.
const GUARDS_MAX: usize = 16;
/// The minimum length of a window, and of an interleave.
const WINDOW_MIN: Duration = Duration::from_millis(10);
/// The maximum number of interleaves of one window.
const INTERLEAVES_MAX: u32 = 100;
/// The maximum settle time. A setting that takes effect more slowly can't be switched between windows.
const SETTLE_MAX: Duration = Duration::from_secs(600);

/// How a trial is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Design {
    /// The primary metric, which decides.
    pub metric: Metric,
    /// Metrics that must not get worse. Each metric can veto a *better*.
    #[serde(default)]
    pub guards: Vec<Guard>,
    /// When the trial ends.
    pub stop: Stop,
    /// The number of further pairs that may replace dropped ones.
    pub spare_pairs: usize,
    /// The number of pairs of the A/A phase at the beginning. Both windows of such a pair measure the unchanged machine.
    pub control_pairs: usize,
    /// How long one window measures.
    #[serde(rename = "window_ms", with = "ms")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub window: Duration,
    /// How long the trial waits after a switch before it measures.
    pub settle: Settle,
    /// The number of interleaves of each window: how often the arms of a pair or block alternate (A B A B).
    /// With 1 interleave, each window is measured in one piece.
    #[serde(alias = "turns", default = "one", skip_serializing_if = "is_one")]
    pub interleaves: u32,
    /// The seed of the order of the arms within each pair or block.
    pub seed: u64,
    /// The confidence of the interval, for example 0.95.
    pub confidence: f64,
    /// The smallest effect that matters, as a share: 0.05 is 5 %.
    pub smallest_effect_ratio: f64,
    /// The rules by which a window is dropped.
    pub rules: Rules,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_one(interleaves: &u32) -> bool {
    *interleaves == 1
}

/// A metric that must not get worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Guard {
    /// The metric.
    pub metric: Metric,
    /// B is rejected if this metric gets worse by at least this share: 0.25 is 25 %.
    pub harm_ratio: f64,
}

impl Guard {
    /// Whether this ratio to arm A is worse by at least the limit.
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
        /// The number of pairs.
        pairs: usize,
    },
    /// A test after every pair. The trial ends as soon as the test is decided. The interval is valid after every pair.
    Sequential {
        /// With fewer pairs than this, the test decides nothing.
        pairs_min: usize,
        /// The maximum number of pairs.
        pairs_max: usize,
        /// The maximum duration, from the start of the session. The trial does not begin a pair that would end later. None means no limit.
        #[serde(rename = "budget_ms", with = "optional_ms", default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
        budget: Option<Duration>,
    },
}

impl Stop {
    /// The maximum number of counted pairs.
    pub fn pairs_max(self) -> usize {
        match self {
            Stop::After { pairs } => pairs,
            Stop::Sequential { pairs_max, .. } => pairs_max,
        }
    }

    /// The minimum number of pairs for a verdict, if the trial ends early.
    pub fn pairs_min(self) -> usize {
        match self {
            Stop::After { pairs } => pairs.min(PAIRS_MIN),
            Stop::Sequential { pairs_min, .. } => pairs_min,
        }
    }

    /// Whether the trial tests after every pair.
    pub fn is_sequential(self) -> bool {
        matches!(self, Stop::Sequential { .. })
    }
}

/// How long the trial waits after a switch before it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Settle {
    /// A fixed time.
    Fixed {
        /// The time to wait.
        #[serde(rename = "ms", with = "ms")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        time: Duration,
    },
    /// The time for which the metric still changes after a switch. The trial measures this time before the first pair.
    Found {
        /// The minimum time to wait.
        #[serde(rename = "least_ms", with = "ms")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        least: Duration,
        /// The maximum time to wait. The report has a caveat if the metric changes for longer.
        #[serde(rename = "most_ms", with = "ms")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        most: Duration,
    },
}

impl Settle {
    /// The minimum settle time.
    pub fn least(self) -> Duration {
        match self {
            Settle::Fixed { time } => time,
            Settle::Found { least, .. } => least,
        }
    }

    /// The maximum settle time.
    pub fn most(self) -> Duration {
        match self {
            Settle::Fixed { time } => time,
            Settle::Found { most, .. } => most,
        }
    }
}

impl Design {
    /// A design that tests once, after `pairs` pairs, with the default settle time, confidence and rules.
    /// The number of spare pairs is a third of `pairs`. There are no guards and no A/A phase.
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

    /// A design that tests after every pair and begins with an A/A phase.
    pub fn sequential(metric: Metric, pairs_max: usize, window: Duration, seed: u64) -> Design {
        Design {
            stop: Stop::Sequential { pairs_min: PAIRS_MIN, pairs_max, budget: None },
            control_pairs: CONTROL_PAIRS,
            settle: Settle::Found { least: Duration::from_millis(50), most: Duration::from_secs(5).max(window * 2) },
            ..Design::new(metric, pairs_max, window, seed)
        }
    }

    /// Checks the design.
    ///
    /// # Errors
    /// Fails if the design can never give a verdict.
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

    /// Checks the design for this number of arms.
    ///
    /// # Errors
    /// Fails if the design can't give a verdict with this number of arms.
    pub fn check_for(&self, arms: usize) -> Result<(), TrialError> {
        self.check()?;
        let bad = |why: String| Err(TrialError::Design(why));
        if !(2..=ARMS_MAX).contains(&arms) {
            return bad(format!("{arms} arms: at least 2, at most {ARMS_MAX}, including the unchanged machine"));
        }
        let windows = self.stop.pairs_max().saturating_add(self.spare_pairs).saturating_mul(arms);
        if windows > 2 * PAIRS_MAX {
            return bad(format!("{windows} windows of {arms} arms: at most {}", 2 * PAIRS_MAX));
        }
        Ok(())
    }
}

/// Checks the guards of a design.
///
/// # Errors
/// Fails if there are too many guards, or if a guard could never veto.
pub(crate) fn check_guards(guards: &[Guard], metric: &Metric) -> Result<(), TrialError> {
    let bad = |why: String| Err(TrialError::Design(why));
    if guards.len() > GUARDS_MAX {
        return bad(format!("{} guards: at most {GUARDS_MAX}", guards.len()));
    }
    for guard in guards {
        let name = &guard.metric.name;
        if *name == metric.name {
            return bad(format!("{name} as a guard: it is already the primary metric"));
        }
        if !(guard.harm_ratio > 0.0 && guard.harm_ratio < 10.0) {
            return bad(format!("{} as the harm of {name}: more than 0, less than 10", guard.harm_ratio));
        }
    }
    Ok(())
}

/// With five pairs, a sign test can't reach an e-value of 20, so this limit has no effect at the usual confidence.
/// At a lower confidence, the limit prevents an end after two lucky pairs.
const PAIRS_MIN: usize = 5;
/// With this many pairs the test can claim a difference: seven pairs that agree are enough at the usual confidence.
/// So the A/A phase can reveal a test that claims a difference between equal arms.
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

/// An optional duration as whole milliseconds.
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
