//! Idle states and frequencies of CPUs, as far as the guest sees them.

use evenkeel_sys::CpuSet;
use serde::Serialize;

use crate::fact::Fact;
use crate::probe::{Probe, or_else};

/// Idle states and the driver and governor that select them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Idle {
    /// `intel_idle`, `acpi_idle`, `haltpoll`, … or `none`.
    pub driver: Fact<String>,
    /// `menu`, `teo`, `haltpoll`, `ladder`.
    pub governor: Fact<String>,
    /// The states of CPU 0, the shallowest first.
    pub states: Fact<Vec<IdleState>>,
    /// The deepest state that the `intel_idle` driver allows, by its index.
    pub intel_idle_max_cstate: Fact<u32>,
    /// The deepest state that the `processor` driver allows `acpi_idle`, by its ACPI number.
    pub processor_max_cstate: Fact<u32>,
    /// How long CPU 0 may take to resume, in microseconds. `0` means no limit, and `n/a` means no latency at all.
    pub resume_latency_us: Fact<String>,
    /// How long any CPU may take to wake, in microseconds: the lowest request of the processes that hold `/dev/cpu_dma_latency`.
    /// The value is 2000000000 without requests. Only root may read it.
    pub dma_latency_us: Fact<u64>,
    /// The deepest state that CPU 0 may use. Absent without an idle driver.
    pub deepest_allowed: Fact<DeepestAllowed>,
    /// The maximum time that a KVM guest polls before it halts, in nanoseconds.
    pub guest_halt_poll_ns: Fact<u64>,
}

/// One idle state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleState {
    /// The state's place in the driver's list.
    pub index: u32,
    /// The driver's name for the state, such as `C6-HSW`.
    pub name: Fact<String>,
    /// The state's exit latency in microseconds, from the driver's table.
    pub exit_latency_us: Fact<u64>,
    /// Whether it is disabled.
    pub disabled: Fact<bool>,
}

/// The deepest idle state allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeepestAllowed {
    /// The driver's name for the state. `none` if not even polling is allowed.
    pub name: String,
    /// The state's exit latency in microseconds, from the driver's table.
    pub exit_latency_us: u64,
    /// What excludes deeper states, in words. Empty if nothing excludes them.
    pub limited_by: Vec<String>,
    /// Other possible limits that could not be read. Empty if all limits were read.
    pub unseen: Vec<String>,
}

/// Frequency scaling.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frequency {
    /// `intel_pstate`, `acpi-cpufreq`, …; absent in most virtual machines.
    pub driver: Fact<String>,
    /// The governor of CPU 0.
    pub governor: Fact<String>,
    /// The available governors.
    pub available_governors: Fact<Vec<String>>,
    /// The available energy or performance preferences.
    pub available_preferences: Fact<Vec<String>>,
    /// Whether frequencies above the nominal frequency are allowed (`cpufreq/boost`). For `intel_pstate`, this comes from `no_turbo`.
    pub boost: Fact<bool>,
    /// Whether `intel_pstate` avoids turbo frequencies.
    pub no_turbo: Fact<bool>,
    /// Each group of CPUs that share a frequency, ascending.
    pub policies: Fact<Vec<FrequencyPolicy>>,
}

/// CPUs that share a frequency, as `cpufreq` sees them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FrequencyPolicy {
    /// The group's name, such as `policy0`, or `cpu0` on kernels before 4.3.
    pub name: String,
    /// The folder of its files.
    pub folder: String,
    /// The governor in force.
    pub governor: Fact<String>,
    /// The energy or performance preference. Absent if the driver has no preference.
    pub preference: Fact<String>,
    /// The CPUs.
    pub cpus: Fact<CpuSet>,
}

