//! Clock sources: the current source, the available sources, and the processor's guarantees about its counter.

use evenkeel_hostfs::proc::field;
use serde::Serialize;

use super::kernel::Kernel;
use crate::fact::Fact;
use crate::probe::{Probe, and_then};

/// The maximum number of kernel log lines that are stored.
const LOG_LINES_MAX: usize = 8;

/// The clock that the kernel reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clock {
    /// The source in use.
    pub current: Fact<String>,
    /// The available sources, the best first.
    pub available: Fact<Vec<String>>,
    /// The guarantees in /proc/cpuinfo about the time-stamp counter. Absent on other architectures than x86.
    pub tsc: Fact<TscFlags>,
    /// The kernel arguments that affect the selection (`clocksource=`, `tsc=`, `notsc`, `hpet=`, `no-kvmclock`), in order.
    pub arguments: Fact<Vec<String>>,
    /// The last few lines in the kernel log about the counter, if the processor has a counter but the kernel does not offer it.
    /// Absent if the counter is available.
    pub tsc_log: Fact<Vec<String>>,
    /// The available hardware clocks, by name (`KVM virtual PTP`, `hyperv`), in the order of their numbers. May be empty.
    pub ptp: Fact<Vec<String>>,
}

/// Guarantees about the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TscFlags {
    /// The counter runs at a constant rate, whatever the frequency of the CPU (`constant_tsc`).
    pub constant: bool,
    /// The counter does not stop in deep idle states (`nonstop_tsc`).
    pub nonstop: bool,
    /// The hypervisor or the platform guarantees the counter (`tsc_reliable`).
    pub reliable: bool,
}

impl TscFlags {
    /// Whether the counter may be trusted as a clock across idle and frequency changes.
    pub fn is_invariant(self) -> bool {
        self.constant && self.nonstop
    }
}

impl Clock {
    pub(super) fn probe(probe: Probe<'_>, cpuinfo: &Fact<String>, kernel: &Kernel) -> Clock {
        let available = probe.words("/sys/devices/system/clocksource/clocksource0/available_clocksource");
        let tsc = and_then(cpuinfo.clone(), |text| match parse_tsc_flags(&text) {
            Some(flags) => Fact::Known(flags),
            None => Fact::absent("/proc/cpuinfo has no line of flags: this is not an x86 processor"),
        });
        Clock {
            arguments: kernel.command_line.clone().map(|arguments| on_clocks(&arguments)),
            tsc_log: probe_tsc_log(probe, &available, &tsc),
            ptp: probe_ptp(probe),
            available,
            tsc,
            current: probe.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        }
    }

    /// Whether a source is available. `None` if unknown.
    pub fn offers(&self, source: &str) -> Option<bool> {
        self.available.known().map(|names| names.iter().any(|name| name == source))
    }

    /// The argument that prevents the counter from being a clock source, if present: `notsc`, or `tsc=unstable`.
    pub fn argument_against_tsc(&self) -> Option<&str> {
        let against = |argument: &&String| matches!(argument.as_str(), "notsc" | "tsc=unstable");
        self.arguments.known()?.iter().find(against).map(String::as_str)
    }
}

/// Reads only the first few clocks. A machine has one clock in total, or one per network interface.
fn probe_ptp(probe: Probe<'_>) -> Fact<Vec<String>> {
    const CLOCKS_MAX: usize = 16;
    const DIR: &str = "/sys/class/ptp";
    match probe.numbered(DIR, "ptp") {
        Fact::Known(numbers) => {
            let name = |number: u32| probe.text(&format!("{DIR}/ptp{number}/clock_name")).known().cloned();
            Fact::Known(numbers.into_iter().take(CLOCKS_MAX).filter_map(name).collect())
        }
        Fact::Absent { .. } => Fact::Known(Vec::new()),
        unknown => unknown.map(|_| Vec::new()),
    }
}

/// The arguments that affect clock sources. The kernel passes the arguments after `--` to init.
fn on_clocks(arguments: &[String]) -> Vec<String> {
    const BARE: [&str; 4] = ["notsc", "nohpet", "no-kvmclock", "no_timer_check"];
    const NAMED: [&str; 3] = ["clocksource=", "tsc=", "hpet="];
    let own = arguments.iter().take_while(|argument| *argument != "--");
    let bears =
        |argument: &&String| BARE.contains(&argument.as_str()) || NAMED.iter().any(|name| argument.starts_with(name));
    own.filter(bears).cloned().collect()
}

/// Only the kernel log shows why the kernel stopped using a counter. Reading the log takes time, so read it only if the counter is missing.
fn probe_tsc_log(probe: Probe<'_>, available: &Fact<Vec<String>>, tsc: &Fact<TscFlags>) -> Fact<Vec<String>> {
    match (available, tsc) {
        (Fact::Known(names), _) if names.iter().any(|name| name == "tsc") => Fact::absent("tsc is on offer"),
        (_, Fact::Known(_)) => probe.parse("@kernel-log/tsc", "lines of the kernel's log", |text| {
            Some(text.lines().take(LOG_LINES_MAX).map(str::to_owned).collect())
        }),
        (_, unknown) => unknown.clone().map(|_| Vec::new()),
    }
}

/// The flags of the first CPU. The kernel keeps only flags that all CPUs have in common.
fn parse_tsc_flags(cpuinfo: &str) -> Option<TscFlags> {
    let flags = field(cpuinfo, "flags", ':')?;
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    Some(TscFlags { constant: has("constant_tsc"), nonstop: has("nonstop_tsc"), reliable: has("tsc_reliable") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_clock_arguments() {
        let of = |text: &str| on_clocks(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ");
        assert_eq!(of("ro clocksource=tsc tsc=reliable quiet notsc"), "clocksource=tsc tsc=reliable notsc");
        assert_eq!(of("tscx clock=tsc hpet=disable -- notsc"), "hpet=disable");
    }

    #[test]
    fn flags_are_whole_words() {
        let table = [
            ("flags\t\t: fpu tsc constant_tsc rep_good nonstop_tsc\n", Some((true, true, false))),
            ("flags : tsc_reliable not_constant_tsc\n", Some((false, false, true))),
            ("flags\t\t:\n", Some((false, false, false))),
            ("Features\t: fp asimd evtstrm\n", None),
            ("vmx flags : constant_tsc\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            let flags = parse_tsc_flags(text).map(|flags| (flags.constant, flags.nonstop, flags.reliable));
            assert_eq!(flags, expected, "{text:?}");
        }
        let invariant = |text| parse_tsc_flags(text).map(TscFlags::is_invariant);
        assert_eq!(invariant("flags: constant_tsc nonstop_tsc"), Some(true));
        assert_eq!(invariant("flags: constant_tsc tsc_reliable"), Some(false));
    }
}
