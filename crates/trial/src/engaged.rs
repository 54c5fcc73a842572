//! Whether a knob was at work at all. With a neighbour keeping the CPUs awake every idle knob measures exactly nothing, and
//! "no effect" would be a false answer: the true one is "not engaged".

use std::collections::BTreeMap;

use evenkeel_host::{Counter, Plan, knobs};
use evenkeel_stats::median;
use evenkeel_sys::Root;

use crate::arm::ArmName;
use crate::run::Window;
use crate::workload::Workload;

const CPUS: &str = "/sys/devices/system/cpu";

/// Fewer entries into idle a second than this on the whole machine, and no idle knob can matter to a server.
const ENTRIES_A_SECOND_MIN: f64 = 100.0;
/// A machine busier than this is idle only by accident.
const BUSY_SHARE_MAX: f64 = 0.9;
/// The mean exit latency of the states that were entered must differ between the arms by this share at least.
const EXIT_LATENCY_RATIO_MIN: f64 = 0.05;

/// The counter of the knobs in a plan, if they have one in common.
pub(crate) fn of(plans: &[Plan]) -> Option<Counter> {
    let mut counters = plans.iter().flat_map(|plan| &plan.steps).map(|step| knobs::find(&step.knob).ok()?.counter);
    let first = counters.next()??;
    counters.all(|other| other == Some(first)).then_some(first)
}

/// How often each idle state was entered since boot, over all CPUs, by its exit latency in microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IdleEntries(BTreeMap<u64, u64>);

impl IdleEntries {
    /// `None` where the kernel has no idle driver.
    pub(crate) fn read(root: &Root) -> Option<IdleEntries> {
        let number = |path: String| root.text(&path).ok()?.trim().parse::<u64>().ok();
        let mut entries = BTreeMap::new();
        for cpu in root.entries(CPUS).ok()?.iter().filter(|name| is_numbered(name, "cpu")) {
            let Ok(states) = root.entries(&format!("{CPUS}/{cpu}/cpuidle")) else { continue };
            for state in states.iter().filter(|name| is_numbered(name, "state")) {
                let at = format!("{CPUS}/{cpu}/cpuidle/{state}");
                let (latency_us, usage) = (number(format!("{at}/latency"))?, number(format!("{at}/usage"))?);
                let sum: &mut u64 = entries.entry(latency_us).or_default();
                *sum = sum.saturating_add(usage);
            }
        }
        (!entries.is_empty()).then_some(IdleEntries(entries))
    }

