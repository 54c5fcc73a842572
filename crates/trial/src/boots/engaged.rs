//! Decides whether the settings were engaged in the boots. It uses the counters and rules of a trial that switches at run time.
//! A boot counts as one window, with the mean of its windows' counters and the median of their rates and shares.

use evenkeel_host::Setting;

use crate::arm::ArmName;
use crate::conditions::Conditions;
use crate::engaged::{self, Mechanism, Observed};
use crate::session::NetworkPath;

use super::state::{BootOutcome, BootsState};

/// Returns for each setting's knob whether its counter shows that the knob was engaged.
/// Empty without counters, or with boots of one arm only.
pub(super) fn mechanisms(state: &BootsState) -> Vec<Mechanism> {
    let counted = state.measured().filter_map(|(boot, _)| match &boot.outcome {
        BootOutcome::Measured { counted: Some(counted), .. } => Some((boot.arm, counted.network, counted.conditions())),
        _ => None,
    });
    let counted: Vec<(ArmName, NetworkPath, Conditions)> = counted.collect();
    let network = counted.last().map_or(NetworkPath::Loopback, |(_, network, _)| *network);
    let windows: Vec<Observed<'_>> =
        counted.iter().map(|(arm, _, conditions)| Observed { arm: *arm, conditions }).collect();
    if ![ArmName::A, ArmName::B].iter().all(|arm| windows.iter().any(|window| window.arm == *arm)) {
        return Vec::new();
    }
    let mut knobs: Vec<&str> = Vec::new();
    for setting in state.design.settings.iter().filter_map(|text| Setting::parse(text).ok()) {
        if !knobs.contains(&setting.knob.id) {
            knobs.push(setting.knob.id);
        }
    }
    knobs.into_iter().map(|knob| engaged::mechanism(&windows, network, knob, false)).collect()
}
