//! `Answer`: the result of a search, for every knob and for the set, with the certainty of each.

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

/// An interval of about 95 % has this many standard errors on either side of an estimate, for the minimum degrees of freedom of a screening.
const ERRORS_95: f64 = 2.2;
/// The factor from the median absolute deviation to the standard deviation, for normal noise.
const MAD_TO_SD: f64 = 1.4826;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// How the search ended.
    pub ended: Ended,
    /// The smallest set that helps. Empty unless the verdict is *better*.
    /// If the search ended before the confirmation, this is the set that would be confirmed next.
    pub set: Vec<Chosen>,
    /// The effect of the set against the unchanged machine, from separate pairs of windows. None if the search did not measure the effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Measure>,
    /// All candidates together against the unchanged machine. None unless the search began with this comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Whole>,
    /// The guard that vetoed the set. None if no guard did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub veto: Option<String>,
    /// The guards, in the pairs of the confirmation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<GuardAnswer>,
    /// For every other measured number, the ratio of its medians with and without the set. The ratios show costs of the set.
    pub along: BTreeMap<String, f64>,
    /// The numbers in `along` whose change is significant. Each number has a test of its own.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub along_shown: BTreeSet<String>,
    /// Every knob, in the order of the candidates.
    pub knobs: Vec<KnobAnswer>,
    /// The joint effects of the knobs that moved the metric, beyond the sum of their single effects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interactions: Vec<Interaction>,
    /// The number of windows measured in each stage.
    pub windows: BTreeMap<Stage, usize>,
    /// The duration of all windows including switches, in milliseconds.
    pub took_ms: u64,
    /// The standard deviation between windows of the unchanged machine, as a share. None if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_ratio: Option<f64>,
    /// The undecided knobs, and the budget that would decide them. None if all knobs are decided, or if more time would not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_time: Option<MoreTime>,
    /// The caveats.
    #[serde(alias = "doubts", default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<SearchCaveat>,
}

/// The comparison of all candidates together with the unchanged machine. A search among a guide's settings begins with this comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Whole {
    /// The effect of all of them together.
    pub effect: Measure,
    /// The verdict on all candidates together.
    pub verdict: WholeVerdict,
}

/// The verdict on all candidates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WholeVerdict {
    /// All candidates together help.
    Better,
    /// All candidates together hurt.
    Worse,
    /// There is no difference that matters.
    Same,
    /// The pairs do not decide.
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

/// What more time would decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoreTime {
    /// The number of undecided knobs.
    pub knobs: usize,
    /// An estimate of the budget that would decide these knobs, in seconds.
    pub budget_s: u64,
}

/// The verdict on the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The set helps, as a test on separate pairs shows.
    Better,
    /// The search could not show that any set helps.
    NothingHelped,
    /// The search ended before a set could be confirmed.
    NotProved,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The search finished all its stages.
    Whole,
    /// The budget was used up.
    OutOfBudget,
    /// The user stopped the search.
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
    /// Whether the search showed that the set is worse without this knob. For a set of one knob, the confirmation shows this.
    pub is_shown: bool,
    /// The set with the knob against the set without it. None if the search did not compare them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<Measure>,
}

/// The result of a guard in the pairs of the confirmation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardAnswer {
    /// The name of the metric that must not get worse.
    pub metric: String,
    /// The set is rejected if the metric gets worse by at least this share.
    pub harm_ratio: f64,
    /// The ratio of the metric with the set to the metric without it.
    pub ratio: f64,
    /// The lower end of the ratio's interval. None if the pairs do not bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end of the ratio's interval. None if the pairs do not bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The number of pairs in which both windows have a value of this metric.
    pub pairs: usize,
    /// Whether this guard rejects the set.
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
    /// The candidate's effect, estimated together with the effects of all other candidates. None if the candidate was not screened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screening: Option<Measure>,
    /// The set with the knob against the set without it. None if the search did not compare them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<Measure>,
    /// Whether the search showed that the set is worse without this knob.
    pub is_shown: bool,
    /// The number of steps from the requested value to the value that the search chose.
    pub steps: usize,
    /// The other values that were tried. Each value was compared with the previous value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<TriedValue>,
    /// The knob's counter in the windows with the knob and without it. None if the knob has no counter.
    #[serde(alias = "at_work", default, skip_serializing_if = "Option::is_none")]
    pub engaged: Option<Mechanism>,
}

