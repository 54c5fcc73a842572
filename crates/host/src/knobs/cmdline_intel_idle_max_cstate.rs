//! The deepest idle state that the `intel_idle` driver may use, from boot on.

use crate::extras::{Counter, CounterPlace, Extras};
use crate::fact::Fact;
use crate::facts::{Facts, IdleState};
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const ARGUMENT: &str = "intel_idle.max_cstate";

/// The first state of the driver's list: C1.
const WANTED: u32 = 1;

/// States with a shorter exit latency have no visible effect on a tick.
const EXIT_US_MAX: u64 = 10;

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.intel_idle.max_cstate",
    title: "the deepest idle state that Intel CPUs use",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Number { min: 0, max: 9, unit: "" },
    default: "9 (every state that the driver knows)",
    takes_effect: TakesEffect::Reboot,
    mechanism: "A CPU without work sleeps. The longer it expects to be idle, the deeper it sleeps, and the longer it takes to \
        answer a packet or a timer. This argument limits the depth: 1 leaves only the first state in the driver's \
        list. The number is an index into that list, not the C number in a state's name. 0 disables the driver, and \
        acpi_idle takes over. Most virtual machines have no idle driver, so the argument has no effect there.",
    risk: "the highest turbo needs idle cores in deep sleep (on a c4.8xlarge 3.5 GHz fell to 3.2 GHz); more power; \
        cpuidle.dma_latency_us does the same at runtime, without a reboot",
    shows_in: "usage and time of /sys/devices/system/cpu/cpu0/cpuidle/state*",
    kernels: "all, with the intel_idle driver",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/pm/intel_idle.rst",
            says: "bounds the index of the deepest state; 0 disables the driver",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "1 on a c4.8xlarge, whose C6 takes 133 us to leave",
        },
        Source {
            title: "Amazon EC2 User Guide, Processor state control",
            says: "which sizes let the guest control its states; Graviton never",
        },
    ],
    extras: Extras { read_in: &[CounterPlace::IdleUsage], counter: Some(Counter::IdleStates), ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    if let Some(architecture) = facts.kernel.architecture.known().filter(|name| !is_x86(name)) {
        return Ok(Finding::not_here(
            ARGUMENT,
            format!("intel_idle is for Intel processors, and this is {architecture}"),
        ));
    }
    match &facts.idle.driver {
        Fact::Known(driver) if driver == "intel_idle" => {}
        other => return Ok(other_driver(other)),
    }
    let limit = facts.kernel.argument(ARGUMENT).and_then(|value| value.parse().ok());
    let limit = limit.or(facts.idle.intel_idle_max_cstate.known().copied());
    let Fact::Known(states) = &facts.idle.states else {
        return Err(Finding::unknown(ARGUMENT, "how deep the idle states are", &facts.idle.states));
    };
    let finding = match deepest(states) {
        _ if limit.is_some_and(|limit| limit <= WANTED) => {
            Finding::keep(ARGUMENT, "idle states are already limited to C1")
        }
        Some((name, exit_us)) if exit_us > EXIT_US_MAX => {
            let slow = format!("{name} takes {exit_us} us to leave");
            match goal {
                Goal::Latency => {
                    let reason = format!(
                        "{slow}; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot"
                    );
                    Finding::set(ARGUMENT, WANTED, reason)
                }
                Goal::Throughput | Goal::Density => {
                    Finding::keep(ARGUMENT, format!("{slow}, but sleeping cores let the other cores run faster"))
                }
            }
        }
        Some((name, exit_us)) => {
            Finding::keep(ARGUMENT, format!("the deepest state, {name}, takes only {exit_us} us to leave"))
        }
        None => Finding::keep(ARGUMENT, "no idle state reports its exit latency"),
    };
    Ok(Finding { current: limit.map(|limit| limit.to_string()), ..finding })
}

fn is_x86(architecture: &str) -> bool {
    matches!(architecture, "x86_64" | "i686" | "i586" | "i386")
}

fn other_driver(driver: &Fact<String>) -> Finding {
    let reason = match driver {
        Fact::Known(driver) => match driver.as_str() {
            "none" => "there is no idle driver here: the hypervisor decides how deep CPUs sleep".to_owned(),
            "haltpoll" => "haltpoll polls and then halts: the guest has no deeper state".to_owned(),
            "acpi_idle" => "acpi_idle controls idle states here: its argument is processor.max_cstate".to_owned(),
            other => format!("{other:?} controls idle states here, not intel_idle"),
        },
        Fact::Absent { .. } => "there is no idle driver here: the hypervisor decides how deep CPUs sleep".to_owned(),
        _ => return Finding::unknown(ARGUMENT, "the idle driver", driver),
    };
    Finding::not_here(ARGUMENT, reason)
}

