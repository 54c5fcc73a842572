//! Compares one metric over the pairs of a phase, for every way in which a design can stop. The loop uses it after every pair and the
//! report at the end, so both agree.

use evenkeel_stats::{Comparison, Direction, Look, Options, Pair, Sequential, StatsError, Verdict, compare};

use crate::design::{Design, Stop};
use crate::error::TrialError;
use evenkeel_workload::Metric;

/// Compares two arms by one metric. The reference arm is called A here, and the other B.
pub(crate) struct Judge {
    name: String,
    options: Options,
    kind: TestKind,
}

enum TestKind {
    /// The signed-rank interval of all pairs, for a single look.
    Once(Vec<Pair>),
    /// The test that allows a look after every pair.
    Always(Box<Sequential>),
}

/// The result of a look: B against A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PairEffect {
    pub(crate) pairs: usize,
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) p_value: f64,
    pub(crate) e_value: Option<f64>,
    pub(crate) smallest_visible_ratio: f64,
    pub(crate) verdict: Verdict,
}

impl From<Comparison> for PairEffect {
    fn from(seen: Comparison) -> PairEffect {
        PairEffect {
            pairs: seen.pairs,
            ratio: seen.ratio,
            low: seen.low,
            high: seen.high,
            p_value: seen.p_value,
            e_value: None,
            smallest_visible_ratio: seen.smallest_visible_ratio,
            verdict: seen.verdict,
        }
    }
}

impl From<Look> for PairEffect {
    fn from(seen: Look) -> PairEffect {
        PairEffect {
            pairs: seen.pairs,
            ratio: seen.ratio,
            low: seen.low,
            high: seen.high,
            // By Markov's inequality an e-value of 20 is a p-value of 1 in 20, at every look.
            p_value: (1.0 / seen.e_value).min(1.0),
            e_value: Some(seen.e_value),
            smallest_visible_ratio: seen.smallest_visible_ratio,
            verdict: seen.verdict,
        }
    }
}

impl PairEffect {
    /// An end of the interval, where the pairs bound it.
    pub(crate) fn bounded(end: f64) -> Option<f64> {
        Some(end).filter(|end| end.is_finite() && *end > 0.0)
    }
}

impl Judge {
    /// The judge of the primary metric, in one of several comparisons. All together may err as often as one alone, so each gets its
    /// share of the error. Then all intervals hold at once, at every look, whichever comparison ends early.
    ///
    /// # Errors
    /// If the options are invalid.
    pub(crate) fn of_metric(design: &Design, comparisons: usize) -> Result<Judge, TrialError> {
        let confidence = match comparisons {
            0 | 1 => design.confidence,
            several => 1.0 - (1.0 - design.confidence) / several as f64,
        };
        Judge::new(&design.metric, design.smallest_effect_ratio, confidence, design.stop)
    }

    /// The judge of a metric.
    ///
    /// # Errors
    /// As [`Judge::of_metric`].
    pub(crate) fn new(
        metric: &Metric,
        smallest_effect_ratio: f64,
        confidence: f64,
        stop: Stop,
    ) -> Result<Judge, TrialError> {
        let mut judge = Judge::at_end(metric, smallest_effect_ratio, confidence);
        if stop.is_sequential() {
            let test = Sequential::new(judge.options).map_err(|error| failed(&judge.name, error))?;
            judge.kind = TestKind::Always(Box::new(test));
        }
        Ok(judge)
    }

    /// The judge of a metric for a single look, when all pairs are complete.
    pub(crate) fn at_end(metric: &Metric, smallest_effect_ratio: f64, confidence: f64) -> Judge {
        let options = Options { confidence, smallest_effect_ratio, better: metric.better };
        Judge { name: metric.name.to_string(), options, kind: TestKind::Once(Vec::new()) }
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// If one of its numbers has no ratio to another.
    pub(crate) fn add(&mut self, pair: Pair) -> Result<(), TrialError> {
        let added = match &mut self.kind {
            TestKind::Once(pairs) => compare(&[pair], self.options).map(|_| pairs.push(pair)),
            TestKind::Always(test) => test.add(pair),
        };
        added.map_err(|error| failed(&self.name, error))
    }

    /// The number of pairs added so far.
    pub(crate) fn pairs(&self) -> usize {
        match &self.kind {
            TestKind::Once(pairs) => pairs.len(),
            TestKind::Always(test) => test.pairs(),
        }
    }

    /// The result so far, before the end. Cheap, unlike a look.
    pub(crate) fn verdict(&self) -> Verdict {
        match &self.kind {
            TestKind::Once(_) => Verdict::Undecided,
            TestKind::Always(test) => test.verdict(),
        }
    }

    /// The result at the end.
    pub(crate) fn verdict_at_end(&self) -> Verdict {
        match &self.kind {
            TestKind::Once(_) => self.look().map_or(Verdict::Undecided, |seen| seen.verdict),
            TestKind::Always(test) => test.verdict(),
        }
    }

    /// A ratio turned so that less is better.
    pub(crate) fn cost(&self, ratio: f64) -> f64 {
        match self.options.better {
            Direction::Lower => ratio,
            Direction::Higher => 1.0 / ratio,
        }
    }

    /// The result of the pairs so far; nothing without pairs.
    pub(crate) fn look(&self) -> Option<PairEffect> {
        match &self.kind {
            TestKind::Once(pairs) => compare(pairs, self.options).ok().map(PairEffect::from),
            TestKind::Always(test) => (test.pairs() > 0).then(|| test.look().into()),
        }
    }

    /// Whether its interval holds at every look.
    pub(crate) fn is_sequential(&self) -> bool {
        matches!(self.kind, TestKind::Always(_))
    }

    /// The options of the test.
    pub(crate) fn options(&self) -> Options {
        self.options
    }
}

fn failed(name: &str, error: StatsError) -> TrialError {
    TrialError::Design(format!("compare {name}: {error}"))
}
