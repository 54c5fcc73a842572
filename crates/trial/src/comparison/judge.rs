//! Compares one metric over the pairs of a phase, for each way in which a design can stop.
//! The session uses the judge after every pair, and the report uses it at the end. So session and report have the same result.

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
    /// All pairs. They are tested once at the end with the signed-rank interval.
    Once(Vec<Pair>),
    /// The test that can be evaluated after every pair.
    Always(Box<Sequential>),
}

/// The effect of B relative to A over the pairs so far.
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
            // By Markov's inequality, an e-value of 20 corresponds to a p-value of 1 in 20, whenever the test is evaluated.
            p_value: (1.0 / seen.e_value).min(1.0),
            e_value: Some(seen.e_value),
            smallest_visible_ratio: seen.smallest_visible_ratio,
            verdict: seen.verdict,
        }
    }
}

impl PairEffect {
    /// An end of the interval. None if the pairs do not bound it.
    pub(crate) fn bounded(end: f64) -> Option<f64> {
        Some(end).filter(|end| end.is_finite() && *end > 0.0)
    }
}

impl Judge {
    /// The judge of the primary metric in one of several comparisons.
    /// The error of one comparison is divided among all comparisons.
    /// So all intervals are valid together and at any time, whichever comparison ends early.
    ///
    /// # Errors
    /// Fails if the options are invalid.
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
    /// Fails as [`Judge::of_metric`] does.
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

    /// The judge of a metric that is tested once, when all pairs are complete.
    pub(crate) fn at_end(metric: &Metric, smallest_effect_ratio: f64, confidence: f64) -> Judge {
        let options = Options { confidence, smallest_effect_ratio, better: metric.better };
        Judge { name: metric.name.to_string(), options, kind: TestKind::Once(Vec::new()) }
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// Fails if a value of the pair cannot form a ratio, such as zero.
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

    /// The verdict on the pairs so far, before the end. This is cheaper than [`Judge::look`].
    pub(crate) fn verdict(&self) -> Verdict {
        match &self.kind {
            TestKind::Once(_) => Verdict::Undecided,
            TestKind::Always(test) => test.verdict(),
        }
    }

    /// The verdict on all pairs, at the end.
    pub(crate) fn verdict_at_end(&self) -> Verdict {
        match &self.kind {
            TestKind::Once(_) => self.look().map_or(Verdict::Undecided, |seen| seen.verdict),
            TestKind::Always(test) => test.verdict(),
        }
    }

    /// A ratio, inverted if higher values are better, so that a lower result is always better.
    pub(crate) fn cost(&self, ratio: f64) -> f64 {
        match self.options.better {
            Direction::Lower => ratio,
            Direction::Higher => 1.0 / ratio,
        }
    }

    /// The effect over the pairs so far. None without pairs.
    pub(crate) fn look(&self) -> Option<PairEffect> {
        match &self.kind {
            TestKind::Once(pairs) => compare(pairs, self.options).ok().map(PairEffect::from),
            TestKind::Always(test) => (test.pairs() > 0).then(|| test.look().into()),
        }
    }

    /// Whether the interval is valid after every pair.
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
