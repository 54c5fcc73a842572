//! The shapes of a report's parts, as any version so far has written them: what a version did not have yet is absent, and what a
//! later one adds is passed over or kept as it was written.

use std::collections::BTreeMap;

use evenkeel_stats::Direction;
use serde::Deserialize;
use serde_json::Value;

use crate::arm::ArmName;
use crate::report::Outcome;

/// One finding of `audit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SavedAdvice {
    /// The knob's id.
    pub knob: String,
    /// Where it would be set.
    pub place: String,
    /// set, keep, not-here and so on.
    pub state: String,
    /// The value in force.
    pub current: Option<String>,
    /// The value advised.
    pub wanted: Option<String>,
    /// Why.
    pub reason: String,
}

/// A knob that was not tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SavedNotTried {
    /// The knob's id.
    pub knob: String,
    /// Why it was not.
    pub why: String,
}

/// The text of a setting's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SavedSetting {
    /// Its path.
    pub path: String,
    /// Before the run; absent where it could not be read.
    pub before: Option<String>,
    /// After it.
    pub after: Option<String>,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedTrial {
    /// What was asked, as `KNOB=VALUE …`.
    #[serde(default)]
    pub knob: String,
    /// What was asked, in words.
    #[serde(default)]
    pub title: String,
    /// Whether both arms were the machine as it was.
    #[serde(default)]
    pub control: bool,
    /// The verdict in words.
    #[serde(default)]
    pub sentence: String,
    /// The answer.
    pub verdict: Outcome,
    /// The number that decided.
    pub metric: SavedMetric,
    /// The arms.
    #[serde(default)]
    pub arms: Vec<SavedArm>,
    /// Pairs that count.
    #[serde(default)]
    pub pairs: u64,
    /// The ratio of B to A; absent if no pair counts.
    #[serde(default)]
    pub effect: Option<SavedEffect>,
    /// The guard that made a *better* worse.
    #[serde(default)]
    pub vetoed_by: Option<String>,
    /// The numbers that may not get worse.
    #[serde(default)]
    pub guards: Vec<SavedGuard>,
    /// What B costs beside what it gains.
    #[serde(default)]
    pub costs: Vec<SavedCost>,
    /// Whether each knob was at work.
    #[serde(default)]
    pub mechanism: Vec<SavedMechanism>,
    /// The machine as it was against itself, before the first pair.
    #[serde(default)]
    pub control_stretch: Option<SavedControl>,
    /// Pairs that do not count.
    #[serde(default)]
    pub dropped: Vec<SavedDropped>,
    /// What a sceptic should know, in format 1.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// The same from format 2 on.
    #[serde(default)]
    pub caveats: Vec<SavedCaveat>,
    /// Seed of the order.
    #[serde(default)]
    pub seed: Option<u64>,
    /// What was fixed beforehand.
    #[serde(default)]
    pub design: SavedDesign,
    /// How long the machine was left alone after a switch and how that was found, as it was written.
    #[serde(default)]
    pub settle: Value,
    /// The program and the machine.
    #[serde(default)]
    pub identity: SavedIdentity,
    /// How it ended, as it was written.
    #[serde(default)]
    pub ended: Value,
    /// The workload, in words.
    #[serde(default)]
    pub workload: String,
    /// Why the arm had no further windows, of several.
    #[serde(default)]
    pub left: Option<SavedLeft>,
    /// The windows that count.
    #[serde(default)]
    pub windows: Vec<SavedWindow>,
}

/// When and why an arm had no further windows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedLeft {
    /// The last block that it was in, from 0.
    #[serde(default)]
    pub block: u64,
    /// Why, as it was written.
    #[serde(default)]
    pub why: Value,
}

/// Which of several arms.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedChoice {
    /// In one sentence.
    #[serde(default)]
    pub sentence: String,
    /// Confidence of all comparisons with A together.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// The arms that are better than A, the best first.
    #[serde(default)]
    pub better: Vec<ArmName>,
    /// Those of them that no other is shown to be better than.
    #[serde(default)]
    pub alike: Vec<ArmName>,
    /// The arm to take.
    pub advised: ArmName,
    /// The arms beside A with each other.
    #[serde(default)]
    pub between: Vec<SavedBetween>,
}

/// Two arms beside A.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedBetween {
    /// The arm.
    pub arm: ArmName,
    /// What it is compared with.
    pub against: ArmName,
    /// Pairs that count.
    #[serde(default)]
    pub pairs: u64,
    /// The ratio of the one to the other.
    #[serde(default)]
    pub effect: Option<SavedEffect>,
    /// What is said of the arm.
    pub verdict: Outcome,
}

/// The metric of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SavedMetric {
    /// Its name, with unit and quantile.
    pub name: String,
    /// What it is, in a few plain words.
    #[serde(default)]
    pub title: String,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
    /// Which way is better.
    pub better: Direction,
}

/// What one arm was like.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedArm {
    /// Its name.
    pub arm: ArmName,
    /// The values of its knobs, in words.
    #[serde(default)]
    pub values: String,
    /// The median over its windows.
    #[serde(default)]
    pub median: Option<f64>,
    /// The median CPU time of the server, as a share of one CPU.
    #[serde(default)]
    pub cpu_share: Option<f64>,
}

