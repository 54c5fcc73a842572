//! The energy or performance preference of CPUs that select their own frequency.

use crate::extras::{Counter, Extras, RiskAt};
use crate::facts::{Facts, FrequencyPolicy};
use crate::finding::{Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::each_policy;

const WANTED: &str = "performance";

pub(super) const KNOB: Knob = Knob {
    id: "cpufreq.epp",
    title: "energy or performance preference of the processor",
    area: Area::Cpu,
    place: Place::Each {
        device: Device::FrequencyPolicy,
        file: "energy_performance_preference",
        reading: Reading::Plain,
    },
    values: Values::Name,
    default: "set by the firmware, usually balance_performance",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Processors with hardware-managed frequencies select their own frequency. This hint sets how quickly they raise \
        it. Under the governor performance, the driver sets the hint to performance and refuses other values.",
    risk: "more power and heat",
    shows_in: "scaling_cur_freq of the policies while the server runs",
    kernels: "since 4.14 with intel_pstate, since 6.3 with amd-pstate in active mode",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/pm/intel_pstate.rst",
            says: "its two governors, energy_performance_preference and no_turbo",
        },
        Source {
            title: "Linux Documentation/admin-guide/pm/amd-pstate.rst",
            says: "energy_performance_preference in active mode",
        },
        Source { title: "TuneD, profile latency-performance", says: "governor performance, boost 1" },
    ],
    extras: Extras {
        read_in: &[],
        // The preference changes the frequency.
        counter: Some(Counter::Frequency),
        called: &["tuned cpu energy_performance_preference"],
        risk_at: RiskAt::Values(&["performance", "balance_performance"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    each_policy(facts, &KNOB, |policy| decide(facts, context.goal, policy))
}

fn decide(facts: &Facts, goal: Goal, policy: &FrequencyPolicy) -> Result<Finding, Finding> {
    let place = &policy.name;
    let current = own(place, &policy.preference)?;
    let is_on_offer =
        facts.frequency.available_preferences.known().map(|words| words.iter().any(|word| word == WANTED));
    let finding = if current == WANTED || current == "0" {
        Finding::keep(place, "the processor prefers performance already")
    } else if policy.governor.known().is_some_and(|governor| governor == "performance") {
        Finding::keep(place, "the governor performance overrides it")
    } else if goal == Goal::Density {
        Finding::keep(place, format!("many sessions keep the load steady, and {current} then runs fast too"))
    } else if is_on_offer == Some(false) {
        Finding::not_here(place, format!("{WANTED} is not an available preference"))
    } else if is_on_offer.is_none() {
        Finding::unknown(place, "which preferences are available", &facts.frequency.available_preferences)
    } else {
        Finding::set(place, WANTED, format!("at {current} the processor raises its frequency late in a tick"))
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, with_policies};

    #[test]
    fn ticks_prefer_performance() {
        check(
            &KNOB,
            &[
                ("no driver", Goal::Latency, &|_| {}),
                ("no preferences", Goal::Latency, &with_policies("acpi-cpufreq", "ondemand", None)),
                ("balanced", Goal::Latency, &with_policies("intel_pstate", "powersave", Some("balance_performance"))),
                ("balanced", Goal::Throughput, &with_policies("intel_pstate", "powersave", Some("balance_power"))),
                ("overruled", Goal::Latency, &with_policies("intel_pstate", "performance", Some("balance_power"))),
                ("performance", Goal::Latency, &with_policies("intel_pstate", "powersave", Some("performance"))),
                ("offer unknown", Goal::Latency, &|facts| {
                    with_policies("intel_pstate", "powersave", Some("power"))(facts);
                    facts.frequency.available_preferences = Fact::Denied { why: "EACCES".into() };
                }),
            ],
            expect![[r#"
                no driver (latency)
                  not-here cpufreq.epp: there is no frequency driver here: the hypervisor or the firmware controls the frequency
                no preferences (latency)
                  not-here policy0: not present here: no preferences
                  not-here policy1: not present here: no preferences
                balanced (latency)
                  set policy0 "balance_performance" -> "performance": at balance_performance the processor raises its frequency late in a tick
                  set policy1 "balance_performance" -> "performance": at balance_performance the processor raises its frequency late in a tick
                balanced (throughput)
                  set policy0 "balance_power" -> "performance": at balance_power the processor raises its frequency late in a tick
                  set policy1 "balance_power" -> "performance": at balance_power the processor raises its frequency late in a tick
                overruled (latency)
                  keep policy0 "balance_power": the governor performance overrides it
                  keep policy1 "balance_power": the governor performance overrides it
                performance (latency)
                  keep policy0 "performance": the processor prefers performance already
                  keep policy1 "performance": the processor prefers performance already
                offer unknown (latency)
                  unknown policy0 "power": which preferences are available is not known: EACCES
                  unknown policy1 "power": which preferences are available is not known: EACCES
            "#]],
        );
    }
}