/// Another value of a knob, with its effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedValue {
    /// The value.
    pub value: String,
    /// The set with this value against the set with the previous value.
    pub effect: Measure,
    /// Whether the search took this value.
    pub is_taken: bool,
}

/// The effect of two knobs together, beyond the sum of their single effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interaction {
    /// The two knobs, each as `KNOB=VALUE`.
    pub knobs: [String; 2],
    /// The additional ratio of the metric if both are switched.
    pub ratio: f64,
    /// The p-value of the hypothesis that the effects of the two knobs are independent.
    pub p_value: f64,
}

/// An effect with its evidence. The ratio is the metric with the change, divided by the metric without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measure {
    /// The estimated ratio.
    pub ratio: f64,
    /// The lower end of the ratio's interval. None if the windows do not bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end of the ratio's interval. None if the windows do not bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The number of pairs of windows in the estimate.
    pub pairs: usize,
    /// The e-value against "no effect", from a test that may stop after any pair. None without such a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_value: Option<f64>,
    /// The p-value of "no effect", without a correction for the number of knobs. None without such a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// The change of the metric's logarithm. The sign is such that a value below 0 is better.
    #[serde(skip)]
    pub(super) cost: f64,
    /// The standard error of the effect.
    #[serde(skip)]
    pub(super) error: f64,
}

impl Measure {
    /// Whether the whole interval is below the smallest effect that matters.
    /// Only such an interval shows that the knob has no effect that matters.
    pub fn is_within(&self, smallest_effect_ratio: f64) -> bool {
        let most = 1.0 + smallest_effect_ratio;
        self.low.is_some_and(|low| low >= 1.0 / most) && self.high.is_some_and(|high| high <= most)
    }

    /// Half the width of the interval, as a change of the metric's logarithm. None if an end is unknown.
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
    /// The name of the knob, for people.
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

    /// Stores the outcome of each knob that left the search.
    pub(super) fn take_outcomes(&mut self, runner: &SearchRunner<'_>) {
        for (at, knob) in self.knobs.iter_mut().enumerate() {
            if let Some(outcome) = runner.outcome(at) {
                knob.outcome = outcome.clone();
            }
        }
    }

    /// Stores the set that will be confirmed.
    pub(super) fn choose(&mut self, design: &SearchDesign, set: &Set) {
        let chosen = |knob: &usize| Chosen {
            settings: design.candidates[*knob].at(set.arm.level(*knob)),
            is_shown: self.knobs[*knob].is_shown,
            without: self.knobs[*knob].without.clone(),
        };
        self.set = set.members.iter().map(chosen).collect();
    }

    /// Stores the result of the confirmation so far. Its windows began at index `from`.
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

    /// Stores the results of the guards in the pairs of the confirmation.
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

    /// Stores that a guard vetoes a set that otherwise helps.
    pub(super) fn vetoed(&mut self, why: String) {
        if self.verdict == Verdict::Better {
            self.verdict = Verdict::NothingHelped;
            for knob in self.knobs.iter_mut().filter(|knob| knob.outcome == KnobOutcome::InTheSet) {
                knob.outcome = KnobOutcome::LeftOut { why: NotNeeded::SetVetoed { why: why.clone() } };
            }
            self.veto = Some(why);
        }
    }

    /// Sets the verdict if a knob looks effective but was not confirmed.
    pub(super) fn is_open(&mut self) {
        self.verdict = Verdict::NotProved;
        self.effect = None;
        self.set.clear();
    }

    pub(super) fn stopped_by_the_guard(&mut self) {
        self.verdict = Verdict::NothingHelped;
    }
}
