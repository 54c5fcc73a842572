//! The deepest idle state that the acpi_idle driver may use, from boot on.

use crate::extras::{Counter, CounterPlace, Extras};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

use super::cmdline_intel_idle_max_cstate::deepest;

const ARGUMENT: &str = "processor.max_cstate";

/// The state C1. The kernel treats 0 like 1.
const WANTED: u32 = 1;

/// States with a shorter exit latency have no visible effect on a tick.
const EXIT_US_MAX: u64 = 10;

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.processor.max_cstate",
    title: "the deepest idle state that acpi_idle uses",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Number { min: 0, max: 9, unit: "" },
    default: "8 (every state that the firmware reports)",
    takes_effect: TakesEffect::Reboot,
    mechanism: "If the firmware's tables control idle states, this argument limits how deep a CPU sleeps. That is so on AMD \
        processors and if intel_idle is off. 1 leaves C1, and 0 means 1. Without the acpi_idle driver it has no \
        effect.",
    risk: "the highest turbo needs idle cores in deep sleep; more power; cpuidle.dma_latency_us does the same at runtime",
    shows_in: "usage and time of /sys/devices/system/cpu/cpu0/cpuidle/state*",
    kernels: "all, with the acpi_idle driver",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/pm/cpuidle.rst",
            says: "processor.max_cstate bounds acpi_idle; 0 means 1",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "set along with intel_idle.max_cstate",
        },
    ],
    extras: Extras { read_in: &[CounterPlace::IdleUsage], counter: Some(Counter::IdleStates), ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    match &facts.idle.driver {
        Fact::Known(driver) if driver == "acpi_idle" => {}
        Fact::Known(driver) if driver == "none" => {
            return Ok(Finding::not_here(
                ARGUMENT,
                "there is no idle driver here: the hypervisor decides how deep CPUs sleep",
            ));
        }
        Fact::Known(driver) => {
            return Ok(Finding::not_here(ARGUMENT, format!("{driver} controls idle states here, not acpi_idle")));
        }
        Fact::Absent { .. } => return Ok(Finding::not_here(ARGUMENT, "there is no idle driver here")),
        unknown => return Err(Finding::unknown(ARGUMENT, "the idle driver", unknown)),
    }
    let asked = facts.kernel.argument(ARGUMENT).and_then(|value| value.parse::<u32>().ok());
    let limit = asked.or(facts.idle.processor_max_cstate.known().copied());
    let Fact::Known(states) = &facts.idle.states else {
        return Err(Finding::unknown(ARGUMENT, "how deep the idle states are", &facts.idle.states));
    };
    let finding = match deepest(states) {
        _ if limit.is_some_and(|limit| limit <= WANTED) => {
            Finding::keep(ARGUMENT, "idle states are already limited to C1")
        }
        Some((name, exit_us)) if exit_us > EXIT_US_MAX && goal == Goal::Latency => Finding::set(
            ARGUMENT,
            WANTED,
            format!(
                "{name} takes {exit_us} us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its \
                    cost without a reboot"
            ),
        ),
        Some((name, exit_us)) if exit_us > EXIT_US_MAX => Finding::keep(
            ARGUMENT,
            format!("{name} takes {exit_us} us to leave, but sleeping cores let the other cores run faster"),
        ),
        Some((name, exit_us)) => {
            Finding::keep(ARGUMENT, format!("the deepest state, {name}, takes only {exit_us} us to leave"))
        }
        None => Finding::keep(ARGUMENT, "no idle state reports its exit latency"),
    };
    Ok(Finding { current: limit.map(|limit| limit.to_string()), ..finding })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_idle};

    const EPYC: &[(&str, u64)] = &[("POLL", 0), ("C1", 1), ("C2", 18)];

    #[test]
    fn it_bounds_what_acpi_drives() {
        check(
            &KNOB,
            &[
                ("no driver", Goal::Latency, &|_| {}),
                ("AMD", Goal::Latency, &with_idle("acpi_idle", EPYC)),
                ("AMD", Goal::Density, &with_idle("acpi_idle", EPYC)),
                ("C1 at the deepest", Goal::Latency, &with_idle("acpi_idle", &EPYC[..2])),
                ("bounded", Goal::Latency, &|facts| {
                    with_idle("acpi_idle", EPYC)(facts);
                    facts.idle.processor_max_cstate = Fact::Known(1);
                }),
                ("intel_idle", Goal::Latency, &with_idle("intel_idle", EPYC)),
                ("denied", Goal::Latency, &|facts| facts.idle.driver = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                no driver (latency)
                  not-here processor.max_cstate: there is no idle driver here: the hypervisor decides how deep CPUs sleep
                AMD (latency)
                  set processor.max_cstate "9" -> "1": C2 takes 18 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot
                AMD (density)
                  keep processor.max_cstate "9": C2 takes 18 us to leave, but sleeping cores let the other cores run faster
                C1 at the deepest (latency)
                  keep processor.max_cstate "9": the deepest state, C1, takes only 1 us to leave
                bounded (latency)
                  keep processor.max_cstate "1": idle states are already limited to C1
                intel_idle (latency)
                  not-here processor.max_cstate: intel_idle controls idle states here, not acpi_idle
                denied (latency)
                  unknown processor.max_cstate: the idle driver is not known: EACCES
            "#]],
        );
    }
}
