//! What a session's record says: the verdict with its interval, what the guards say, what each arm cost, whether the knobs were at
//! work, what was lost, and the caveats.

mod build;
mod caveat;
mod caveats;
mod choice;
mod control;
mod verdict;

use std::fmt;

use evenkeel_stats::Verdict;
use evenkeel_workload::Metric;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, ArmName};
use crate::comparison::{Judge, Seen};
use crate::design::Design;
use crate::engaged::Mechanism;
use crate::session::{Dropped, Ended, Left, SettleSeen, Window};

pub use caveat::Caveat;
pub use choice::{Between, Choice};
pub use control::{ControlReport, Detectable};
pub(crate) use verdict::{Found, verdict};

/// The answer of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// B is better than A by more than the smallest effect that matters.
    Better,
    /// B is worse; by a guard, where the report names one that vetoed.
    Worse,
    /// Whatever the difference is, it is smaller than the smallest effect that matters.
    Same,
    /// This run could not tell.
    Undecided,
    /// No difference that matters, and the knobs' counters show that they had nothing to act on: under another load they may do more.
    NotEngaged,
}

/// As in JSON.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Better => "better",
            Outcome::Worse => "worse",
            Outcome::Same => "same",
            Outcome::Undecided => "undecided",
            Outcome::NotEngaged => "not-engaged",
        })
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Outcome {
        match verdict {
            Verdict::Better => Outcome::Better,
            Verdict::Worse => Outcome::Worse,
            Verdict::Same => Outcome::Same,
            Verdict::Undecided => Outcome::Undecided,
        }
    }
}

/// What is said of each arm beside A, and of them all.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// Each arm beside A against A, in their order.
    pub reports: Vec<Report>,
    /// Which of several.
    pub choice: Option<Choice>,
}

/// A verdict of one arm against A, with everything that it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was asked.
    pub title: String,
    /// The number that decided.
    pub metric: Metric,
    /// The two arms. The other one is called B in what is said of both here, whatever its name among several is.
    pub arms: Vec<ArmReport>,
    /// Pairs that count.
    pub pairs: usize,
    /// The ratio of B to A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The answer.
    pub verdict: Outcome,
    /// The guard that made a *better* worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vetoed_by: Option<String>,
    /// The numbers that may not get worse.
    #[serde(default)]
    pub guards: Vec<GuardReport>,
    /// What B costs, beside what it gains.
    #[serde(default)]
    pub costs: Vec<Cost>,
    /// Whether each knob was at work, and what shows it.
    #[serde(default)]
    pub mechanism: Vec<Mechanism>,
    /// The machine as it was against itself, measured before the first pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_stretch: Option<ControlReport>,
    /// Pairs that were dropped, and why; those of the control stretch among them.
    pub dropped: Vec<Dropped>,
    /// How many of them by the arm whose window broke a rule.
    #[serde(default)]
    pub dropped_by_arm: ByArm,
    /// In how many windows the server was given no CPU, by arm: those count too in whose pair the other arm's was dropped first.
    #[serde(default, skip_serializing_if = "ByArm::is_none")]
    pub no_cpu_by_arm: ByArm,
    /// Why the arm had no further windows, of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
    /// What a sceptic should know, the gravest first.
    #[serde(default, serialize_with = "caveat::with_text")]
    pub caveats: Vec<Caveat>,
    /// The seed of the order.
    pub seed: u64,
    /// All that was decided beforehand.
    pub design: Design,
    /// How long the machine was left alone after a switch, and how that was found.
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

/// What one arm was like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmReport {
    /// Its name.
    pub arm: ArmName,
    /// What it did to the host.
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

/// The ratio of B to A with its interval. Ends that the run could not bound are absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The Hodges–Lehmann estimate.
    pub ratio: f64,
    /// The lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Confidence of the interval.
    pub confidence: f64,
    /// When the interval holds.
    #[serde(default)]
    pub interval: Interval,
    /// The p-value of the signed-rank test; of a sequential trial, one that holds at every look (the inverse of the e-value).
    pub p_value: f64,
    /// The e-value against "B does nothing", of a sequential trial: it decides at 1 / (1 - confidence).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_value: Option<f64>,
    /// The smallest effect that this run could have seen, as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_visible_ratio: Option<f64>,
}

/// When an interval holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interval {
    /// Looked at once, after a number of pairs that was fixed beforehand.
    #[default]
    Fixed,
    /// At every look, so that the run may end on what it shows.
    Anytime,
}

impl Effect {
    /// What a look said.
    pub(crate) fn of(seen: &Seen, judge: &Judge) -> Effect {
        Effect {
            ratio: seen.ratio,
            low: Seen::bounded(seen.low),
            high: Seen::bounded(seen.high),
            confidence: judge.options().confidence,
            interval: if judge.is_sequential() { Interval::Anytime } else { Interval::Fixed },
            p_value: seen.p_value,
            e_value: seen.e_value.filter(|e_value| e_value.is_finite()),
            smallest_visible_ratio: Seen::bounded(seen.smallest_visible_ratio),
        }
    }
}

/// A number that may not get worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// What is said of it: *worse* vetoes.
    pub verdict: Outcome,
}

/// Something that both arms use, by the median of their windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Its name, with its unit.
    pub name: String,
    /// What it is.
    pub title: String,
    /// In arm A.
    pub a: f64,
    /// In arm B.
    pub b: f64,
}

/// A count for each arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ByArm {
    pub a: usize,
    pub b: usize,
}

impl ByArm {
    fn is_none(&self) -> bool {
        *self == ByArm::default()
    }

    /// The arm that has it alone, more than once: a single time is chance.
    fn only(self) -> Option<ArmName> {
        match (self.a, self.b) {
            (2.., 0) => Some(ArmName::A),
            (0, 2..) => Some(ArmName::B),
            _ => None,
        }
    }
}

/// The program that measured and the machine that it ran on. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The version of evenkeel.
    pub evenkeel: String,
    /// When it began, UTC.
    pub begun: String,
    /// The kernel's release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The processor's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// The CPUs that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// The hypervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud: Option<String>,
    /// The instance type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// The words that a report needs beside the numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Titles {
    /// What was asked.
    pub title: String,
    /// The values of each arm's knobs, in words.
    pub values: Vec<String>,
    /// How far each arm is from the machine as it was, A first; only of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<Away>,
    /// The settings of the only other arm that were in force before anything was switched, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_already: Vec<String>,
    /// The workload, in words.
    pub workload: String,
    /// The program and the machine.
    #[serde(default)]
    pub identity: Identity,
}

/// How far an arm is from the machine as it was: which of arms that are not told apart asks for least.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Away {
    /// The knobs that it sets.
    pub knobs: Vec<String>,
    /// Settings of it that the machine did not have already.
    pub settings: usize,
    /// The sum over its settings of |ln(value / value as it was)|; absent where one of them is no number above zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<f64>,
}

impl Titles {
    /// An arm's values in words.
    pub fn values_of(&self, arm: ArmName) -> &str {
        self.values.get(arm as usize).map_or("", String::as_str)
    }
}
