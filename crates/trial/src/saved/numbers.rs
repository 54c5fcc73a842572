//! The other metrics of a window by name, so that pages show all metrics without code for each.

use std::collections::BTreeMap;

use evenkeel_stats::median;
use serde::Serialize;
use serde_json::Value;

use crate::arm::ArmName;
use crate::report::Report;
use crate::session::Window;

/// The maximum number of different names of numbers to read from a report's windows.
const NAMES_MAX: usize = 256;

/// The numbers in the JSON form of a value. A number in an inner object has the name `outer.inner`.
pub fn numbers(of: &impl Serialize) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let Ok(Value::Object(object)) = serde_json::to_value(of) else { return found };
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

/// For each number that `of` finds in a window, the medians of A and of the other arm.
/// A median is None if no window of the arm has the number.
pub fn by_arm(report: &Report, of: impl Fn(&Window) -> BTreeMap<String, f64>) -> BTreeMap<String, [Option<f64>; 2]> {
    let mut seen: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    for window in &report.windows {
        for (name, number) in of(window) {
            // A malicious file may have different names in each of its windows.
            if seen.len() < NAMES_MAX || seen.contains_key(&name) {
                seen.entry(name).or_default()[usize::from(window.arm != ArmName::A)].push(number);
            }
        }
    }
    seen.into_iter().map(|(name, arms)| (name, arms.map(|numbers| median(&numbers)))).collect()
}