impl Idle {
    /// Reads all fields except the deepest allowed state, which is derived from these fields and from the kernel's facts.
    pub(super) fn probe(probe: Probe<'_>) -> Idle {
        // Kernels up to 5.7 have the writable file only with a boot argument.
        // Without that argument, kernels up to 5.7 have a read-only file with another name.
        let governor = or_else(probe.text("/sys/devices/system/cpu/cpuidle/current_governor"), || {
            probe.text("/sys/devices/system/cpu/cpuidle/current_governor_ro")
        });
        // CPU 0 represents all CPUs, because the drivers register the same table for each CPU.
        let indices = probe.numbered("/sys/devices/system/cpu/cpu0/cpuidle", "state");
        Idle {
            driver: probe.text("/sys/devices/system/cpu/cpuidle/current_driver"),
            governor,
            states: indices.map(|indices| indices.into_iter().map(|index| probe_state(probe, index)).collect()),
            intel_idle_max_cstate: probe.number("/sys/module/intel_idle/parameters/max_cstate"),
            processor_max_cstate: probe.number("/sys/module/processor/parameters/max_cstate"),
            resume_latency_us: probe.text("/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"),
            dma_latency_us: probe.number("@cpu_dma_latency_us"),
            deepest_allowed: Fact::absent("there is no idle driver"),
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
            available_preferences: probe.words(&format!("{DIR}/energy_performance_available_preferences")),
            boost: probe.parse("/sys/devices/system/cpu/cpufreq/boost", "0 or 1", parse_switch),
            no_turbo: probe.parse("/sys/devices/system/cpu/intel_pstate/no_turbo", "0 or 1", parse_switch),
            policies: probe_policies(probe),
        }
    }
}

fn probe_policies(probe: Probe<'_>) -> Fact<Vec<FrequencyPolicy>> {
    const DIR: &str = "/sys/devices/system/cpu";
    let each = |numbers: Vec<u32>, of: fn(u32) -> (String, String)| {
        numbers.into_iter().map(|number| probe_policy(probe, of(number))).collect::<Vec<_>>()
    };
    let policies = probe
        .numbered(&format!("{DIR}/cpufreq"), "policy")
        .map(|numbers| each(numbers, |number| (format!("policy{number}"), format!("{DIR}/cpufreq/policy{number}"))));
    let is_without = policies.is_absent() || policies.known().is_some_and(Vec::is_empty);
    if !is_without || probe.text(&format!("{DIR}/cpu0/cpufreq/scaling_driver")).known().is_none() {
        return policies;
    }
    // Before Linux 4.3 each CPU had its own folder.
    probe
        .numbered(DIR, "cpu")
        .map(|numbers| each(numbers, |number| (format!("cpu{number}"), format!("{DIR}/cpu{number}/cpufreq"))))
}

fn probe_policy(probe: Probe<'_>, (name, dir): (String, String)) -> FrequencyPolicy {
    FrequencyPolicy {
        governor: probe.text(&format!("{dir}/scaling_governor")),
        preference: probe.text(&format!("{dir}/energy_performance_preference")),
        cpus: probe.parse(&format!("{dir}/affected_cpus"), "numbers of CPUs", parse_numbers),
        name,
        folder: dir,
    }
}

fn parse_switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Parses `0 1 2`, which is cpufreq's form of a list of CPUs.
fn parse_numbers(text: &str) -> Option<CpuSet> {
    CpuSet::parse_list(&text.split_whitespace().collect::<Vec<_>>().join(","))
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

/// A number other than 0 means disabled: 1 by the user, 2 by the driver.
fn parse_disabled(text: &str) -> Option<bool> {
    text.parse::<u64>().ok().map(|reasons| reasons != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_cpus_stand_apart() {
        let set = |list| CpuSet::parse_list(list);
        let table = [("0", set("0")), ("0 1 2 5", set("0-2,5")), ("", set("")), ("0 x", None), ("-1", None)];
        for (text, expected) in table {
            assert_eq!(parse_numbers(text), expected, "{text:?}");
        }
        assert_eq!(["0", "1", "2", ""].map(parse_switch), [Some(false), Some(true), None, None]);
    }

    #[test]
    fn a_state_may_be_disabled_for_several_reasons() {
        for (text, expected) in
            [("0", Some(false)), ("1", Some(true)), ("3", Some(true)), ("-1", None), ("yes", None), ("", None)]
        {
            assert_eq!(parse_disabled(text), expected, "{text:?}");
        }
    }
}
