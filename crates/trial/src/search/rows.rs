//! `Rows`: the results of a screening's windows.

use evenkeel_stats::designs::{DesignError, Fit, Level as Sign, Run, Term, fit};

/// A knob has moved the metric only if its effect is at least this many standard errors large.
pub(super) const ERRORS: f64 = 2.5;

/// The windows of the screening so far: the rows of the design, each followed by its mirror image, and the measured costs.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Vec<Sign>>,
    pub(super) costs: Vec<f64>,
    /// The values of the guards in each row.
    pub(super) guarded: Vec<Vec<Option<f64>>>,
    pub(super) pairs: usize,
}

impl Rows {
    fn runs(&self, block: usize) -> Vec<Run<'_>> {
        let numbers = self.rows.iter().zip(&self.costs).enumerate();
        numbers.map(|(at, (levels, value))| Run { levels, block: at / block, value: *value }).collect()
    }

    /// The effects of these knobs.
    pub(super) fn fit(&self, knobs: &[usize]) -> Result<Fit, DesignError> {
        fit(&self.runs(2), &knobs.iter().copied().map(Term::Main).collect::<Vec<_>>())
    }
}
