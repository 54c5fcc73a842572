//! Whether timers that are set on idle CPUs move to busy CPUs.

use crate::extras::{CounterPlace, Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{one, usable_cpus};

const PATH: &str = "/proc/sys/kernel/timer_migration";

pub(super) const KNOB: Knob = Knob {
    id: "kernel.timer_migration",
    title: "whether idle CPUs hand their timers over",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "1",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The kernel may move a timer that is set on an idle CPU to a busy one, so that the idle CPU can stay asleep. \
        The busy CPU may be the one that runs a tick, and the timer's work then interrupts that tick.",
    risk: "idle CPUs wake more often, which costs power",
    shows_in: "LOC in /proc/interrupts by CPU",
    kernels: "all with CONFIG_NO_HZ_COMMON; before 4.17 with CONFIG_SCHED_DEBUG too",
    sources: &[
        Source { title: "Linux kernel/time/timer.c, timers_migration_enabled", says: "what it switches" },
        Source { title: "TuneD, profile network-latency", says: "0" },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/interrupts", names: &["LOC"] }],
        // No counter shows moved timers.
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
    if usable_cpus(facts) == Some(1) {
        return Ok(Finding::inert(PATH, "1 CPU: there is no other CPU to move timers to").at(current));
    }
    let finding = match (current, goal) {
        (0, _) => Finding::keep(PATH, "timers stay on the CPU that set them"),
        (_, Goal::Latency) => Finding::set(
            PATH,
            0,
            format!(
                "timers of idle CPUs move to busy CPUs, which run ticks; TuneD disables that; run `evenkeel prove \
                    {}=0` to measure the effect",
                KNOB.id
            ),
        ),
        (_, Goal::Throughput | Goal::Density) => {
            Finding::keep(PATH, format!("idle CPUs sleep longer, which suits the goal {goal}"))
        }
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_cpus, with_sysctl};

    #[test]
    fn ticks_want_no_foreign_timers() {
        check(
            &KNOB,
            &[
                ("on", Goal::Latency, &with_sysctl(PATH, "1")),
                ("on", Goal::Density, &with_sysctl(PATH, "1")),
                ("off", Goal::Latency, &with_sysctl(PATH, "0")),
                ("1 CPU", Goal::Latency, &|facts| {
                    with_cpus(1)(facts);
                    with_sysctl(PATH, "1")(facts);
                }),
                ("not there", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                on (latency)
                  set /proc/sys/kernel/timer_migration "1" -> "0": timers of idle CPUs move to busy CPUs, which run ticks; TuneD disables that; run `evenkeel prove kernel.timer_migration=0` to measure the effect
                on (density)
                  keep /proc/sys/kernel/timer_migration "1": idle CPUs sleep longer, which suits the goal density
                off (latency)
                  keep /proc/sys/kernel/timer_migration "0": timers stay on the CPU that set them
                1 CPU (latency)
                  not-here /proc/sys/kernel/timer_migration "1": 1 CPU: there is no other CPU to move timers to
                not there (latency)
                  not-here /proc/sys/kernel/timer_migration: not present here: the facts do not include /proc/sys/kernel/timer_migration
            "#]],
        );
    }
}
