//! What a trial's record says: the verdict with its interval, what each arm cost, what was lost, and the doubts.

use std::fmt;

use evenkeel_stats::{Comparison, Options, Pair, Verdict, compare, median};
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, ArmName};
use crate::conditions::Conditions;
use crate::design::Design;
use crate::error::TrialError;
use crate::metric::Metric;
use crate::run::{Dropped, Ended, Record, Window};

/// Above this share of dropped pairs the machine was too unsteady to trust what is left without saying so.
const DROPPED_SHARE_DOUBTFUL: f64 = 0.2;
/// Above this share of stolen time in the median window the hypervisor's part in the numbers is worth a word.
const STEAL_SHARE_DOUBTFUL: f64 = 0.02;

/// The answer of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// B is better than A by more than the smallest effect that matters.
    Better,
    /// B is worse.
    Worse,
    /// Whatever the difference is, it is smaller than the smallest effect that matters.
    Same,
    /// This run could not tell.
    Undecided,
    /// The knobs were not at work: whatever was measured says nothing of them.
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

/// A verdict with everything that it rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was asked.
    pub title: String,
    /// The number that decided.
    pub metric: Metric,
    /// The two arms.
    pub arms: Vec<ArmReport>,
    /// Pairs that count.
    pub pairs: usize,
    /// The ratio of B to A.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The answer.
    pub verdict: Outcome,
    /// Pairs that were dropped, and why.
    pub dropped: Vec<Dropped>,
    /// What a sceptic should know.
    pub doubts: Vec<String>,
    /// The seed of the order.
    pub seed: u64,
    /// All that was decided beforehand.
    pub design: Design,
    /// How it ended.
    pub ended: Ended,
    /// The workload, in words.
    pub workload: String,
    /// Every window that counts.
    pub windows: Vec<Window>,
}

/// What one arm was like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmReport {
    /// Its name.
    pub arm: ArmName,
    /// What it did to the host.
    pub does: Arm,
    /// The values of its knobs, in words.
    pub values: String,
    /// The median over its windows of the number that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// The median CPU time that the server used, as a share of one CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
}

/// The ratio of B to A with its interval. Ends that the run could not bound are absent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The Hodges–Lehmann estimate.
    pub ratio: f64,
    /// The lower end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Confidence of the interval.
    pub confidence: f64,
    /// The p-value of the signed-rank test.
    pub p_value: f64,
    /// The smallest effect that this run could have seen, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smallest_visible_ratio: Option<f64>,
}

/// The words that a report needs beside the numbers.
#[derive(Clone, Debug)]
pub struct Titles {
    /// What was asked.
    pub title: String,
    /// The values of each arm's knobs, in words.
    pub values: [String; 2],
    /// The workload, in words.
    pub workload: String,
}

impl Record {
    /// Judges what was seen.
    ///
    /// # Errors
    /// If a window's number is none that can be compared (zero, negative or not finite).
    pub fn report(self, design: &Design, titles: Titles) -> Result<Report, TrialError> {
        let pairs = self.pairs();
        let comparison = if pairs.is_empty() { None } else { Some(judge(&pairs, design)?) };
        let seen = comparison.as_ref().map_or(Outcome::Undecided, |comparison| comparison.verdict.into());
        // A difference that was seen stands; only its absence has another explanation.
        let verdict = match (&self.not_engaged, seen) {
            (Some(_), Outcome::Same | Outcome::Undecided) => Outcome::NotEngaged,
            _ => seen,
        };
        let doubts = self.doubts(design, comparison.as_ref());
        let arms = [ArmName::A, ArmName::B].map(|arm| self.arm(arm, &titles.values[arm as usize]));
        Ok(Report {
            title: titles.title,
            metric: design.metric.clone(),
            arms: arms.to_vec(),
            pairs: pairs.len(),
            effect: comparison.as_ref().map(Effect::from),
            verdict,
            doubts,
            seed: design.seed,
            design: design.clone(),
            workload: titles.workload,
            dropped: self.dropped,
            ended: self.ended,
            windows: self.windows,
        })
    }