/// The ratio of B to A.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct SavedEffect {
    /// The estimate.
    pub ratio: f64,
    /// The lower end of its interval; absent if the run could not bound it.
    #[serde(default)]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(default)]
    pub high: Option<f64>,
    /// Confidence of the interval.
    pub confidence: f64,
    /// The p-value, of reports that were judged at a number of pairs fixed beforehand.
    #[serde(default)]
    pub p_value: Option<f64>,
    /// The evidence against "B does nothing", of reports that were judged after each pair.
    #[serde(default)]
    pub e_value: Option<f64>,
    /// The smallest effect that could have been seen, as a share.
    #[serde(default)]
    pub smallest_visible_ratio: Option<f64>,
}

/// A pair that was dropped.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedDropped {
    /// Which pair, from 0.
    pub pair: u64,
    /// The arm whose window broke the rule.
    #[serde(default)]
    pub arm: Option<ArmName>,
    /// The part of the session that it was in: control, trial; absent where there was but one.
    #[serde(default)]
    pub stretch: Option<String>,
    /// The rule with what was seen, as it was written.
    #[serde(default)]
    pub reason: Value,
}

/// What was fixed before the run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SavedDesign {
    /// Pairs that were planned, of reports before [`SavedDesign::stop`].
    pub pairs: Option<u64>,
    /// When it was to end, as it was written.
    pub stop: Value,
    /// Pairs of the control stretch.
    pub control_pairs: Option<u64>,
    /// Pairs that might replace dropped ones.
    pub spare_pairs: Option<u64>,
    /// Length of a window in milliseconds.
    pub window_ms: Option<f64>,
    /// Quiet after a switch in milliseconds, of reports in which it was fixed.
    pub settle_ms: Option<f64>,
    /// Confidence of the interval.
    pub confidence: Option<f64>,
    /// The smallest effect that matters, as a share.
    pub smallest_effect_ratio: Option<f64>,
    /// When a pair is dropped, as it was written.
    pub rules: Value,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedWindow {
    /// Which pair it belongs to, from 0.
    pub pair: u64,
    /// Which arm was on.
    pub arm: ArmName,
    /// When it began, in microseconds since the trial began.
    #[serde(default)]
    pub start_us: f64,
    /// The number that decides.
    pub value: f64,
    /// Everything that the workload measured; what is no number is absent.
    #[serde(default)]
    pub sample: BTreeMap<String, Option<f64>>,
    /// What the machine did meanwhile, as it was written.
    #[serde(default)]
    pub conditions: Value,
}

/// A number that may not get worse.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedGuard {
    /// The number.
    pub metric: SavedMetric,
    /// The smallest harm that vetoes, as a share.
    #[serde(default)]
    pub harm_ratio: Option<f64>,
    /// Pairs in which it could be compared.
    #[serde(default)]
    pub pairs: u64,
    /// The ratio of B to A.
    #[serde(default)]
    pub effect: Option<SavedEffect>,
    /// What is said of it.
    pub verdict: Outcome,
}

/// Something that both arms use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedCost {
    /// Its name, with its unit.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub title: String,
    /// In arm A.
    #[serde(default)]
    pub a: Option<f64>,
    /// In arm B.
    #[serde(default)]
    pub b: Option<f64>,
}

/// What shows whether a knob was at work.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedMechanism {
    /// The knob.
    pub knob: String,
    /// What was counted, by the median of each arm's windows.
    #[serde(default)]
    pub readings: Vec<SavedReading>,
    /// Whether it was at work, as it was written.
    #[serde(default)]
    pub engaged: Value,
}

/// One counter in both arms.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedReading {
    /// Its name.
    pub name: String,
    /// In arm A.
    #[serde(default)]
    pub a: Option<f64>,
    /// In arm B.
    #[serde(default)]
    pub b: Option<f64>,
}

/// The machine against itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedControl {
    /// Pairs that count.
    #[serde(default)]
    pub pairs: u64,
    /// The ratio of one to the other.
    #[serde(default)]
    pub effect: Option<SavedEffect>,
    /// What was said of it.
    pub verdict: Outcome,
    /// Whether a difference was claimed, which there can't be.
    #[serde(default)]
    pub is_claimed: bool,
    /// How often trials made of its noise would claim a difference.
    #[serde(default)]
    pub claim_share: Option<f64>,
    /// The smallest effect that a trial of all its pairs could see in its noise.
    #[serde(default)]
    pub smallest_visible_ratio: Option<f64>,
    /// Its windows.
    #[serde(default)]
    pub windows: Vec<SavedWindow>,
}

/// The program that measured and the machine that it ran on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SavedIdentity {
    /// The version of evenkeel.
    pub evenkeel: Option<String>,
    /// When it began, UTC.
    pub begun: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The processor's model.
    pub processor: Option<String>,
    /// The CPUs that run.
    pub cpus: Option<String>,
    /// The hypervisor.
    pub hypervisor: Option<String>,
    /// The cloud.
    pub cloud: Option<String>,
    /// The instance type.
    pub instance: Option<String>,
}

/// Something that speaks against a report, of which its sentence is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SavedCaveat {
    /// The sentence.
    pub text: String,
}
