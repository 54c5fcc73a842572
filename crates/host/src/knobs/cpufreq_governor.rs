//! The policy that selects the frequency of CPUs, if the guest controls it.

use crate::extras::{Counter, Extras, RiskAt, TunedProfile};
use crate::facts::{Facts, FrequencyPolicy};
use crate::finding::{Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::each_policy;

/// The governor that keeps to the highest frequency.
const WANTED: &str = "performance";

pub(super) const KNOB: Knob = Knob {
    id: "cpufreq.governor",
    title: "the policy that selects CPU frequencies",
    area: Area::Cpu,
    place: Place::Each { device: Device::FrequencyPolicy, file: "scaling_governor", reading: Reading::Plain },
    values: Values::Name,
    default: "set when the kernel was built: ondemand, schedutil, powersave or performance",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A governor that follows the load raises the frequency only after the load has come. A server that works for a \
        few milliseconds per tick and sleeps in between often runs at a low frequency. performance always selects the \
        highest. With intel_pstate and amd-pstate in active mode, powersave follows the load; it does not mean the \
        lowest frequency. Nearly all virtual machines have no frequency driver; the host decides.",
    risk: "more power and heat; single cores may boost less",
    shows_in: "scaling_cur_freq of the policies while the server runs",
    kernels: "all, with a frequency driver; cpufreq.default_governor= at boot since 5.9",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/pm/cpufreq.rst",
            says: "what governors, policies and boost are",
        },
        Source {
            title: "Linux Documentation/admin-guide/pm/intel_pstate.rst",
            says: "its two governors, energy_performance_preference and no_turbo",
        },
        Source { title: "TuneD, profile latency-performance", says: "governor performance, boost 1" },
        Source {
            title: "Amazon EC2 User Guide, Processor state control",
            says: "which sizes let the guest control frequencies; Graviton never",
        },
        Source {
            title: "a post on C-states and P-states of a c4.8xlarge under Ubuntu 14.04",
            says: "performance instead of ondemand",
        },
    ],
    extras: Extras {
        read_in: &[],
        // A governor selects a frequency.
        counter: Some(Counter::Frequency),
        tuned: &[TunedProfile::NetworkLatency, TunedProfile::LatencyPerformance, TunedProfile::Throughput],
        called: &["cpupower governor", "tuned cpu governor"],
        risk_at: RiskAt::Values(&["performance"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    each_policy(facts, &KNOB, |policy| decide(facts, context.goal, policy))
}

fn decide(facts: &Facts, goal: Goal, policy: &FrequencyPolicy) -> Result<Finding, Finding> {
    let place = &policy.name;
    let current = own(place, &policy.governor)?;
    let finding = if current == WANTED {
        Finding::keep(place, "it already keeps the highest frequency")
    } else if goal == Goal::Density {
        Finding::keep(place, format!("many sessions keep the load steady, and {current} then runs fast too"))
    } else {
        match facts.frequency.available_governors.known() {
            Some(on_offer) if on_offer.iter().any(|governor| governor == WANTED) => {
                let reason = format!("{current} raises the frequency only after a tick's work has begun");
                Finding::set(place, WANTED, reason)
            }
            Some(on_offer) => Finding::not_here(
                place,
                format!("{current} follows the load, but {WANTED} is not available: {}", on_offer.join(", ")),
            ),
            None => Finding::unknown(place, "which governors are available", &facts.frequency.available_governors),
        }
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
    fn ticks_want_the_highest_frequency() {
        check(
            &KNOB,
            &[
                ("no driver", Goal::Latency, &|_| {}),
                ("intel_pstate", Goal::Latency, &with_policies("intel_pstate", "powersave", None)),
                ("intel_pstate", Goal::Density, &with_policies("intel_pstate", "powersave", None)),
                ("acpi-cpufreq", Goal::Latency, &with_policies("acpi-cpufreq", "ondemand", None)),
                ("performance", Goal::Latency, &with_policies("acpi-cpufreq", "performance", None)),
                ("not on offer", Goal::Latency, &|facts| {
                    with_policies("acpi-cpufreq", "schedutil", None)(facts);
                    facts.frequency.available_governors = Fact::Known(vec!["schedutil".into()]);
                }),
                ("denied", Goal::Latency, &|facts| {
                    facts.frequency.policies = Fact::Denied { why: "EACCES".into() };
                }),
            ],
            expect![[r#"
                no driver (latency)
                  not-here cpufreq.governor: there is no frequency driver here: the hypervisor or the firmware controls the frequency
                intel_pstate (latency)
                  set policy0 "powersave" -> "performance": powersave raises the frequency only after a tick's work has begun
                  set policy1 "powersave" -> "performance": powersave raises the frequency only after a tick's work has begun
                intel_pstate (density)
                  keep policy0 "powersave": many sessions keep the load steady, and powersave then runs fast too
                  keep policy1 "powersave": many sessions keep the load steady, and powersave then runs fast too
                acpi-cpufreq (latency)
                  set policy0 "ondemand" -> "performance": ondemand raises the frequency only after a tick's work has begun
                  set policy1 "ondemand" -> "performance": ondemand raises the frequency only after a tick's work has begun
                performance (latency)
                  keep policy0 "performance": it already keeps the highest frequency
                  keep policy1 "performance": it already keeps the highest frequency
                not on offer (latency)
                  not-here policy0 "schedutil": schedutil follows the load, but performance is not available: schedutil
                  not-here policy1 "schedutil": schedutil follows the load, but performance is not available: schedutil
                denied (latency)
                  unknown cpufreq.governor: which CPUs share a frequency is not known: EACCES
            "#]],
        );
    }
}