    /// The numbers of the pairs that count, in order.
    fn pairs(&self) -> Vec<Pair> {
        self.windows
            .chunks_exact(2)
            .map(|windows| match windows[0].arm {
                ArmName::A => Pair { a: windows[0].value, b: windows[1].value },
                ArmName::B => Pair { a: windows[1].value, b: windows[0].value },
            })
            .collect()
    }

    fn of(&self, arm: ArmName) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(move |window| window.arm == arm)
    }

    fn arm(&self, arm: ArmName, values: &str) -> ArmReport {
        let numbers: Vec<f64> = self.of(arm).map(|window| window.value).collect();
        let cpu: Vec<f64> = self.of(arm).filter_map(|window| window.sample.get("cpu_share").copied()).collect();
        ArmReport {
            arm,
            does: self.arms[arm as usize].clone(),
            values: values.to_owned(),
            median: median(&numbers),
            cpu_share: median(&cpu),
        }
    }

    fn doubts(&self, design: &Design, comparison: Option<&Comparison>) -> Vec<String> {
        let mut doubts: Vec<String> =
            self.not_engaged.iter().map(|why| format!("the knob was not at work: {why}")).collect();
        let counted = self.windows.len() / 2;
        let tried = counted + self.dropped.len();
        match &self.ended {
            Ended::Whole => {}
            Ended::OutOfSpares => {
                doubts.push(format!("only {counted} of {} pairs count: the spare ones were used up", design.pairs))
            }
            Ended::Stopped => doubts.push(format!("it was stopped after {counted} of {} pairs", design.pairs)),
            Ended::Failed { why } => doubts.push(format!("it failed after {counted} of {} pairs: {why}", design.pairs)),
        }
        if tried > 0 && self.dropped.len() as f64 / tried as f64 > DROPPED_SHARE_DOUBTFUL {
            doubts.push(format!("{} of {tried} pairs were dropped: the machine was unsteady", self.dropped.len()));
        }
        if let Some(comparison) = comparison.filter(|comparison| !comparison.high.is_finite()) {
            doubts.push(format!("{} pairs are too few for an interval at this confidence", comparison.pairs));
        }
        let medians = |of: fn(&Conditions) -> Option<f64>| {
            let seen: Vec<f64> = self.windows.iter().filter_map(|window| of(&window.conditions)).collect();
            median(&seen)
        };
        if let Some(steal) = medians(|conditions| conditions.steal_share).filter(|steal| *steal > STEAL_SHARE_DOUBTFUL)
        {
            doubts
                .push(format!("{:.0} % of CPU time was stolen by the hypervisor in the median window", steal * 100.0));
        }
        if counted > 0 && medians(|conditions| conditions.cpu_pressure_share).is_none() {
            doubts.push("/proc/pressure is not readable here: waiting for CPUs was not watched".into());
        }
        doubts
    }
}

fn judge(pairs: &[Pair], design: &Design) -> Result<Comparison, TrialError> {
    let options = Options {
        confidence: design.confidence,
        smallest_effect_ratio: design.smallest_effect_ratio,
        better: design.metric.better,
    };
    compare(pairs, options).map_err(|error| TrialError::Design(format!("compare {}: {error}", design.metric.name)))
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

impl From<&Comparison> for Effect {
    fn from(comparison: &Comparison) -> Effect {
        let bounded = |end: f64| Some(end).filter(|end| end.is_finite() && *end > 0.0);
        Effect {
            ratio: comparison.ratio,
            low: bounded(comparison.low),
            high: bounded(comparison.high),
            confidence: comparison.confidence,
            p_value: comparison.p_value,
            smallest_visible_ratio: bounded(comparison.smallest_visible_ratio),
        }
    }
}