/// Name and exit latency, in microseconds, of the enabled state with the longest exit latency.
pub(super) fn deepest(states: &[IdleState]) -> Option<(String, u64)> {
    let on = states.iter().filter(|state| state.disabled.known() != Some(&true));
    let slowest = on.filter_map(|state| Some((state, *state.exit_latency_us.known()?))).max_by_key(|(_, exit)| *exit);
    slowest.map(|(state, exit_us)| {
        let name = state.name.known().cloned();
        (name.unwrap_or_else(|| format!("state {}", state.index)), exit_us)
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_idle};

    /// The states of a c4.8xlarge.
    const HASWELL: &[(&str, u64)] = &[("POLL", 0), ("C1-HSW", 2), ("C1E-HSW", 10), ("C3-HSW", 33), ("C6-HSW", 133)];

    #[test]
    fn it_bounds_states_that_take_long_to_leave() {
        let haswell = with_idle("intel_idle", HASWELL);
        check(
            &KNOB,
            &[
                ("no driver", Goal::Latency, &|_| {}),
                ("c4.8xlarge", Goal::Latency, &haswell),
                ("c4.8xlarge", Goal::Density, &haswell),
                ("C1E at the deepest", Goal::Latency, &with_idle("intel_idle", &HASWELL[..3])),
                ("deep states switched off", Goal::Latency, &|facts| {
                    haswell(facts);
                    let Fact::Known(states) = &mut facts.idle.states else { panic!("states") };
                    states[3..].iter_mut().for_each(|state| state.disabled = Fact::Known(true));
                }),
                ("bounded by argument, the last wins", Goal::Latency, &|facts| {
                    haswell(facts);
                    let arguments = ["intel_idle.max_cstate=9", "intel_idle.max_cstate=1"].map(str::to_owned);
                    facts.kernel.command_line = Fact::Known(arguments.into());
                }),
                ("bounded to 2", Goal::Latency, &|facts| {
                    haswell(facts);
                    facts.idle.intel_idle_max_cstate = Fact::Known(2);
                }),
                ("states unknown", Goal::Latency, &|facts| {
                    haswell(facts);
                    facts.idle.states = Fact::Denied { why: "EACCES".into() };
                }),
                ("no state known", Goal::Latency, &with_idle("intel_idle", &[])),
                ("acpi_idle", Goal::Latency, &with_idle("acpi_idle", &[("C1", 1), ("C2", 18)])),
                ("haltpoll", Goal::Latency, &with_idle("haltpoll", &[("POLL", 0), ("haltpoll", 1)])),
                ("another driver", Goal::Latency, &with_idle("psci_idle", &[])),
                ("no cpuidle", Goal::Latency, &|facts| facts.idle.driver = Fact::absent("no cpuidle")),
                ("driver unreadable", Goal::Latency, &|facts| facts.idle.driver = Fact::odd("/d", "", "empty")),
                ("arm", Goal::Latency, &|facts| facts.kernel.architecture = Fact::Known("aarch64".into())),
            ],
            expect![[r#"
                no driver (latency)
                  not-here intel_idle.max_cstate: there is no idle driver here: the hypervisor decides how deep CPUs sleep
                c4.8xlarge (latency)
                  set intel_idle.max_cstate ? -> "1": C6-HSW takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot
                c4.8xlarge (density)
                  keep intel_idle.max_cstate: C6-HSW takes 133 us to leave, but sleeping cores let the other cores run faster
                C1E at the deepest (latency)
                  keep intel_idle.max_cstate: the deepest state, C1E-HSW, takes only 10 us to leave
                deep states switched off (latency)
                  keep intel_idle.max_cstate: the deepest state, C1E-HSW, takes only 10 us to leave
                bounded by argument, the last wins (latency)
                  keep intel_idle.max_cstate "1": idle states are already limited to C1
                bounded to 2 (latency)
                  set intel_idle.max_cstate "2" -> "1": C6-HSW takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot
                states unknown (latency)
                  unknown intel_idle.max_cstate: how deep the idle states are is not known: EACCES
                no state known (latency)
                  keep intel_idle.max_cstate: no idle state reports its exit latency
                acpi_idle (latency)
                  not-here intel_idle.max_cstate: acpi_idle controls idle states here: its argument is processor.max_cstate
                haltpoll (latency)
                  not-here intel_idle.max_cstate: haltpoll polls and then halts: the guest has no deeper state
                another driver (latency)
                  not-here intel_idle.max_cstate: "psci_idle" controls idle states here, not intel_idle
                no cpuidle (latency)
                  not-here intel_idle.max_cstate: there is no idle driver here: the hypervisor decides how deep CPUs sleep
                driver unreadable (latency)
                  unknown intel_idle.max_cstate: the idle driver is not known: empty
                arm (latency)
                  not-here intel_idle.max_cstate: intel_idle is for Intel processors, and this is aarch64
            "#]],
        );
    }
}
