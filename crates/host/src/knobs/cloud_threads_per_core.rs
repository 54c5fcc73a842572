//! How many threads of a core the cloud gives the machine.

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
    title: "threads of a core that the cloud gives",
    area: Area::Cpu,
    place: Place::ByHand {
        how: "launch the machine anew with {} thread a core (EC2: --cpu-options CoreCount=CORES,ThreadsPerCore={}; Google Cloud: --threads-per-core={})",
    },
    values: Values::Number { min: 1, max: 1, unit: "" },
    default: "2, where the processor has two",
    takes_effect: TakesEffect::Reboot,
    mechanism: "The cloud can leave second threads out when a machine is launched. Each CPU is then a core, numbered \
                without gaps, and nothing inside the machine has to be switched off after each boot. The price is \
                that of the whole instance type.",
    risk: "half of the CPUs, for the same price",
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
    let Some(cores) = Cores::of(facts) else {
        return Err(Finding::new(State::Unknown, PLACE, "which CPUs share a core is not known"));
    };
    if cores.threads() == 1 {
        return Ok(Finding::not_here(PLACE, "each CPU is a core already").at(1));
    }
    match facts.machine.cloud.known() {
        Some(Cloud::Aws | Cloud::Gcp) => {}
        Some(_) => return Ok(Finding::not_here(PLACE, "it is an option of EC2 and of Google Cloud")),
        None => return Err(Finding::unknown(PLACE, "which cloud this is", &facts.machine.cloud)),
    }
    let (threads, count) = (cores.threads(), cores.len());
    let finding = match context.server.cpus {
        Some(needs) if context.goal == Goal::Latency && needs < count as u64 => Finding::set(
            PLACE,
            1,
            format!(
                "{count} cores suffice for a server that needs {}, and no tick waits for a sibling",
                cpus(needs as usize)
            ),
        ),
        _ => Finding::keep(
            PLACE,
            format!(
                "{count} cores with {threads} threads each: whether cores alone suffice depends on the server, and smt.control tries it without a new machine"
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
                  not-here cloud.threads_per_core: it is an option of EC2 and of Google Cloud
                EC2 (latency)
                  keep cloud.threads_per_core "2": 2 cores with 2 threads each: whether cores alone suffice depends on the server, and smt.control tries it without a new machine
                Graviton (latency)
                  not-here cloud.threads_per_core "1": each CPU is a core already
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
