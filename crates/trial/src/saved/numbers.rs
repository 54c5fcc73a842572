//! What a window has beside the number that decides, as numbers by name: whatever a later version notes of a window is shown
//! by its name without a line of code for it.

use std::collections::BTreeMap;

use evenkeel_stats::median;
use serde_json::Value;

use super::{SavedTrial, SavedWindow};
use crate::arm::ArmName;

/// So many names of numbers are read of one window.
const NAMES_MAX: usize = 256;

/// The numbers in an object; those of an object within it are named `outer.inner`.
pub fn numbers(value: &Value) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let Value::Object(object) = value else { return found };
    for (name, value) in object {
        if let Some(number) = value.as_f64() {
            found.insert(name.clone(), number);
        }
        for (inner, value) in value.as_object().into_iter().flatten() {
            if let Some(number) = value.as_f64() {
                found.insert(format!("{name}.{inner}"), number);
            }
        }
        if found.len() >= NAMES_MAX {
            break;
        }
    }
    found
}

/// The median over the windows of A and of the other arm of every number that `of` finds in one; an arm that never had it is absent.
pub fn by_arm(
    trial: &SavedTrial,
    of: impl Fn(&SavedWindow) -> BTreeMap<String, f64>,
) -> BTreeMap<String, [Option<f64>; 2]> {
    let mut seen: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    for window in &trial.windows {
        for (name, number) in of(window) {
            // A hostile file may name another thing in each of its windows.
            if seen.len() < NAMES_MAX || seen.contains_key(&name) {
                seen.entry(name).or_default()[usize::from(window.arm != ArmName::A)].push(number);
            }
        }
    }
    seen.into_iter().map(|(name, arms)| (name, arms.map(|numbers| median(&numbers)))).collect()
}

impl SavedWindow {
    /// What the machine did meanwhile, by name.
    pub fn condition(&self, name: &str) -> Option<f64> {
        self.conditions.get(name).and_then(Value::as_f64)
    }

    /// What the workload measured, by name.
    pub fn measured(&self) -> BTreeMap<String, f64> {
        self.sample.iter().filter_map(|(name, number)| Some((name.clone(), (*number)?))).collect()
    }
}

impl SavedTrial {
    /// The arm's entry.
    pub fn arm(&self, arm: ArmName) -> Option<&super::SavedArm> {
        self.arms.iter().find(|entry| entry.arm == arm)
    }
}
