//! `Report`: the verdict of a session with its interval, the guards, the cost of each arm, whether the knobs were engaged, what was
//! dropped, and the caveats.

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
    /// The number that decided.
    pub metric: Metric,
    /// The two arms. The report calls the second one B, whatever its name among several arms is.
    pub arms: Vec<ArmReport>,
    /// Pairs that count.
    pub pairs: usize,
    /// The ratio of B to A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The answer.
    pub verdict: Outcome,
    /// The guard that turned the verdict from *better* to *worse*.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vetoed_by: Option<String>,
    /// The numbers that may not get worse.
    #[serde(default)]
    pub guards: Vec<GuardReport>,
    /// The costs of B.
    #[serde(default)]
    pub costs: Vec<Cost>,
    /// Whether each knob was engaged, and the evidence.
    #[serde(default)]
    pub mechanism: Vec<Mechanism>,
    /// The A/A phase, measured before the first pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_stretch: Option<ControlReport>,
    /// Pairs that were dropped, and why; those of the A/A phase among them.
    pub dropped: Vec<Dropped>,
    /// How many pairs were dropped, by the arm whose window broke a rule.
    #[serde(default)]
    pub dropped_by_arm: ByArm,
    /// The number of windows in which the server got no CPU, by arm. It includes windows of pairs that were dropped for
    /// the other arm.
    #[serde(default, skip_serializing_if = "ByArm::is_none")]
    pub no_cpu_by_arm: ByArm,
    /// In a session of several arms: why this arm had no further windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
    /// The caveats, the most serious first.
    #[serde(default, serialize_with = "caveat::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<caveat::WithText<'static>>"))]
    pub caveats: Vec<Caveat>,
    /// The seed of the order.
    pub seed: u64,
    /// The design.
    pub design: Design,
    /// The settle time after a switch, and how it was found.
    pub settle: SettleSeen,
    /// How it ended.
    pub ended: Ended,
    /// The workload, in words.
    pub workload: String,
    /// The program and the machine.
    #[serde(default)]
    pub identity: Identity,
    /// Every window that counts.
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
    /// The arm's name.
    pub arm: ArmName,
    /// The levels of the arm's settings.
    pub does: Arm,
    /// The values of its knobs, in words.
    pub values: String,
    /// The median over its windows of the number that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// The median CPU time that the server used, as a share of one CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
}

/// A number that may not get worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardReport {
    /// The number.
    pub metric: Metric,
    /// The smallest harm that vetoes, as a share.
    pub harm_ratio: f64,
    /// Pairs in which it could be compared.
    pub pairs: usize,
    /// The ratio of B to A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The verdict on this guard: *worse* vetoes.
    pub verdict: Outcome,
}

/// Something that both arms use, by the median of their windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// The metric's name, with its unit.
    pub name: String,
    /// The metric's title.
    pub title: String,
    /// In arm A.
    pub a: f64,
    /// In arm B.
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

    /// The only arm with such windows, if it has more than one; a single one is chance.
    fn only(self) -> Option<ArmName> {
        match (self.a, self.b) {
            (2.., 0) => Some(ArmName::A),
            (0, 2..) => Some(ArmName::B),
            _ => None,
        }
    }
}
