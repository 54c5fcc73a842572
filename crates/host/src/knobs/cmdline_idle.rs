//! Whether idle CPUs spin instead of sleeping. Guides recommend this for the shortest wake-up.

use crate::extras::{Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Against, Finding};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

use crate::cores::Cores;
use crate::shapes::{burstable, one};

const ARGUMENT: &str = "idle";

/// The value with which CPUs spin.
const SPINS: &[&str] = &["poll"];

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.idle",
    title: "how CPUs wait for work",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Words(&["poll", "halt", "nomwait"]),
    default: "chosen by the kernel",
    takes_effect: TakesEffect::Reboot,
    mechanism: "idle=poll makes every CPU spin while it has no work. It then wakes immediately. But it takes time from its \
        sibling, prevents turbo frequencies on other cores, and shows a load of 100 % to outside monitoring. \
        cpuidle.dma_latency_us keeps CPUs out of deep states only while a server runs.",
    risk: "power and heat of full load at all times; idle time spends CPU credits",
    shows_in: "the load that the cloud reports; scaling_cur_freq",
    kernels: "all on x86",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/kernel-parameters.txt",
            says: "idle=poll: no advantage over MWAIT, bad with two threads per core",
        },
        Source {
            title: "a post on C-states and P-states of a c4.8xlarge under Ubuntu 14.04",
            says: "the cloud then shows 100 % of load",
        },
    ],
    extras: Extras { risk_at: RiskAt::Values(&["poll"]), ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let mut harm = vec!["every idle CPU would spin, prevent turbo on other cores and look fully loaded".to_owned()];
    if Cores::from_facts(facts).is_some_and(|cores| cores.threads() > 1) {
        harm.push("each CPU would take time from its sibling".to_owned());
    }
    if let Some(instance) = burstable(facts) {
        harm.push(format!("{instance} would spend its CPU credits"));
    }
    let reason = format!("{}; cpuidle.dma_latency_us does the same only while the server runs", harm.join("; "));
    let finding = match facts.kernel.argument(ARGUMENT) {
        Some("poll") => Finding::not_here(ARGUMENT, format!("remove idle=poll: {reason}")).at("poll"),
        Some(other) => Finding::keep(ARGUMENT, format!("as configured; do not use poll: {reason}")).at(other),
        None => Finding::not_here(ARGUMENT, format!("idle=poll: {reason}")),
    };
    Ok(finding.against(Against::Values(&SPINS)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Cloud;
    use crate::goal::Goal;
    use crate::testing::{check, with_cpus};

    #[test]
    fn it_is_refused_with_reasons() {
        check(
            &KNOB,
            &[
                ("siblings", Goal::Latency, &|_| {}),
                ("one thread a core", Goal::Latency, &with_cpus(4)),
                ("T family", Goal::Latency, &|facts| {
                    facts.machine.cloud = Fact::Known(Cloud::Aws);
                    facts.machine.instance_type = Fact::Known("t3.large".into());
                }),
                ("asked for", Goal::Latency, &|facts| {
                    facts.kernel.command_line = Fact::Known(vec!["idle=poll".into()])
                }),
                ("another", Goal::Density, &|facts| {
                    facts.kernel.command_line = Fact::Known(vec!["idle=nomwait".into()])
                }),
            ],
            expect![[r#"
                siblings (latency)
                  not-here idle: idle=poll: every idle CPU would spin, prevent turbo on other cores and look fully loaded; each CPU would take time from its sibling; cpuidle.dma_latency_us does the same only while the server runs
                one thread a core (latency)
                  not-here idle: idle=poll: every idle CPU would spin, prevent turbo on other cores and look fully loaded; cpuidle.dma_latency_us does the same only while the server runs
                T family (latency)
                  not-here idle: idle=poll: every idle CPU would spin, prevent turbo on other cores and look fully loaded; each CPU would take time from its sibling; t3.large would spend its CPU credits; cpuidle.dma_latency_us does the same only while the server runs
                asked for (latency)
                  not-here idle "poll": remove idle=poll: every idle CPU would spin, prevent turbo on other cores and look fully loaded; each CPU would take time from its sibling; cpuidle.dma_latency_us does the same only while the server runs
                another (density)
                  keep idle "nomwait": as configured; do not use poll: every idle CPU would spin, prevent turbo on other cores and look fully loaded; each CPU would take time from its sibling; cpuidle.dma_latency_us does the same only while the server runs
            "#]],
        );
    }
}
