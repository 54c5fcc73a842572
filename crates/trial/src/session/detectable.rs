//! `Detectable`: the smallest effect that a trial can detect on this machine, from its A/A phase.

use evenkeel_stats::calibrate;

use super::{Window, pairs_of};
use crate::comparison::Judge;
use crate::design::Design;

/// The maximum number of pairs of the trials that are resampled from the A/A phase. A larger number would not change the result.
pub(crate) const PLANNED_MAX: usize = 100;

/// The smallest effect that four in five trials with this many pairs would detect, with the noise of the A/A phase.
/// The smallest effect is known before the first pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detectable {
    /// The number of pairs.
    pub pairs: usize,
    /// The effect as a share. None if this many pairs could not detect any effect.
    pub ratio: Option<f64>,
}

impl Detectable {
    /// Computes the detectable effect for this number of pairs and arms from the windows of the A/A phase.
    /// `None` if there are too few windows.
    pub(crate) fn from_control(design: &Design, control: &[Window], arms: usize, pairs: usize) -> Option<Detectable> {
        let judge = Judge::of_metric(design, arms.saturating_sub(1)).ok()?;
        if !judge.is_sequential() || pairs == 0 {
            return None;
        }
        let stretch = pairs_of(control, |window| Some(window.value));
        let made_up = calibrate(&stretch, pairs.min(PLANNED_MAX), judge.options(), design.seed).ok()?;
        let ratio = Some(made_up.smallest_visible_ratio).filter(|ratio| ratio.is_finite());
        Some(Detectable { pairs, ratio })
    }
}
