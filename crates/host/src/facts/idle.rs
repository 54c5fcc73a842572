//! How CPUs idle and at which frequency they run, as far as the guest may know.

use serde::Serialize;

use crate::fact::Fact;
use crate::probe::{Probe, or_else};

/// Idle states and who chooses among them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Idle {
    /// `intel_idle`, `acpi_idle`, `haltpoll`, … or `none`.
    pub driver: Fact<String>,
    /// `menu`, `teo`, `haltpoll`, `ladder`.
    pub governor: Fact<String>,
    /// The states of CPU 0, the shallowest first.
    pub states: Fact<Vec<IdleState>>,
    /// The deepest state that the `intel_idle` driver allows, by its index.
    pub intel_idle_max_cstate: Fact<u32>,
    /// How long a KVM guest polls before it halts, in nanoseconds, at most.
    pub guest_halt_poll_ns: Fact<u64>,
}

/// One idle state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IdleState {
    /// Its place in the driver's list.
    pub index: u32,
    /// As the driver names it, such as `C6-HSW`.
    pub name: Fact<String>,
    /// How long it takes to leave it, in microseconds, by the driver's table.
    pub exit_latency_us: Fact<u64>,
    /// Whether it was switched off.
    pub disabled: Fact<bool>,
}

/// Frequency scaling.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frequency {
    /// `intel_pstate`, `acpi-cpufreq`, …; absent in most virtual machines.
    pub driver: Fact<String>,
    /// The governor of CPU 0.
    pub governor: Fact<String>,
    /// The governors on offer.
    pub available_governors: Fact<Vec<String>>,
}

impl Idle {
    pub(super) fn probe(probe: Probe<'_>) -> Idle {
        // Kernels up to 5.7 have the writable file only when booted for it, and name the read-only one otherwise.
        let governor = or_else(probe.text("/sys/devices/system/cpu/cpuidle/current_governor"), || {
            probe.text("/sys/devices/system/cpu/cpuidle/current_governor_ro")
        });
        // One CPU stands for all: the drivers register the same table for each.
        let indices = probe.numbered("/sys/devices/system/cpu/cpu0/cpuidle", "state");
        Idle {
            driver: probe.text("/sys/devices/system/cpu/cpuidle/current_driver"),
            governor,
            states: indices.map(|indices| indices.into_iter().map(|index| probe_state(probe, index)).collect()),
            intel_idle_max_cstate: probe.number("/sys/module/intel_idle/parameters/max_cstate"),
            guest_halt_poll_ns: probe.number("/sys/module/haltpoll/parameters/guest_halt_poll_ns"),
        }
    }
}

impl Frequency {
    pub(super) fn probe(probe: Probe<'_>) -> Frequency {
        const DIR: &str = "/sys/devices/system/cpu/cpu0/cpufreq";
        Frequency {
            driver: probe.text(&format!("{DIR}/scaling_driver")),
            governor: probe.text(&format!("{DIR}/scaling_governor")),
            available_governors: probe.words(&format!("{DIR}/scaling_available_governors")),
        }
    }
}

fn probe_state(probe: Probe<'_>, index: u32) -> IdleState {
    let dir = format!("/sys/devices/system/cpu/cpu0/cpuidle/state{index}");
    IdleState {
        index,
        name: probe.text(&format!("{dir}/name")),
        exit_latency_us: probe.number(&format!("{dir}/latency")),
        disabled: probe.parse(&format!("{dir}/disable"), "0 or a number of reasons", parse_disabled),
    }
}

/// Not 0 for any reason that is in force: 1 by the user, 2 by the driver.
fn parse_disabled(text: &str) -> Option<bool> {
    text.parse::<u64>().ok().map(|reasons| reasons != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_may_be_disabled_for_several_reasons() {
        for (text, expected) in
            [("0", Some(false)), ("1", Some(true)), ("3", Some(true)), ("-1", None), ("yes", None), ("", None)]
        {
            assert_eq!(parse_disabled(text), expected, "{text:?}");
        }
    }
}
