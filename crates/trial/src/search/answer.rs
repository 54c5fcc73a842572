//! `Answer`: the result of a search, for every knob and for the remaining set, with its certainty.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_stats::designs::{Fit, Term};
use evenkeel_stats::{Verdict as Judged, median_absolute_deviation};
use serde::{Deserialize, Serialize};

use super::caveat::SearchCaveat;
use super::design::SearchDesign;
use super::knob_outcome::{self, KnobOutcome};
use super::left_out::NotNeeded;
use super::runner::SearchRunner;
use super::set::Set;
use super::{Stage, along};
use crate::comparison::{GuardSet, PairEffect};
use crate::design::Guard;
use crate::engaged::Mechanism;

/// Standard errors on either side of a screening's estimate that make an interval of about 95 %, with the degrees of freedom
/// that a screening has at least.
const ERRORS_95: f64 = 2.2;
/// Converts a median absolute deviation to a standard deviation, for normal noise.
const MAD_TO_SD: f64 = 1.4826;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// How it ended.
    pub ended: Ended,
    /// The smallest set that helps; empty unless the verdict is better. If the proof is missing, it is the set that would be proved next.
    pub set: Vec<Chosen>,
    /// The effect of the set against the unchanged machine, from separate pairs of windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Measure>,
    /// All candidates together against the unchanged machine, if that was compared first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Whole>,
    /// The guard that vetoed the set, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub veto: Option<String>,
    /// The guards in the pairs of the proof.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<GuardAnswer>,
    /// For every other measured number: the ratio of the medians with the set and without. It shows the cost.
    pub along: BTreeMap<String, f64>,
    /// The numbers whose change is significant in the pairs of these windows, each tested separately.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub along_shown: BTreeSet<String>,
    /// Every knob, in the order in which they were given.
    pub knobs: Vec<KnobAnswer>,
    /// The joint effects of the knobs that moved the metric, beyond the sum of their single effects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interactions: Vec<Interaction>,
    /// Windows measured, by stage.
    pub windows: BTreeMap<Stage, usize>,
    /// How long they took, switching included, in milliseconds.
    pub took_ms: u64,
    /// The standard deviation of windows of the unchanged machine, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_ratio: Option<f64>,
    /// The knobs that more time would decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_time: Option<MoreTime>,
    /// The caveats.
    #[serde(alias = "doubts", default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<SearchCaveat>,
}

/// The comparison of all candidates together, which a search for a guide begins with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Whole {
    /// The effect of all of them together.
    pub effect: Measure,
    /// The verdict on it.
    pub verdict: WholeVerdict,
}

/// The verdict on all candidates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WholeVerdict {
    /// They help.
    Better,
    /// They hurt.
    Worse,
    /// There is no difference that matters.
    Same,
    /// It is not decided.
    Undecided,
}

impl From<Judged> for WholeVerdict {
    fn from(verdict: Judged) -> WholeVerdict {
        match verdict {
            Judged::Better => WholeVerdict::Better,
            Judged::Worse => WholeVerdict::Worse,
            Judged::Same => WholeVerdict::Same,
            Judged::Undecided => WholeVerdict::Undecided,
        }
    }
}

/// The open question that more time would decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoreTime {
    /// The knobs that are not decided.
    pub knobs: usize,
    /// The budget that would decide them, in seconds: an estimate.
    pub budget_s: u64,
}

/// The verdict on the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The set helps, by the test on fresh pairs.
    Better,
    /// No set could be shown to help.
    NothingHelped,
    /// The search ended before a set could be proved.
    NotProved,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The search ended with all its stages.
    Whole,
    /// The budget was used up.
    OutOfBudget,
    /// The user stopped it.
    Stopped,
    /// An error ended the search.
    Failed {
        /// The reason.
        why: String,
    },
}

/// A knob of the set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chosen {
    /// The candidate's settings, as `KNOB=VALUE`.
    pub settings: Vec<String>,
    /// Whether the set was shown to be worse without it. For the only knob of a set, the proof of the set shows it.
    pub is_shown: bool,
    /// The set with it, against the set without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<Measure>,
}

