//! How many threads of each core the cloud gives to the machine.

use crate::extras::Extras;
use crate::facts::{Cloud, Facts};
use crate::finding::{Finding, State};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

use crate::cores::Cores;
use crate::shapes::{cpus, one};

const PLACE: &str = "cloud.threads_per_core";

pub(super) const KNOB: Knob = Knob {
    id: "cloud.threads_per_core",
    title: "threads per core that the cloud provides",
    area: Area::Cpu,
    place: Place::ByHand {
        how: "launch a new machine with {} thread per core (EC2: --cpu-options CoreCount=CORES,ThreadsPerCore={}; Google \
                Cloud: --threads-per-core={})",
    },
    values: Values::Number { min: 1, max: 1, unit: "" },
    default: "2, if the processor has two",
    takes_effect: TakesEffect::Reboot,
    mechanism: "The cloud can leave out the second threads when it launches a machine. Each CPU is then a whole core, the \
        numbers have no gaps, and you need not switch anything off after a boot. The price stays that of the whole \
        instance type.",
    risk: "half the CPUs for the same price",
    shows_in: "thread_siblings_list of each CPU",
    kernels: "any",
    sources: &[
        Source { title: "Amazon EC2 User Guide, CPU options", says: "ThreadsPerCore=1 when an instance is launched" },
        Source { title: "Google Cloud, Set the number of threads per core", says: "--threads-per-core=1" },
    ],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    let Some(cores) = Cores::from_facts(facts) else {
        return Err(Finding::new(State::Unknown, PLACE, "evenkeel does not know which CPUs share a core"));
    };
    if cores.threads() == 1 {
        return Ok(Finding::not_here(PLACE, "each CPU is already a core").at(1));
    }
    match facts.machine.cloud.known() {
        Some(Cloud::Aws | Cloud::Gcp) => {}
        Some(_) => return Ok(Finding::not_here(PLACE, "only EC2 and Google Cloud offer this option")),
        None => return Err(Finding::unknown(PLACE, "which cloud this is", &facts.machine.cloud)),
    }
    let (threads, count) = (cores.threads(), cores.len());
    let finding = match context.server.cpus {
        Some(needs) if context.goal == Goal::Latency && needs < count as u64 => Finding::set(
            PLACE,
            1,
            format!(
                "{count} cores are enough for a server that needs {}, and no sibling slows a tick",
                cpus(needs as usize)
            ),
        ),
        _ => Finding::keep(
            PLACE,
            format!(
                "{count} cores with {threads} threads each: whether the cores alone are enough depends on the \
                    server; smt.control tests that without a new machine"
            ),
        ),
    };
    Ok(finding.at(threads))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Server;
    use crate::testing::{base, check, with_cpus};

    #[test]
    fn it_is_an_option_of_the_cloud() {
        check(
            &KNOB,
            &[
                ("no cloud", Goal::Latency, &|_| {}),
                ("EC2", Goal::Latency, &|facts| facts.machine.cloud = Fact::Known(Cloud::Aws)),
                ("Graviton", Goal::Latency, &|facts| {
                    with_cpus(4)(facts);
                    facts.machine.cloud = Fact::Known(Cloud::Aws);
                }),
                ("unknown", Goal::Density, &|facts| facts.machine.cloud = Fact::absent("no DMI")),
            ],
            expect![[r#"
                no cloud (latency)
                  not-here cloud.threads_per_core: only EC2 and Google Cloud offer this option
                EC2 (latency)
                  keep cloud.threads_per_core "2": 2 cores with 2 threads each: whether the cores alone are enough depends on the server; smt.control tests that without a new machine
                Graviton (latency)
                  not-here cloud.threads_per_core "1": each CPU is already a core
                unknown (density)
                  unknown cloud.threads_per_core: which cloud this is is not known: no DMI
            "#]],
        );
    }

    #[test]
    fn a_server_that_fits_the_cores_gets_them_whole() {
        let mut facts = base();
        facts.machine.cloud = Fact::Known(Cloud::Gcp);
        let of = |cpus| {
            advise(
                &facts,
                &AdviceContext { goal: Goal::Latency, server: Server { cpus: Some(cpus), ..Server::default() } },
            )
        };
        assert_eq!(of(1)[0].wanted.as_deref(), Some("1"));
        assert_eq!(of(2)[0].wanted, None);
    }
}
