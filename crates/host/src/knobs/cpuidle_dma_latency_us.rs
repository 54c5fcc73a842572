//! The limit on the wake-up time of all CPUs, while a process keeps `/dev/cpu_dma_latency` open.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt, TunedProfile, Wait};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::{Finding, State};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::{burstable, one};

use super::cmdline_intel_idle_max_cstate::deepest;

const PATH: &str = "/dev/cpu_dma_latency";

/// This limit allows C1 of the drivers with real states, because its exit latency is at most 2 us. It excludes deeper states.
const WANTED_US: u64 = 2;

pub(super) const KNOB: Knob = Knob {
    id: "cpuidle.dma_latency_us",
    title: "how long CPUs may take to wake",
    area: Area::Cpu,
    place: Place::Held { path: PATH },
    values: Values::Number { min: 0, max: 2_000_000_000, unit: "us" },
    default: "2000000000 (no limit)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A process opens the device and writes a number. The kernel then uses no idle state with a longer exit latency. \
        The lowest of all requests holds until that process closes the device or ends. So it needs no reboot, and it \
        undoes itself. 0 leaves only polling: the CPU never sleeps. In a guest, it then never pays for a halt and a \
        wake-up by the hypervisor.",
    risk: "cores that do not sleep leave less turbo to the others and use power; a guest that polls uses CPU time of the \
        host and credits of burstable instances",
    shows_in: "usage and time of /sys/devices/system/cpu/cpu*/cpuidle/state*",
    kernels: "all, with an idle driver",
    sources: &[
        Source {
            title: "Linux Documentation/power/pm_qos_interface.rst",
            says: "the request holds while the file is open; the lowest of all requests wins",
        },
        Source { title: "Linux Documentation/admin-guide/pm/cpuidle.rst", says: "governors apply the limit" },
        Source { title: "TuneD, profile latency-performance", says: "holds 1 us, or 3 us if states cannot be named" },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "0 takes the median wake-up after 100 us of idle from 33.2 to 2.3 us, after 1 ms from 43.2 to 3.7 us",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::IdleUsage],
        counter: Some(Counter::IdleStates),
        worth_a_trial: &["0"],
        tuned: &[TunedProfile::NetworkLatency, TunedProfile::LatencyPerformance],
        shortens: Some(Wait::IdleExit),
        called: &["tuned cpu force_latency", PATH],
        risk_at: RiskAt::Except(&["2000000000"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal).map(|finding| as_held(facts, finding)))
}