    /// Entries since `start`, and their mean exit latency in microseconds, if there were any.
    pub(crate) fn since(&self, start: &IdleEntries) -> (u64, Option<f64>) {
        let mut entries = 0_u64;
        let mut latency_us = 0.0;
        for (exit_us, usage) in &self.0 {
            let since = usage.saturating_sub(start.0.get(exit_us).copied().unwrap_or(0));
            entries = entries.saturating_add(since);
            latency_us += *exit_us as f64 * since as f64;
        }
        (entries, (entries > 0).then(|| latency_us / entries as f64))
    }
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Why the knob was not at work in these windows, if it was not.
pub(crate) fn why_not_engaged(counter: Counter, windows: &[Window], workload: &dyn Workload) -> Option<String> {
    match counter {
        Counter::IdleStates => why_not_idle(windows),
        Counter::DevicePackets => (!workload.passes_network_devices())
            .then(|| "the workload's packets stay on loopback, and pass no network device".to_owned()),
    }
}

fn why_not_idle(windows: &[Window]) -> Option<String> {
    let of = |arm: Option<ArmName>, number: fn(&Window) -> Option<f64>| {
        let chosen = windows.iter().filter(|window| arm.is_none_or(|arm| window.arm == arm));
        median(&chosen.filter_map(number).collect::<Vec<_>>())
    };
    if let Some(busy) = of(None, |window| window.conditions.busy_share).filter(|busy| *busy > BUSY_SHARE_MAX) {
        return Some(format!("the CPUs were {:.0} % busy in the median window, so hardly ever idle", busy * 100.0));
    }
    let entries = of(None, |window| window.conditions.idle_entries_per_s);
    if let Some(entries) = entries.filter(|entries| *entries < ENTRIES_A_SECOND_MIN) {
        return Some(format!("CPUs went idle only {entries:.0} times a second"));
    }
    let exit_us = |arm| of(Some(arm), |window| window.conditions.idle_exit_latency_us);
    let (a, b) = (exit_us(ArmName::A)?, exit_us(ArmName::B)?);
    let differs = (a - b).abs() > EXIT_LATENCY_RATIO_MIN * a.max(b);
    (!differs).then(|| format!("both arms used the same idle states: mean exit latency {a:.2} us and {b:.2} us"))
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::Capture;

    use super::*;
    use crate::conditions::Conditions;
    use crate::workload::Sample;

    fn entries(usage: [u64; 3]) -> IdleEntries {
        let [poll, c1, c6] = usage;
        let text = format!(
            "evenkeel-capture 1\n{CPUS}/cpufreq/boost = 1\n{CPUS}/cpu0/cpuidle/state0/latency = 0\n\
             {CPUS}/cpu0/cpuidle/state0/usage = {poll}\n{CPUS}/cpu0/cpuidle/state1/latency = 2\n\
             {CPUS}/cpu0/cpuidle/state1/usage = {c1}\n{CPUS}/cpu1/cpuidle/state1/latency = 2\n\
             {CPUS}/cpu1/cpuidle/state1/usage = 5\n{CPUS}/cpu1/cpuidle/state2/latency = 133\n\
             {CPUS}/cpu1/cpuidle/state2/usage = {c6}\nend\n"
        );
        IdleEntries::read(&Root::captured(Capture::parse(&text).unwrap())).unwrap()
    }

    #[test]
    fn entries_are_weighed_by_exit_latency() {
        let start = entries([100, 10, 7]);
        assert_eq!(entries([100, 10, 7]).since(&start), (0, None));
        assert_eq!(entries([100, 15, 12]).since(&start), (10, Some((5.0 * 2.0 + 5.0 * 133.0) / 10.0)));
        assert_eq!(entries([150, 10, 7]).since(&start), (50, Some(0.0)));
        assert_eq!(IdleEntries::read(&Root::captured(Capture::default())), None);
    }

    fn windows(a: [f64; 3], b: [f64; 3]) -> Vec<Window> {
        let window = |arm, [busy, entries, exit_us]: [f64; 3]| Window {
            pair: 0,
            arm,
            start_us: 0.0,
            value: 1.0,
            sample: Sample::new(),
            conditions: Conditions {
                busy_share: Some(busy),
                idle_entries_per_s: Some(entries),
                idle_exit_latency_us: Some(exit_us),
                ..Conditions::default()
            },
        };
        vec![window(ArmName::A, a), window(ArmName::B, b)]
    }

    #[test]
    fn a_knob_that_was_not_at_work_is_told_from_one_that_was() {
        let table = [
            ([0.1, 9000.0, 1.0], [0.1, 12000.0, 0.2], None),
            (
                [0.99, 900.0, 1.0],
                [0.99, 900.0, 0.2],
                Some("the CPUs were 99 % busy in the median window, so hardly ever idle"),
            ),
            ([0.5, 20.0, 1.0], [0.5, 30.0, 0.2], Some("CPUs went idle only 25 times a second")),
            (
                [0.1, 9000.0, 1.0],
                [0.1, 9000.0, 0.99],
                Some("both arms used the same idle states: mean exit latency 1.00 us and 0.99 us"),
            ),
        ];
        for (a, b, expected) in table {
            assert_eq!(why_not_idle(&windows(a, b)).as_deref(), expected);
        }
        assert_eq!(why_not_idle(&[]), None, "nothing seen says nothing");
    }
}
