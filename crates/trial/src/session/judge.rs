//! One number's comparison over the pairs of a stretch, whichever way the design stops: what the loop looks at after every pair,
//! and the report at the end, so that both say the same.

use evenkeel_stats::{Options, Pair, Verdict, compare};

use crate::arm::ArmName;
use crate::design::{Design, Stop};
use crate::error::TrialError;
use crate::metric::Metric;
use crate::session::Window;

/// Compares two arms by one metric.
pub(crate) struct Judge {
    name: String,
    options: Options,
    stop: Stop,
    pairs: Vec<Pair>,
}

/// What a look says of B against A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) pairs: usize,
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) p_value: f64,
    pub(crate) e_value: Option<f64>,
    pub(crate) smallest_visible_ratio: f64,
    pub(crate) verdict: Verdict,
    /// Whether more pairs can't be expected to change the answer.
    pub(crate) decided: bool,
}

impl Judge {
    /// The judge of the number that decides.
    ///
    /// # Errors
    /// If the options can't be judged by.
    pub(crate) fn of_metric(design: &Design) -> Result<Judge, TrialError> {
        Judge::new(&design.metric, design.smallest_effect_ratio, design.confidence, design.stop)
    }

    /// The judges of the guards. Together they err as often as the verdict does, so each gets its part.
    ///
    /// # Errors
    /// If the options can't be judged by.
    pub(crate) fn of_guards(design: &Design) -> Result<Vec<Judge>, TrialError> {
        let part = (1.0 - design.confidence) / design.guards.len().max(1) as f64;
        let judge = |guard: &crate::design::Guard| Judge::new(&guard.metric, guard.harm_ratio, 1.0 - part, design.stop);
        design.guards.iter().map(judge).collect()
    }

    fn new(metric: &Metric, smallest_effect_ratio: f64, confidence: f64, stop: Stop) -> Result<Judge, TrialError> {
        let options = Options { confidence, smallest_effect_ratio, better: metric.better };
        Ok(Judge { name: metric.name.to_string(), options, stop, pairs: Vec::new() })
    }

    /// Takes a pair.
    ///
    /// # Errors
    /// If one of its numbers has no ratio to another.
    pub(crate) fn add(&mut self, pair: Pair) -> Result<(), TrialError> {
        compare(&[pair], self.options).map_err(|error| self.failed(error))?;
        self.pairs.push(pair);
        Ok(())
    }

    /// What the pairs so far say; nothing without pairs.
    pub(crate) fn look(&self) -> Option<Seen> {
        let comparison = compare(&self.pairs, self.options).ok()?;
        Some(Seen {
            pairs: comparison.pairs,
            ratio: comparison.ratio,
            low: comparison.low,
            high: comparison.high,
            p_value: comparison.p_value,
            e_value: None,
            smallest_visible_ratio: comparison.smallest_visible_ratio,
            verdict: comparison.verdict,
            decided: false,
        })
    }

    /// Whether its interval holds at every look.
    pub(crate) fn is_sequential(&self) -> bool {
        self.stop.is_sequential()
    }

    /// The confidence of its interval.
    pub(crate) fn confidence(&self) -> f64 {
        self.options.confidence
    }

    fn failed(&self, error: evenkeel_stats::StatsError) -> TrialError {
        TrialError::Design(format!("compare {}: {error}", self.name))
    }
}

/// The numbers of windows that lie pair by pair, as `number` reads them; pairs without it are left out.
pub(crate) fn pairs_of(windows: &[Window], number: impl Fn(&Window) -> Option<f64>) -> Vec<Pair> {
    let of = |pair: &[Window], arm| pair.iter().find(|window| window.arm == arm).and_then(&number);
    let pairs = windows.chunks_exact(2);
    pairs.filter_map(|pair| Some(Pair { a: of(pair, ArmName::A)?, b: of(pair, ArmName::B)? })).collect()
}
