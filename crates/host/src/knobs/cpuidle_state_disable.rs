//! Explains why evenkeel does not disable single idle states, and reports states that somebody disabled.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const PLACE: &str = "cpuidle.state_disable";

pub(super) const KNOB: Knob = Knob {
    id: "cpuidle.state_disable",
    title: "idle states disabled one by one",
    area: Area::Cpu,
    place: Place::ByHand {
        how: "echo {} > /sys/devices/system/cpu/cpuN/cpuidle/stateM/disable, for the CPUs N and the states M that you mean",
    },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "0",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "1 disables one idle state of one CPU. Each driver numbers the states in its own way, and the numbers change \
        with kernel and processor. A script for one machine can disable another state on the next. A limit in \
        microseconds is independent of the numbers: cpuidle.dma_latency_us limits all CPUs while a process holds it, \
        cpu.resume_latency_us limits one CPU. Both exclude the same states.",
    risk: "it stays until the next boot, even when the program that wrote it has ended; with every state disabled the CPU \
        still polls or halts",
    shows_in: "/sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
    kernels: "all, with an idle driver",
    sources: &[Source {
        title: "Linux Documentation/admin-guide/pm/cpuidle.rst",
        says: "disable removes a state from one CPU; the driver numbers the states",
    }],
    extras: Extras {
        read_in: &[CounterPlace::IdleUsage],
        counter: Some(Counter::IdleStates),
        risk_at: RiskAt::Values(&["1"]),
        called: &["cpuidle disable"],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    match &facts.idle.driver {
        Fact::Known(driver) if driver != "none" => {}
        Fact::Known(_) | Fact::Absent { .. } => {
            return Ok(Finding::not_here(PLACE, "there is no idle driver here: there are no states to disable"));
        }
        unknown => return Err(Finding::unknown(PLACE, "the idle driver", unknown)),
    }
    let states = match &facts.idle.states {
        Fact::Known(states) => states,
        unknown => return Err(Finding::unknown(PLACE, "which idle states there are", unknown)),
    };
    let off: Vec<String> = states
        .iter()
        .filter(|state| state.disabled.known() == Some(&true))
        .map(|state| state.name.known().cloned().unwrap_or_else(|| format!("state {}", state.index)))
        .collect();
    Ok(if off.is_empty() {
        Finding::keep(
            PLACE,
            "no state is disabled; prefer a limit in microseconds: cpuidle.dma_latency_us, cpu.resume_latency_us",
        )
    } else {
        Finding::keep(
            PLACE,
            format!("{} of CPU 0 is disabled until the next boot: ask whoever did that", off.join(", ")),
        )
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_idle};

    #[test]
    fn a_bound_says_better_what_is_meant() {
        let idle = || with_idle("intel_idle", &[("POLL", 0), ("C6", 133)]);
        check(
            &KNOB,
            &[
                ("no driver", Goal::Latency, &|_| {}),
                ("all on", Goal::Latency, &idle()),
                ("one off", Goal::Density, &|facts| {
                    idle()(facts);
                    if let Fact::Known(states) = &mut facts.idle.states {
                        states[1].disabled = Fact::Known(true);
                    }
                }),
                ("states unknown", Goal::Latency, &|facts| {
                    idle()(facts);
                    facts.idle.states = Fact::Denied { why: "EACCES".into() };
                }),
                ("driver unknown", Goal::Latency, &|facts| facts.idle.driver = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                no driver (latency)
                  not-here cpuidle.state_disable: there is no idle driver here: there are no states to disable
                all on (latency)
                  keep cpuidle.state_disable: no state is disabled; prefer a limit in microseconds: cpuidle.dma_latency_us, cpu.resume_latency_us
                one off (density)
                  keep cpuidle.state_disable: C6 of CPU 0 is disabled until the next boot: ask whoever did that
                states unknown (latency)
                  unknown cpuidle.state_disable: which idle states there are is not known: EACCES
                driver unknown (latency)
                  unknown cpuidle.state_disable: the idle driver is not known: EACCES
            "#]],
        );
    }
}
