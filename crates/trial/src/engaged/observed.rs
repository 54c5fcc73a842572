//! `Observed`: the conditions of an arm in a window or a boot. They are the input for judging the counters of a knob.

use evenkeel_stats::median;

use crate::arm::ArmName;
use crate::conditions::Conditions;

/// The machine in one window of an arm, in one boot, or in one window of a search with or without a knob.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    /// The arm of the window.
    pub(crate) arm: ArmName,
    /// The machine's state and counters.
    pub(crate) conditions: &'a Conditions,
}

/// The median of a number over the windows of an arm that have this number.
pub(super) fn median_of(
    windows: &[Observed<'_>],
    arm: ArmName,
    number: impl Fn(&Observed<'_>) -> Option<f64>,
) -> Option<f64> {
    let of_arm = windows.iter().filter(|window| window.arm == arm);
    median(&of_arm.filter_map(number).collect::<Vec<_>>())
}
