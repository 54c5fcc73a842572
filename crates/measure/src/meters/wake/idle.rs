//! Finds whether the waiter's CPU went idle at all, and how it was woken.
//! Without this check, "no effect" could also mean that the CPU never went idle.

use std::collections::BTreeMap;

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{TICK_NS, parse_per_cpu, parse_stat};
use serde::Serialize;

/// The maximum number of idle states. No driver has more.
const STATES_MAX: usize = 16;

/// The counts of one CPU during the waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Idle {
    /// The idle share of the CPU, from 0 to 1, accurate to a few hundredths. None if /proc/stat does not report it.
    pub idle_share: Option<f64>,
    /// How often the CPU entered each idle state, by the driver's name. Empty without an idle driver.
    pub entered: BTreeMap<String, u64>,
    /// Interrupts from other CPUs (reschedule, function call) per wake.
    /// None if /proc/interrupts does not report them. A sleeping or busy CPU needs an interrupt.
    /// A CPU that polls in its idle loop needs none.
    pub calls_per_wake: Option<f64>,
    #[serde(skip)]
    sums: Sums,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    idle_ns: Option<u64>,
    wall_ns: u64,
    calls: Option<u64>,
    wakes: u64,
}

/// The counters of one CPU at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    idle_ns: Option<u64>,
    calls: Option<u64>,
    entered: BTreeMap<String, u64>,
}

impl Counters {
    pub(super) fn read(root: &Root, cpu: usize) -> Counters {
        let stat = root.text("/proc/stat").ok().and_then(|text| parse_stat(&text));
        let idle_ticks = stat.and_then(|stat| Some(stat.cpus.get(&cpu)?.idle));
        let calls = root.text("/proc/interrupts").ok().and_then(|text| calls(&text, cpu));
        let mut entered = BTreeMap::new();
        for state in 0..STATES_MAX {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            let (Ok(name), Ok(usage)) = (root.text(&format!("{folder}/name")), root.text(&format!("{folder}/usage")))
            else {
                break;
            };
            if let Ok(usage) = usage.trim().parse() {
                entered.insert(name.trim().to_owned(), usage);
            }
        }
        Counters { idle_ns: idle_ticks.map(|ticks| ticks.saturating_mul(TICK_NS)), calls, entered }
    }
}

impl Idle {
    /// Adds the counts over `wall_ns`, in which `wakes` wakes happened.
    pub(super) fn add(&mut self, before: &Counters, after: &Counters, wall_ns: u64, wakes: u64) {
        let grown = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let sum = |sum: Option<u64>, more: Option<u64>| more.map(|more| sum.unwrap_or(0) + more).or(sum);
        self.sums.idle_ns = sum(self.sums.idle_ns, grown(before.idle_ns, after.idle_ns));
        self.sums.calls = sum(self.sums.calls, grown(before.calls, after.calls));
        self.sums.wall_ns += wall_ns;
        self.sums.wakes += wakes;
        for (state, usage) in &after.entered {
            let more = usage.saturating_sub(before.entered.get(state).copied().unwrap_or(*usage));
            *self.entered.entry(state.clone()).or_default() += more;
        }
        let Sums { idle_ns, wall_ns, calls, wakes } = self.sums;
        // Two counters that are read one after the other can differ by a tick.
        self.idle_share = idle_ns.filter(|_| wall_ns > 0).map(|ns| (ns as f64 / wall_ns as f64).min(1.0));
        self.calls_per_wake = calls.filter(|_| wakes > 0).map(|calls| calls as f64 / wakes as f64);
    }
}

/// Interrupts that other CPUs sent to one CPU: reschedules and function calls, which also carry wakes.
/// On x86 these are `RES` and `CAL`, on ARM `IPI0` and `IPI1` (in either order).
fn calls(interrupts: &str, cpu: usize) -> Option<u64> {
    let table = parse_per_cpu(interrupts);
    let counts = ["RES", "CAL", "IPI0", "IPI1"].into_iter().filter_map(|label| table.count(label, cpu));
    counts.reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU2\n 24:  1  0  IO-APIC ACPI:Ged\nNMI:  9  9  Non\nRES:  10  20  Rescheduling\nCAL:  1  2  Function\n";

    #[test]
    fn each_cpu_has_its_own_counts() {
        assert_eq!((calls(INTERRUPTS, 0), calls(INTERRUPTS, 2), calls(INTERRUPTS, 1)), (Some(11), Some(22), None));
        assert_eq!(calls("  CPU0\nLOC: 5 timer\n", 0), None, "a missing row is not a count of 0");
    }

    #[test]
    fn turns_add_up() {
        let counters = |idle_ns, calls, c1: u64| Counters {
            idle_ns,
            calls,
            entered: [("C1".to_owned(), c1)].into_iter().collect(),
        };
        let mut idle = Idle::default();
        idle.add(&counters(Some(0), Some(5), 10), &counters(Some(10_000_000), Some(25), 30), 20_000_000, 10);
        idle.add(&counters(Some(0), Some(5), 30), &counters(Some(20_000_000), Some(5), 40), 20_000_000, 10);
        assert_eq!((idle.idle_share, idle.calls_per_wake, idle.entered["C1"]), (Some(0.75), Some(1.0), 30));
        let mut unknown = Idle::default();
        unknown.add(&Counters::default(), &Counters::default(), 5, 5);
        assert_eq!((unknown.idle_share, unknown.calls_per_wake), (None, None));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in any::<String>(), cpu in 0_usize..300) {
            let _ = calls(&text, cpu);
        }

        #[test]
        fn no_table_is_a_panic(text in "( CPU0)?\n((RES|CAL|cpu0):?( [0-9]{1,22}){0,6}\n){0,4}") {
            let _ = calls(&text, 0);
        }
    }
}
