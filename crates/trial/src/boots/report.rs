//! The result of a trial over boots, for people and programs. It reports "better" only if the evidence is sufficient.

use std::collections::BTreeSet;

use evenkeel_stats::{Boot, BootsComparison, Options, Verdict, compare_boots, median, quantile};
use serde::Serialize;

use crate::arm::ArmName;
use crate::engaged::{self, Engaged, Mechanism, none_engaged};
use crate::outcome::Outcome;
use crate::report::{Found, verdict};

use super::caveat::{BootsCaveat, Part};
use super::engaged::mechanisms;
use super::guards::{GuardOfBoots, guards};
use super::state::{BootOutcome, BootsDesign, BootsEnded, BootsState, SeenBoot};

/// The boots of one arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmOfBoots {
    /// The name of the arm.
    pub arm: ArmName,
    /// The value of each boot: the median of its windows.
    pub boots: Vec<f64>,
    /// The spread between the arm's boots: the highest value minus the lowest, as a share of their median. None if it cannot be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_boots_share: Option<f64>,
    /// The spread of windows within a boot: the width of their middle half, as a share of their median.
    /// The value is the largest spread of all boots of the arm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_boot_share: Option<f64>,
}

/// The result of a trial over boots so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootsReport {
    /// The trial's id in the journal.
    pub id: String,
    /// The version of the program.
    pub evenkeel: String,
    /// The design of the trial.
    pub design: BootsDesign,
    /// The order of the arms, for example ABBA.
    pub order: String,
    /// The workload in words.
    pub workload: String,
    /// Every boot so far.
    pub boots: Vec<SeenBoot>,
    /// The two arms.
    pub arms: [ArmOfBoots; 2],
    /// B compared with A. None before one block of boots is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<BootsComparison>,
    /// The verdict with its evidence.
    pub verdict: String,
    /// The verdict in one word, as in a trial without reboots. None without a comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The guard that changed the verdict from *better* to *worse*. None if no guard did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vetoed_by: Option<String>,
    /// The guards: metrics that must not get worse.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<GuardOfBoots>,
    /// For each setting's knob, whether it was engaged, by its counter. Empty if no counter was read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mechanism: Vec<Mechanism>,
    /// The caveats.
    pub caveats: Vec<BootsCaveat>,
    /// How the trial ended. None while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<BootsEnded>,
    /// Whether all settings are restored.
    /// None until the trial has ended and the journal was read, because the report is made before the restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_put_back: Option<bool>,
}

/// The verdict as in a trial without reboots, and the guard that vetoed *better*.
fn decided(seen: Verdict, guards: &[GuardOfBoots], mechanism: &[Mechanism]) -> (Outcome, Option<String>) {
    verdict(Found {
        seen: seen.into(),
        is_too_short: false,
        harmed_guard: guards.iter().find(|guard| guard.is_harmed).map(|guard| guard.metric.name.as_ref()),
        arm_without_numbers: None,
        none_acted: none_engaged(mechanism),
    })
}

/// The verdict with the number of boots, because there are far fewer values than in a trial that switches at run time.
/// The text names each guard that got worse. If no setting was engaged, the text gives the reason.
pub fn label(comparison: Option<&BootsComparison>, guards: &[GuardOfBoots], mechanism: &[Mechanism]) -> String {
    let Some(found) = comparison else { return "nothing is known yet".to_owned() };
    let (outcome, _) = decided(found.verdict, &[], mechanism);
    let word = match outcome {
        Outcome::Better => "better",
        Outcome::Worse => "worse",
        Outcome::Same => "same",
        Outcome::Undecided => "undecided",
        Outcome::NotEngaged => "not engaged",
    };
    let only = if found.boots <= 4 { " only" } else { "" };
    let verdict = format!("{word} (over {} boots{only}: weaker than a trial)", found.boots);
    if outcome == Outcome::NotEngaged {
        return format!("{verdict}, because {}", whys(mechanism).join("; "));
    }
    let harms: Vec<String> = guards.iter().filter_map(GuardOfBoots::harm).collect();
    // Only *better* can be vetoed. So equal arms are not called worse more often than they are called better.
    if found.verdict != Verdict::Better || harms.is_empty() {
        return verdict;
    }
    format!("{verdict}, but {} in every boot of B: not to be kept", harms.join(" and "))
}

