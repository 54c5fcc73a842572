//! `BootCounters`: the counters of a boot that show whether the settings were engaged.

use std::collections::BTreeMap;

use evenkeel_stats::median;
use serde::{Deserialize, Serialize};

use crate::conditions::Conditions;
use crate::session::NetworkPath;

/// The maximum number of counters stored per boot. Interrupts have one counter per CPU.
pub const BOOT_COUNTERS_MAX: usize = 2048;
/// The maximum length of a counter's name, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The settings' counters in the counted windows of one boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootCounters {
    /// Whether the workload's packets passed a network device or stayed on loopback.
    pub network: NetworkPath,
    /// How often CPUs went idle, per second. This value and the next two are absent unless a setting concerns idling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_entries_per_s: Option<f64>,
    /// The mean exit latency of the idle states that were entered, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_exit_latency_us: Option<f64>,
    /// The share of the time in which idle CPUs polled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_polling_share: Option<f64>,
    /// The share of all CPU time that was not idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_share: Option<f64>,
    /// The share of the time that some task waited for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pressure_share: Option<f64>,
    /// For each counter, its mean change or value per window. It is not 0 if the counter moved in any window.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, f64>,
}

impl BootCounters {
    /// The counters of these windows of one boot.
    pub fn from_windows(network: NetworkPath, windows: &[Conditions]) -> BootCounters {
        let middle = |number: fn(&Conditions) -> Option<f64>| {
            median(&windows.iter().filter_map(number).filter(is_number).collect::<Vec<_>>()).filter(is_number)
        };
        let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (name, value) in windows.iter().flat_map(|window| &window.counters).filter(|(_, value)| is_number(value)) {
            let (sum, count) = sums.entry(name).or_default();
            *sum += value;
            *count += 1.0;
        }
        let means = sums.into_iter().map(|(name, (sum, count))| (name.to_owned(), sum / count));
        let counters: BTreeMap<String, f64> = means.filter(|(name, mean)| is_name(name) && is_number(mean)).collect();
        BootCounters {
            network,
            idle_entries_per_s: middle(|window| window.idle_entries_per_s),
            idle_exit_latency_us: middle(|window| window.idle_exit_latency_us),
            idle_polling_share: middle(|window| window.idle_polling_share),
            busy_share: middle(|window| window.busy_share),
            cpu_pressure_share: middle(|window| window.cpu_pressure_share),
            // Counters of only some CPUs would not represent the machine. So if there are too many counters, all are left out.
            counters: if counters.len() > BOOT_COUNTERS_MAX { BTreeMap::new() } else { counters },
        }
    }

    /// Whether all values are valid.
    pub(super) fn check(&self) -> bool {
        let numbers = [
            self.idle_entries_per_s,
            self.idle_exit_latency_us,
            self.idle_polling_share,
            self.busy_share,
            self.cpu_pressure_share,
        ];
        numbers.iter().flatten().all(is_number)
            && self.counters.len() <= BOOT_COUNTERS_MAX
            && self.counters.iter().all(|(name, value)| is_name(name) && is_number(value))
    }

    pub(super) fn conditions(&self) -> Conditions {
        Conditions {
            idle_entries_per_s: self.idle_entries_per_s,
            idle_exit_latency_us: self.idle_exit_latency_us,
            idle_polling_share: self.idle_polling_share,
            busy_share: self.busy_share,
            cpu_pressure_share: self.cpu_pressure_share,
            counters: self.counters.clone(),
            ..Conditions::default()
        }
    }
}

fn is_number(value: &f64) -> bool {
    value.is_finite() && *value >= 0.0
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && !name.is_empty() && !name.chars().any(char::is_control)
}
