//! One switch for both of the kernel's watchdogs. A server should at most change kernel.nmi_watchdog instead.

use crate::extras::{Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/kernel/watchdog";

pub(super) const KNOB: Knob = Knob {
    id: "kernel.watchdog",
    title: "both watchdogs for hung CPUs",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "1",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "It switches kernel.nmi_watchdog and kernel.soft_watchdog together. The soft watchdog is a timer on each CPU \
        that checks every few seconds whether threads still run (two fifths of kernel.watchdog_thresh). It is too \
        short to disturb a tick. The other watchdog raises a non-maskable interrupt and has its own knob, \
        kernel.nmi_watchdog.",
    risk: "the kernel no longer reports hung CPUs, neither soft nor hard lockups",
    shows_in: "\"soft lockup\" in the kernel's log",
    kernels: "all, with CONFIG_LOCKUP_DETECTOR",
    sources: &[Source {
        title: "Linux Documentation/admin-guide/sysctl/kernel.rst, watchdog and soft_watchdog",
        says: "switches both; reads 1 where either is on",
    }],
    extras: Extras {
        read_in: &[],
        // No counter shows this: the kernel counts the wake-ups of the watchdog thread only together with all others.
        side_effects: &["/proc/sys/kernel/nmi_watchdog", "/proc/sys/kernel/soft_watchdog"],
        // While both watchdogs are off, writing 1 to the file of the NMI watchdog has no effect, and the file reads 0.
        along: Some(|value| (value == "0").then_some(("/proc/sys/kernel/nmi_watchdog", "0"))),
        risk_at: RiskAt::Values(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let reason = match current {
        0 => "no watchdog detects CPUs that hang",
        _ => "the soft watchdog disturbs no tick; only kernel.nmi_watchdog may",
    };
    Ok(Finding::keep(PATH, reason).at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn the_soft_watchdog_stays() {
        check(
            &KNOB,
            &[
                ("on", Goal::Latency, &with_sysctl(PATH, "1")),
                ("off", Goal::Latency, &with_sysctl(PATH, "0")),
                ("not there", Goal::Latency, &|_| {}),
            ],
            expect![[r#"
                on (latency)
                  keep /proc/sys/kernel/watchdog "1": the soft watchdog disturbs no tick; only kernel.nmi_watchdog may
                off (latency)
                  keep /proc/sys/kernel/watchdog "0": no watchdog detects CPUs that hang
                not there (latency)
                  not-here /proc/sys/kernel/watchdog: not present here: the facts do not include /proc/sys/kernel/watchdog
            "#]],
        );
    }
}