fn claims(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

/// For each knob, the reason why it was not engaged.
fn whys(mechanism: &[Mechanism]) -> Vec<String> {
    let why = |knob: &Mechanism| match &knob.engaged {
        Engaged::No { why } if mechanism.len() > 1 => Some(format!("of {}, {why}", knob.knob)),
        Engaged::No { why } => Some(why.clone()),
        _ => None,
    };
    mechanism.iter().filter_map(why).collect()
}

impl BootsState {
    /// The result of the trial so far.
    pub fn report(&self) -> BootsReport {
        let options = Options {
            smallest_effect_ratio: self.design.smallest_effect_ratio,
            ..Options::new(self.design.metric.better)
        };
        let boots: Vec<Boot> = self
            .measured()
            .filter_map(|(boot, values)| Some(Boot { is_b: boot.arm == ArmName::B, value: median(values)? }))
            .collect();
        let comparison = compare_boots(&boots, options);
        let guards = guards(self);
        let mechanism = mechanisms(self);
        let decided = comparison.as_ref().ok().map(|found| decided(found.verdict, &guards, &mechanism));
        let given = decided.as_ref().map_or(Outcome::Undecided, |(outcome, _)| *outcome);
        let mut caveats: Vec<BootsCaveat> =
            engaged::caveats(&mechanism, given).into_iter().map(BootsCaveat::OfTrial).collect();
        caveats.extend(self.caveats());
        if let (Err(error), true) = (&comparison, boots.len() >= 4) {
            caveats.push(BootsCaveat::NotCompared { why: error.to_string() });
        }
        let mut comparison = comparison.ok();
        let early = comparison.filter(|found| found.boots < self.design.boots && claims(found.verdict));
        caveats.extend(early.map(|found| BootsCaveat::Early { boots: found.boots, of: self.design.boots }));
        let verdict = label(comparison.as_ref(), &guards, &mechanism);
        let is_better = comparison.is_some_and(|found| found.verdict == Verdict::Better);
        caveats.extend(guards.iter().filter_map(|guard| guard.caveat(is_better, boots.len())));
        let (outcome, vetoed_by) = decided.map_or((None, None), |(outcome, guard)| (Some(outcome), guard));
        // As in a trial without reboots, the comparison's own verdict also becomes *worse*.
        // So programs that read only the comparison see no improvement.
        if let (Some(found), true) = (&mut comparison, vetoed_by.is_some()) {
            found.verdict = Verdict::Worse;
        }
        BootsReport {
            id: self.id.clone(),
            evenkeel: self.evenkeel.clone(),
            design: self.design.clone(),
            order: self.order().iter().map(|arm| format!("{arm:?}")).collect(),
            workload: self.workload_words.clone(),
            boots: self.seen.clone(),
            arms: [ArmName::A, ArmName::B].map(|arm| self.of_arm(arm)),
            verdict,
            outcome,
            comparison,
            vetoed_by,
            guards,
            mechanism,
            caveats,
            ended: self.ended.clone(),
            is_put_back: None,
        }
    }

    fn of_arm(&self, arm: ArmName) -> ArmOfBoots {
        let windows: Vec<&[f64]> =
            self.measured().filter(|(boot, _)| boot.arm == arm).map(|(_, values)| values).collect();
        let boots: Vec<f64> = windows.iter().filter_map(|values| median(values)).collect();
        let spread = |values: &[f64], low: f64, high: f64| {
            let of = |share| quantile(values, share);
            Some((of(high)? - of(low)?) / median(values).filter(|middle| *middle != 0.0)?.abs())
        };
        ArmOfBoots {
            arm,
            between_boots_share: spread(&boots, 0.0, 1.0).filter(|share| boots.len() > 1 && share.is_finite()),
            within_boot_share: windows
                .iter()
                .filter_map(|values| spread(values, 0.25, 0.75))
                .max_by(f64::total_cmp)
                .filter(|share| share.is_finite()),
            boots,
        }
    }

    fn caveats(&self) -> Vec<BootsCaveat> {
        let mut caveats = Vec::new();
        for (at, boot) in self.seen.iter().enumerate() {
            let nth = at + 1;
            caveats.extend(match &boot.outcome {
                BootOutcome::Missed { why } => Some(BootsCaveat::Missed { boot: nth, why: why.clone() }),
                BootOutcome::CutOff => Some(BootsCaveat::CutOff { boot: nth }),
                BootOutcome::Passed => Some(BootsCaveat::Passed { boot: nth }),
                BootOutcome::Measured { values, dropped, .. } if *dropped > values.len() / 5 => {
                    Some(BootsCaveat::Dropped { boot: nth, dropped: *dropped, of: values.len() + dropped })
                }
                BootOutcome::Measured { .. } | BootOutcome::Begun => None,
            });
        }
        let counted: Vec<&SeenBoot> = self.measured().map(|(boot, _)| boot).collect();
        let differs = |of: fn(&SeenBoot) -> &Option<String>, what: Part| {
            let seen: BTreeSet<&String> = counted.iter().filter_map(|boot| of(boot).as_ref()).collect();
            (seen.len() > 1).then(|| BootsCaveat::Differ { what, seen: seen.into_iter().cloned().collect() })
        };
        caveats.extend(differs(|boot| &boot.machine.kernel, Part::Kernels));
        caveats.extend(differs(|boot| &boot.machine.processor, Part::Processors));
        for arm in [ArmName::A, ArmName::B] {
            let lines = counted.iter().filter(|boot| boot.arm == arm).map(|boot| &boot.machine.command_line);
            let lines: BTreeSet<_> = lines.collect();
            if lines.len() > 1 {
                caveats.push(BootsCaveat::CommandLines { arm });
            }
        }
        caveats
    }
}