/// Adds the value in force, which only root can read. If a process already requests this limit, another request is not needed.
fn as_held(facts: &Facts, finding: Finding) -> Finding {
    let Some(held_us) = facts.idle.dma_latency_us.known() else { return finding };
    let wanted: Option<u64> = finding.wanted.as_ref().and_then(|wanted| wanted.parse().ok());
    if finding.state == State::Set && wanted.is_some_and(|wanted| *held_us <= wanted) {
        return Finding::keep(PATH, format!("a process already holds it at {held_us} us")).at(held_us);
    }
    if finding.state == State::NotHere { finding } else { finding.at(held_us) }
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let driver = match &facts.idle.driver {
        Fact::Known(driver) if driver != "none" => driver,
        Fact::Known(_) | Fact::Absent { .. } => {
            return Ok(Finding::inert(PATH, "there is no idle driver here: there are no states to exclude"));
        }
        unknown => return Err(Finding::unknown(PATH, "the idle driver", unknown)),
    };
    if goal != Goal::Latency {
        return Ok(Finding::keep(
            PATH,
            format!("CPUs that sleep leave time and power to others, which suits the goal {goal}"),
        ));
    }
    if driver == "haltpoll" {
        return Ok(match burstable(facts) {
            Some(instance) => {
                Finding::keep(PATH, format!("constant polling would spend the CPU credits of a {instance}"))
            }
            None => Finding::set(
                PATH,
                0,
                "haltpoll halts the CPU, and the hypervisor needs long to wake it: polling avoids that",
            ),
        });
    }
    let Fact::Known(states) = &facts.idle.states else {
        return Err(Finding::unknown(PATH, "how deep the idle states are", &facts.idle.states));
    };
    Ok(match deepest(states) {
        Some((name, exit_us)) if exit_us > WANTED_US => {
            Finding::set(PATH, WANTED_US, format!("{name} of {driver} takes {exit_us} us to leave"))
        }
        Some((name, exit_us)) => {
            Finding::keep(PATH, format!("the deepest state, {name}, takes only {exit_us} us to leave"))
        }
        None => Finding::keep(PATH, "no idle state reports its exit latency"),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::facts::Cloud;
    use crate::testing::{check, with_idle};

    #[test]
    fn it_rules_out_what_takes_long_to_leave() {
        let haltpoll = with_idle("haltpoll", &[("POLL", 0), ("haltpoll", 1)]);
        let instance = |name: &'static str| {
            let haltpoll = with_idle("haltpoll", &[("POLL", 0), ("haltpoll", 1)]);
            move |facts: &mut Facts| {
                haltpoll(facts);
                facts.machine.cloud = Fact::Known(Cloud::Aws);
                facts.machine.instance_type = Fact::Known(name.into());
            }
        };
        check(
            &KNOB,
            &[
                ("no driver", Goal::Latency, &|_| {}),
                ("no cpuidle", Goal::Latency, &|facts| facts.idle.driver = Fact::absent("no cpuidle")),
                ("driver unreadable", Goal::Latency, &|facts| facts.idle.driver = Fact::odd("/d", "", "empty")),
                ("c4.8xlarge", Goal::Latency, &with_idle("intel_idle", &[("C1-HSW", 2), ("C6-HSW", 133)])),
                ("c4.8xlarge", Goal::Throughput, &with_idle("intel_idle", &[("C1-HSW", 2), ("C6-HSW", 133)])),
                ("held already", Goal::Latency, &|facts| {
                    with_idle("intel_idle", &[("C1-HSW", 2), ("C6-HSW", 133)])(facts);
                    facts.idle.dma_latency_us = Fact::Known(2);
                }),
                ("not ours to know", Goal::Latency, &|facts| {
                    with_idle("intel_idle", &[("C1-HSW", 2), ("C6-HSW", 133)])(facts);
                    facts.idle.dma_latency_us = Fact::Denied { why: "EACCES".into() };
                }),
                ("C1 only", Goal::Latency, &with_idle("intel_idle", &[("POLL", 0), ("C1", 1)])),
                ("states unknown", Goal::Latency, &|facts| {
                    facts.idle.driver = Fact::Known("acpi_idle".into());
                    facts.idle.states = Fact::absent("no states");
                }),
                ("no state known", Goal::Latency, &with_idle("acpi_idle", &[])),
                ("haltpoll", Goal::Latency, &haltpoll),
                ("haltpoll", Goal::Density, &haltpoll),
                ("haltpoll on credits", Goal::Latency, &instance("t3.large")),
                ("haltpoll without credits", Goal::Latency, &instance("trn1.2xlarge")),
            ],
            expect![[r#"
                no driver (latency)
                  not-here /dev/cpu_dma_latency: there is no idle driver here: there are no states to exclude
                no cpuidle (latency)
                  not-here /dev/cpu_dma_latency: there is no idle driver here: there are no states to exclude
                driver unreadable (latency)
                  unknown /dev/cpu_dma_latency: the idle driver is not known: empty
                c4.8xlarge (latency)
                  set /dev/cpu_dma_latency "2000000000" -> "2": C6-HSW of intel_idle takes 133 us to leave
                c4.8xlarge (throughput)
                  keep /dev/cpu_dma_latency "2000000000": CPUs that sleep leave time and power to others, which suits the goal throughput
                held already (latency)
                  keep /dev/cpu_dma_latency "2": a process already holds it at 2 us
                not ours to know (latency)
                  set /dev/cpu_dma_latency ? -> "2": C6-HSW of intel_idle takes 133 us to leave
                C1 only (latency)
                  keep /dev/cpu_dma_latency "2000000000": the deepest state, C1, takes only 1 us to leave
                states unknown (latency)
                  unknown /dev/cpu_dma_latency: how deep the idle states are is not known: no states
                no state known (latency)
                  keep /dev/cpu_dma_latency "2000000000": no idle state reports its exit latency
                haltpoll (latency)
                  set /dev/cpu_dma_latency "2000000000" -> "0": haltpoll halts the CPU, and the hypervisor needs long to wake it: polling avoids that
                haltpoll (density)
                  keep /dev/cpu_dma_latency "2000000000": CPUs that sleep leave time and power to others, which suits the goal density
                haltpoll on credits (latency)
                  keep /dev/cpu_dma_latency "2000000000": constant polling would spend the CPU credits of a t3.large
                haltpoll without credits (latency)
                  set /dev/cpu_dma_latency "2000000000" -> "0": haltpoll halts the CPU, and the hypervisor needs long to wake it: polling avoids that
            "#]],
        );
    }
}
