//! The guards of a trial over boots, as pure functions. A boot gives one value per guard. There are few boots.
//! So a guard counts as worse only if every boot of B is worse than every boot of A.

use std::collections::BTreeMap;

use evenkeel_stats::{BOOTS_BLOCK, Direction, VALUE_RANGE, median};
use evenkeel_workload::{Metric, Sample};
use serde::Serialize;

use crate::arm::ArmName;
use crate::design::Guard;
use crate::words::as_change;

use super::caveat::{BootsCaveat, GuardUnknown};
use super::state::{BootOutcome, BootsState};

/// A metric that must not get worse, with its values in the boots so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardOfBoots {
    /// The metric.
    pub metric: Metric,
    /// The guard counts as worse only if its median is worse by at least this share.
    pub margin: f64,
    /// The values in the boots of A, each the median of the boot's windows. Boots without a value are left out.
    pub a: Vec<f64>,
    /// The values in the boots of B, also medians.
    pub b: Vec<f64>,
    /// The median of B's boots divided by the median of A's. None if it cannot be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Whether the guard got worse: every boot of B is worse than every boot of A, and the medians differ by at least the margin.
    pub is_harmed: bool,
}

impl GuardOfBoots {
    fn new(guard: &Guard, state: &BootsState) -> GuardOfBoots {
        let numbers = |wanted: ArmName| -> Vec<f64> {
            let of_arm = state.measured().map(|(boot, _)| boot).filter(|boot| boot.arm == wanted);
            let number = of_arm.map(|boot| match &boot.outcome {
                BootOutcome::Measured { guards, .. } => guards.get(guard.metric.name.as_ref()).copied(),
                _ => None,
            });
            number.flatten().collect()
        };
        let (a, b) = (numbers(ArmName::A), numbers(ArmName::B));
        let (metric, margin) = (guard.metric.clone(), guard.harm_ratio);
        let middle = |values: &[f64]| median(values).filter(|middle| VALUE_RANGE.contains(middle));
        let ratio = middle(&a).zip(middle(&b)).map(|(a, b)| b / a);
        let mut found = GuardOfBoots { metric, margin, a, b, ratio, is_harmed: false };
        // A missing value might have overlapped with the values of the other arm, so the result is unknown.
        let boots = state.measured().count();
        found.is_harmed = boots >= BOOTS_BLOCK && found.has_all(boots) && found.is_apart() && found.is_beyond();
        found
    }

    fn has_all(&self, boots: usize) -> bool {
        self.a.len() + self.b.len() == boots
    }

    /// Whether every boot of B is worse than every boot of A.
    fn is_apart(&self) -> bool {
        let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        match self.metric.better {
            Direction::Lower => least(&self.b) > most(&self.a),
            Direction::Higher => most(&self.b) < least(&self.a),
        }
    }

    /// Whether the median of B is worse by at least the margin.
    fn is_beyond(&self) -> bool {
        self.ratio.is_some_and(|ratio| self.metric.times_worse(ratio) >= 1.0 + self.margin)
    }

    /// How the guard got worse, as the end of a sentence that begins with "in every boot of B". None if the guard did not get worse.
    pub(super) fn harm(&self) -> Option<String> {
        let ratio = self.ratio.filter(|_| self.is_harmed)?;
        Some(format!("{} is {}", self.metric.name, as_change(ratio)))
    }

    /// The caveat of this guard, if any. It depends on whether B is better, and on the number of boots.
    pub(super) fn caveat(&self, is_better: bool, boots: usize) -> Option<BootsCaveat> {
        let metric = self.metric.name.to_string();
        if !is_better {
            let ratio = self.ratio.filter(|_| self.is_harmed)?;
            return Some(BootsCaveat::GuardWorse { metric, ratio });
        }
        let why = match self.ratio {
            _ if !self.has_all(boots) => GuardUnknown::Missing { have: self.a.len() + self.b.len(), boots },
            None => GuardUnknown::NoRatio,
            Some(ratio) if self.is_beyond() && !self.is_harmed => GuardUnknown::Overlap { ratio },
            Some(_) => return None,
        };
        Some(BootsCaveat::GuardUnknown { metric, harm_ratio: self.margin, why })
    }
}

/// The result of every guard of the design so far.
pub(super) fn guards(state: &BootsState) -> Vec<GuardOfBoots> {
    state.design.guards.iter().map(|guard| GuardOfBoots::new(guard, state)).collect()
}

/// The median of each guard over the windows of a boot.
/// A guard with values in fewer than half of the windows is left out.
/// The median of such a guard would represent other windows than the primary metric does.
pub(super) fn medians(guards: &[Guard], windows: &[&Sample]) -> BTreeMap<String, f64> {
    let of = |guard: &Guard| {
        let name = guard.metric.name.as_ref();
        let numbers = windows.iter().filter_map(|sample| sample.get(name).copied());
        let numbers: Vec<f64> = numbers.filter(|value| value.is_finite()).collect();
        let middle = median(&numbers).filter(|middle| middle.is_finite() && numbers.len() * 2 >= windows.len())?;
        Some((name.to_owned(), middle))
    };
    guards.iter().filter_map(of).collect()
}