/// A number that the set may not make worse, in the pairs of its proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardAnswer {
    /// The number's name.
    pub metric: String,
    /// The harm that vetoes, as a share.
    pub harm_ratio: f64,
    /// The ratio of the guard's number with the set to that without.
    pub ratio: f64,
    /// The lower end of its interval, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Pairs in which it had a number.
    pub pairs: usize,
    /// Whether it vetoes.
    pub is_harmed: bool,
}

/// The outcome of one knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KnobAnswer {
    /// The tested settings, as `KNOB=VALUE`.
    pub settings: Vec<String>,
    /// The outcome.
    #[serde(flatten, deserialize_with = "knob_outcome::read")]
    pub outcome: KnobOutcome,
    /// The candidate's effect, estimated together with all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screening: Option<Measure>,
    /// The set with it, against the set without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<Measure>,
    /// Whether the set was shown to be worse without it.
    pub is_shown: bool,
    /// How many steps its value was moved beyond the requested one.
    pub steps: usize,
    /// Its other values that were tried, each against the set with the value before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<TriedValue>,
    /// The candidate's counter in the windows with it and without it, if it has one.
    #[serde(alias = "at_work", default, skip_serializing_if = "Option::is_none")]
    pub engaged: Option<Mechanism>,
}

/// Another value of a knob, and what it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedValue {
    /// The value.
    pub value: String,
    /// The set with it, against the set with the value before.
    pub effect: Measure,
    /// Whether it was taken.
    pub is_taken: bool,
}

/// The effect of two knobs together, beyond the sum of their single effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interaction {
    /// The two, each as `KNOB=VALUE`.
    pub knobs: [String; 2],
    /// The additional ratio of the metric if both are switched.
    pub ratio: f64,
    /// The p-value of "they do not affect each other".
    pub p_value: f64,
}

/// An effect with its evidence. The ratio is the metric with the switch, divided by the metric without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measure {
    /// The ratio.
    pub ratio: f64,
    /// The lower end of its interval, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Pairs of windows behind it.
    pub pairs: usize,
    /// The e-value against "no effect", from a test that may stop after any pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_value: Option<f64>,
    /// The p-value of "it does nothing", without regard to the other knobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// The change of the metric's logarithm; below 0 is better.
    #[serde(skip)]
    pub(super) cost: f64,
    /// The standard error of the effect.
    #[serde(skip)]
    pub(super) error: f64,
}

impl Measure {
    /// Whether the whole interval is below the smallest effect that matters. Only then was the knob shown to do nothing.
    pub fn is_within(&self, smallest_effect_ratio: f64) -> bool {
        let most = 1.0 + smallest_effect_ratio;
        self.low.is_some_and(|low| low >= 1.0 / most) && self.high.is_some_and(|high| high <= most)
    }

    /// Half the width of its interval, as a change of the logarithm.
    pub(super) fn half_width(&self) -> Option<f64> {
        Some((self.high?.ln() - self.low?.ln()) / 2.0)
    }

    pub(super) fn of_look(design: &SearchDesign, look: &PairEffect) -> Measure {
        let ratio = if look.pairs == 0 { 1.0 } else { look.ratio };
        Measure {
            ratio,
            low: PairEffect::bounded(look.low),
            high: PairEffect::bounded(look.high),
            pairs: look.pairs,
            e_value: look.e_value.filter(|e_value| e_value.is_finite()),
            p_value: None,
            cost: design.cost(ratio),
            error: 0.0,
        }
    }
}

impl KnobAnswer {
    /// The knob's id, for people.
    pub fn name(&self) -> &str {
        self.settings.first().map_or("", |setting| setting.split(['=', '@']).next().unwrap_or(setting))
    }
}

impl Answer {
    pub(super) fn new(design: &SearchDesign) -> Answer {
        let knob = |candidate: &super::Candidate| KnobAnswer {
            settings: candidate.settings.clone(),
            outcome: KnobOutcome::Unclear,
            screening: None,
            without: None,
            is_shown: false,
            steps: 0,
            ladder: Vec::new(),
            engaged: None,
        };
        Answer {
            verdict: Verdict::NotProved,
            ended: Ended::Whole,
            set: Vec::new(),
            effect: None,
            whole: None,
            veto: None,
            guards: Vec::new(),
            along: BTreeMap::new(),
            along_shown: BTreeSet::new(),
            knobs: design.candidates.iter().map(knob).collect(),
            interactions: Vec::new(),
            windows: BTreeMap::new(),
            took_ms: 0,
            noise_ratio: None,
            more_time: None,
            caveats: Vec::new(),
        }
    }

