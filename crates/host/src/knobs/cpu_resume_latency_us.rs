//! The limit on the wake-up time of one CPU. `/dev/cpu_dma_latency` limits all CPUs.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;

use super::cmdline_intel_idle_max_cstate::deepest;

const FILE: &str = "power/pm_qos_resume_latency_us";

/// This limit allows C1 of the drivers with real states, like the limit of the knob for all CPUs.
const TRIED_US: u64 = 2;

pub(super) const KNOB: Knob = Knob {
    id: "cpu.resume_latency_us",
    title: "how long one CPU may take to wake",
    area: Area::Cpu,
    place: Place::Each { device: Device::Cpu, file: FILE, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 2_147_483_646, unit: "us" },
    default: "0 (no limit)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The idle governor of a CPU uses no idle state whose exit latency is above this value. 0 allows any state. The \
        kernel's word n/a allows none, so the CPU polls. Unlike /dev/cpu_dma_latency, it limits one CPU. The server's \
        CPUs wake fast, while the others sleep deeply and leave their turbo to them. The value stays until somebody \
        writes another.",
    risk: "a CPU that does not sleep leaves less turbo to the others and uses power",
    shows_in: "usage and time of /sys/devices/system/cpu/cpu*/cpuidle/state*",
    kernels: "all, with an idle driver",
    sources: &[
        Source {
            title: "Linux Documentation/ABI/testing/sysfs-devices-power, pm_qos_resume_latency_us",
            says: "microseconds; 0 means no limit, n/a allows no latency at all",
        },
        Source { title: "Linux Documentation/admin-guide/pm/cpuidle.rst", says: "governors apply it to its CPU" },
    ],
    extras: Extras {
        read_in: &[CounterPlace::IdleUsage],
        counter: Some(Counter::IdleStates),
        called: &["tuned cpu pm_qos_resume_latency_us"],
        risk_at: RiskAt::Except(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    let driver = match &facts.idle.driver {
        Fact::Known(driver) if driver != "none" => driver,
        Fact::Known(_) | Fact::Absent { .. } => {
            return vec![Finding::not_here(KNOB.id, "there is no idle driver here: there are no states to exclude")];
        }
        unknown => return vec![Finding::unknown(KNOB.id, "the idle driver", unknown)],
    };
    let online = facts.cpus.cpus.iter().filter(|cpu| cpu.online.known() == Some(&true));
    let bounded: Vec<Finding> = online.filter_map(|cpu| decide(cpu.cpu, &cpu.resume_latency_us)).collect();
    if !bounded.is_empty() {
        return bounded;
    }
    let slowest = facts.idle.states.known().and_then(|states| deepest(states)).filter(|(_, exit)| *exit > TRIED_US);
    let reason = match (context.goal, slowest) {
        (Goal::Latency, Some((name, exit_us))) => format!(
            "no CPU is limited, and {name} of {driver} takes {exit_us} us to leave; for the server's CPUs only, \
                run `evenkeel prove {id}@cpuN={TRIED_US}`; for all CPUs, use cpuidle.dma_latency_us",
            id = KNOB.id
        ),
        (Goal::Latency, None) => {
            format!("no CPU is limited, and no state of {driver} is known to have a long exit latency")
        }
        (goal, _) => format!("CPUs that sleep leave time and power to others, which suits the goal {goal}"),
    };
    vec![Finding::keep(KNOB.id, reason)]
}

/// The finding for a CPU with a limit, or with an unknown limit.
fn decide(cpu: usize, bound: &Fact<String>) -> Option<Finding> {
    let place = format!("cpu{cpu}");
    Some(match bound {
        Fact::Known(text) if text == "0" => return None,
        // Without the file, there is no limit.
        Fact::Absent { .. } => return None,
        Fact::Known(text) if text == "n/a" => {
            Finding::keep(place, "somebody set it to allow no latency: the CPU polls and never sleeps").at(text)
        }
        Fact::Known(text) => {
            Finding::keep(place, format!("somebody limited it to states that take {text} us to leave")).at(text)
        }
        unknown => Finding::unknown(place, "the limit on its wake-up time", unknown),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_idle};

    #[test]
    fn one_cpu_may_be_bounded_alone() {
        let deep = || with_idle("intel_idle", &[("C1", 2), ("C6", 133)]);
        let bounded = |text: Fact<String>| {
            move |facts: &mut Facts| {
                deep()(facts);
                facts.cpus.cpus[2].resume_latency_us = text.clone();
            }
        };
        check(
            &KNOB,
            &[
                ("no driver", Goal::Latency, &|_| {}),
                ("deep", Goal::Latency, &deep()),
                ("deep", Goal::Density, &deep()),
                ("shallow", Goal::Latency, &with_idle("intel_idle", &[("C1", 2)])),
                ("bounded", Goal::Latency, &bounded(Fact::Known("2".into()))),
                ("polls", Goal::Latency, &bounded(Fact::Known("n/a".into()))),
                ("never looked at", Goal::Latency, &bounded(Fact::Unseen { why: "it is not in the capture".into() })),
                ("no file", Goal::Latency, &bounded(Fact::absent("no such file"))),
                ("driver unknown", Goal::Latency, &|facts| facts.idle.driver = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                no driver (latency)
                  not-here cpu.resume_latency_us: there is no idle driver here: there are no states to exclude
                deep (latency)
                  keep cpu.resume_latency_us: no CPU is limited, and C6 of intel_idle takes 133 us to leave; for the server's CPUs only, run `evenkeel prove cpu.resume_latency_us@cpuN=2`; for all CPUs, use cpuidle.dma_latency_us
                deep (density)
                  keep cpu.resume_latency_us: CPUs that sleep leave time and power to others, which suits the goal density
                shallow (latency)
                  keep cpu.resume_latency_us: no CPU is limited, and no state of intel_idle is known to have a long exit latency
                bounded (latency)
                  keep cpu2 "2": somebody limited it to states that take 2 us to leave
                polls (latency)
                  keep cpu2 "n/a": somebody set it to allow no latency: the CPU polls and never sleeps
                never looked at (latency)
                  unknown cpu2: the limit on its wake-up time is not known: it is not in the capture, which is older than this check: capture the machine again
                no file (latency)
                  keep cpu.resume_latency_us: no CPU is limited, and C6 of intel_idle takes 133 us to leave; for the server's CPUs only, run `evenkeel prove cpu.resume_latency_us@cpuN=2`; for all CPUs, use cpuidle.dma_latency_us
                driver unknown (latency)
                  unknown cpu.resume_latency_us: the idle driver is not known: EACCES
            "#]],
        );
        assert!(KNOB.check("n/a").is_err() && KNOB.check("-1").is_err());
    }
}
