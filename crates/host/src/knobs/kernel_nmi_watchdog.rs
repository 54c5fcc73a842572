//! Whether a performance counter regularly interrupts each CPU to check that the CPU responds.

use crate::extras::{CounterPlace, Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/kernel/nmi_watchdog";

pub(super) const KNOB: Knob = Knob {
    id: "kernel.nmi_watchdog",
    title: "whether the kernel watches CPUs for hard lockups",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "1 if a performance counter is free for it, which few guests have",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A performance counter of each CPU raises a non-maskable interrupt every few seconds of busy time. Its handler \
        checks whether the CPU still serves interrupts. Each one costs the running thread a few microseconds, and \
        profilers cannot use that counter. Without the watchdog, nobody notices a CPU that hangs with interrupts \
        disabled.",
    risk: "the kernel no longer reports hard lockups",
    shows_in: "NMI in /proc/interrupts",
    kernels: "all, on architectures with such a watchdog; guests without counters refuse 1",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/kernel.rst",
            says: "nmi_watchdog: what it watches; uses one performance counter",
        },
        Source { title: "TuneD, profile network-latency", says: "0" },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/interrupts", names: &["NMI"] }],
        // The interrupts come from a performance counter, which most guests do not have.
        // There is one interrupt every few seconds.
        effect: Some(Effect::Small),
        tuned: &[TunedProfile::NetworkLatency],
        risk_at: RiskAt::Values(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let finding = match (current, goal) {
        (0, _) => Finding::keep(PATH, "no watchdog interrupts running threads"),
        (_, Goal::Latency) => Finding::set(
            PATH,
            0,
            "a tick cannot delay its interrupts; without it the kernel does not report hard lockups",
        ),
        (_, Goal::Throughput | Goal::Density) => {
            Finding::keep(PATH, "it costs very little, and it reports CPUs that hang")
        }
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn ticks_want_no_watchdog() {
        check(
            &KNOB,
            &[
                ("on", Goal::Latency, &with_sysctl(PATH, "1")),
                ("on", Goal::Throughput, &with_sysctl(PATH, "1")),
                ("off", Goal::Latency, &with_sysctl(PATH, "0")),
                ("not there", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                on (latency)
                  set /proc/sys/kernel/nmi_watchdog "1" -> "0": a tick cannot delay its interrupts; without it the kernel does not report hard lockups
                on (throughput)
                  keep /proc/sys/kernel/nmi_watchdog "1": it costs very little, and it reports CPUs that hang
                off (latency)
                  keep /proc/sys/kernel/nmi_watchdog "0": no watchdog interrupts running threads
                not there (latency)
                  not-here /proc/sys/kernel/nmi_watchdog: not present here: the facts do not include /proc/sys/kernel/nmi_watchdog
            "#]],
        );
    }
}