    pub(super) fn noise_of(&mut self, costs: &[f64]) {
        self.noise_ratio = median_absolute_deviation(costs).map(|deviation| (MAD_TO_SD * deviation).exp_m1());
    }

    /// Stores the results of a screening so far.
    pub(super) fn screened(&mut self, runner: &SearchRunner<'_>, fit: &Fit) {
        let pairs = runner.used() / 2;
        for (at, knob) in self.knobs.iter_mut().enumerate() {
            let Some(found) = fit.get(Term::Main(at)) else { continue };
            let ends = [-1.0, 1.0].map(|side| runner.design.ratio(found.effect + side * ERRORS_95 * found.error));
            knob.screening = Some(Measure {
                ratio: runner.design.ratio(found.effect),
                low: Some(ends[0].min(ends[1])),
                high: Some(ends[0].max(ends[1])),
                pairs,
                e_value: None,
                p_value: Some(found.p_value),
                cost: found.effect,
                error: found.error,
            });
        }
        self.take_outcomes(runner);
    }

    /// Stores why each knob that is out was taken out.
    pub(super) fn take_outcomes(&mut self, runner: &SearchRunner<'_>) {
        for (at, knob) in self.knobs.iter_mut().enumerate() {
            if let Some(outcome) = runner.outcome(at) {
                knob.outcome = outcome.clone();
            }
        }
    }

    /// Records the set to prove.
    pub(super) fn choose(&mut self, design: &SearchDesign, set: &Set) {
        let chosen = |knob: &usize| Chosen {
            settings: design.candidates[*knob].at(set.arm.level(*knob)),
            is_shown: self.knobs[*knob].is_shown,
            without: self.knobs[*knob].without.clone(),
        };
        self.set = set.members.iter().map(chosen).collect();
    }

    /// Stores the results of the proof so far; its windows began at `from`.
    pub(super) fn proved(
        &mut self,
        runner: &SearchRunner<'_>,
        set: &Set,
        effect: Measure,
        verdict: Judged,
        from: usize,
    ) {
        let windows = from..runner.used();
        let [before, after] = [&runner.design.baseline(), &set.arm].map(|arm| runner.samples(windows.clone(), arm));
        self.along = along::ratios(&before, &after);
        self.along_shown = along::shown(&before, &after);
        self.effect = Some(effect);
        self.verdict = match verdict {
            Judged::Better => Verdict::Better,
            Judged::Same | Judged::Worse => Verdict::NothingHelped,
            Judged::Undecided => Verdict::NotProved,
        };
        if self.verdict == Verdict::Better {
            for knob in &set.members {
                self.knobs[*knob].outcome = KnobOutcome::InTheSet;
            }
            if let [only] = &mut self.set[..] {
                only.is_shown = true;
                self.knobs[set.members[0]].is_shown = true;
            }
        }
    }

    /// Stores the guards' results in the pairs of the proof.
    pub(super) fn guarded(&mut self, guards: &GuardSet) {
        let seen = |(guard, seen): (&Guard, PairEffect)| GuardAnswer {
            metric: guard.metric.name.to_string(),
            harm_ratio: guard.harm_ratio,
            ratio: seen.ratio,
            low: PairEffect::bounded(seen.low),
            high: PairEffect::bounded(seen.high),
            pairs: seen.pairs,
            is_harmed: seen.verdict == Judged::Worse,
        };
        self.guards = guards.looks().map(seen).collect();
    }

    /// Records that a guard vetoes a set that helps.
    pub(super) fn vetoed(&mut self, why: String) {
        if self.verdict == Verdict::Better {
            self.verdict = Verdict::NothingHelped;
            for knob in self.knobs.iter_mut().filter(|knob| knob.outcome == KnobOutcome::InTheSet) {
                knob.outcome = KnobOutcome::LeftOut { why: NotNeeded::SetVetoed { why: why.clone() } };
            }
            self.veto = Some(why);
        }
    }

    /// Sets the verdict for a knob that looks effective but was not proved.
    pub(super) fn is_open(&mut self) {
        self.verdict = Verdict::NotProved;
        self.effect = None;
        self.set.clear();
    }

    pub(super) fn stopped_by_the_guard(&mut self) {
        self.verdict = Verdict::NothingHelped;
    }
}
