//! `Report`: the verdict of a session with its interval, the guards, the cost of each arm,
//! whether the knobs were engaged, what was dropped, and the caveats.

mod build;
mod caveats;
mod choice;
mod control;
mod verdict;

use evenkeel_workload::Metric;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, ArmName};
use crate::caveat::{self, Caveat};
use crate::design::Design;
use crate::effect::Effect;
use crate::engaged::Mechanism;
use crate::outcome::Outcome;
use crate::session::{Dropped, Ended, Left, SettleSeen, Window};
use crate::titles::Identity;

pub use build::Answers;
pub use caveats::ticks_wanted;
pub use choice::{Between, Choice};
pub use control::ControlReport;
pub(crate) use verdict::{Found, verdict};

/// The verdict on one arm against A, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The question: the settings as the user gave them.
    pub title: String,
    /// The primary metric, which decided.
    pub metric: Metric,
    /// The two arms. The report calls the second arm B, whatever its name is among several arms.
    pub arms: Vec<ArmReport>,
    /// The number of counted pairs.
    pub pairs: usize,
    /// The ratio of B to A. None without counted pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The answer.
    pub verdict: Outcome,
    /// The guard that changed the verdict from *better* to *worse*. None if no guard did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vetoed_by: Option<String>,
    /// The guards: metrics that must not get worse.
    #[serde(default)]
    pub guards: Vec<GuardReport>,
    /// Costs such as CPU time and memory in both arms.
    #[serde(default)]
    pub costs: Vec<Cost>,
    /// Whether each knob was engaged, and the evidence.
    #[serde(default)]
    pub mechanism: Vec<Mechanism>,
    /// The A/A phase, which was measured before the first pair. None if the trial had no A/A phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_stretch: Option<ControlReport>,
    /// The dropped pairs and the reasons, including those of the A/A phase.
    pub dropped: Vec<Dropped>,
    /// The number of dropped pairs, by the arm whose window a rule rejected.
    #[serde(default)]
    pub dropped_by_arm: ByArm,
    /// The number of windows in which the server got no CPU, by arm.
    /// The number includes windows whose pair was dropped because of the other arm.
    #[serde(default, skip_serializing_if = "ByArm::is_none")]
    pub no_cpu_by_arm: ByArm,
    /// Why this arm had no further windows, in a session of several arms. None if the arm stayed to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
    /// The caveats, the most serious first.
    #[serde(default, serialize_with = "caveat::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<caveat::WithText<'static>>"))]
    pub caveats: Vec<Caveat>,
    /// The seed of the order of the arms.
    pub seed: u64,
    /// The design of the trial.
    pub design: Design,
    /// The settle time after a switch, and how the trial found it.
    pub settle: SettleSeen,
    /// How the session ended.
    pub ended: Ended,
    /// The workload, in words.
    pub workload: String,
    /// The program and the machine.
    #[serde(default)]
    pub identity: Identity,
    /// The windows of all counted pairs.
    pub windows: Vec<Window>,
}

impl Report {
    /// The sentences of the caveats.
    pub fn caveat_texts(&self) -> Vec<String> {
        self.caveats.iter().map(ToString::to_string).collect()
    }
}

/// The report of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmReport {
    /// The name of the arm.
    pub arm: ArmName,
    /// The level of each setting in this arm.
    pub does: Arm,
    /// The values of the settings in this arm, as text.
    pub values: String,
    /// The median of the primary metric over the arm's windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// The median CPU time of the server, as a share of one CPU. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
}

/// The result of a guard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardReport {
    /// The metric that must not get worse.
    pub metric: Metric,
    /// B is rejected if the metric gets worse by at least this share.
    pub harm_ratio: f64,
    /// The number of pairs in which both windows have a value of this metric.
    pub pairs: usize,
    /// The ratio of B to A. None if no pair has values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The verdict on this metric. B is rejected if the verdict is *worse*.
    pub verdict: Outcome,
}

/// A resource that both arms use, by the median of their windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// The metric's name, with its unit.
    pub name: String,
    /// The metric's title.
    pub title: String,
    /// The median in arm A.
    pub a: f64,
    /// The median in arm B.
    pub b: f64,
}

/// A count for each arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the names say it")]
pub struct ByArm {
    pub a: usize,
    pub b: usize,
}

impl ByArm {
    fn is_none(&self) -> bool {
        *self == ByArm::default()
    }

    /// The only arm with such windows, if that arm has more than one such window. A single window may be chance.
    fn only(self) -> Option<ArmName> {
        match (self.a, self.b) {
            (2.., 0) => Some(ArmName::A),
            (0, 2..) => Some(ArmName::B),
            _ => None,
        }
    }
}
