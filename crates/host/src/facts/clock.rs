//! Clock sources: the one in use and the ones on offer, and what the processor promises of its counter.

use serde::Serialize;

use crate::fact::Fact;
use crate::probe::{Probe, and_then, field};

/// Where the kernel takes the time from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clock {
    /// The source in use.
    pub current: Fact<String>,
    /// The sources on offer, the best first.
    pub available: Fact<Vec<String>>,
    /// What /proc/cpuinfo says of the time-stamp counter; absent on other architectures than x86.
    pub tsc: Fact<TscFlags>,
}

/// Promises of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TscFlags {
    /// It counts at one rate whatever the frequency of the CPU (`constant_tsc`).
    pub constant: bool,
    /// It counts on in deep idle states (`nonstop_tsc`).
    pub nonstop: bool,
    /// The hypervisor or the platform vouches for it (`tsc_reliable`).
    pub reliable: bool,
}

impl TscFlags {
    /// Whether it may be trusted as a clock across idle and frequency changes.
    pub fn is_invariant(self) -> bool {
        self.constant && self.nonstop
    }
}

impl Clock {
    pub(super) fn probe(probe: Probe<'_>, cpuinfo: &Fact<String>) -> Clock {
        Clock {
            current: probe.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            available: probe.words("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
            tsc: and_then(cpuinfo.clone(), |text| match parse_tsc_flags(&text) {
                Some(flags) => Fact::Known(flags),
                None => Fact::absent("/proc/cpuinfo has no line of flags: this is no x86 processor"),
            }),
        }
    }
}

/// The flags of the first CPU; the kernel keeps only those that all CPUs have in common.
fn parse_tsc_flags(cpuinfo: &str) -> Option<TscFlags> {
    let flags = field(cpuinfo, "flags", ':')?;
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    Some(TscFlags { constant: has("constant_tsc"), nonstop: has("nonstop_tsc"), reliable: has("tsc_reliable") })
}

#[cfg(test)]
mod tests {
    use super::*;

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
