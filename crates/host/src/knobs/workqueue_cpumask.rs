//! Which CPUs run unbound kernel work.

use evenkeel_sys::CpuSet;

use crate::extras::Extras;
use crate::facts::Facts;
use crate::finding::{Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;

use crate::cores::{Cores, network_cpus};
use crate::shapes::one;

const PATH: &str = "/sys/devices/virtual/workqueue/cpumask";

pub(super) const KNOB: Knob = Knob {
    id: "workqueue.cpumask",
    title: "CPUs for unbound work of the kernel",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::CpuMask },
    values: Values::Cpus { may_be_empty: false },
    default: "all CPUs but isolated ones",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "kworker threads write back files, clean up and do other work. They may run on any CPU of this set, even in the \
        middle of a tick. Remove the server's CPUs from it, and they are spared that work. Work that is bound to a CPU \
        stays.",
    risk: "the remaining CPUs do all of that work",
    shows_in: "CPU time of kworker/u* on the server's CPUs",
    kernels: "since 4.2; workqueue.unbound_cpus= at boot since 6.12",
    sources: &[
        Source { title: "Linux Documentation/core-api/workqueue.rst, affinity", says: "the set of unbound workers" },
        Source { title: "TuneD, profile cpu-partitioning", says: "excludes the isolated cores" },
    ],
    extras: Extras {
        read_in: &[],
        // No counter shows this: without tracing, the kernel does not count work items by CPU.
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    let current = own(PATH, &facts.cpus.unbound_work)?;
    let finding = match (servers_cpus(facts, context), facts.cpus.online.known()) {
        (Some(server), Some(online)) if !current.and(&server).is_empty() && !online.without(&server).is_empty() => {
            let reason = format!("kernel work may run in the middle of a tick on the server's CPUs {server}");
            Finding::set(PATH, online.without(&server), reason)
        }
        (Some(server), _) => Finding::keep(PATH, format!("the kernel already runs no unbound work on CPUs {server}")),
        (None, _) => Finding::keep(PATH, "no CPU is reserved for the server: give `--server cpus=N` if one could be"),
    };
    Ok(finding.at(current))
}

/// The isolated CPUs. Without isolated CPUs, the CPUs that could be reserved for the server that the user describes.
fn servers_cpus(facts: &Facts, context: &AdviceContext) -> Option<CpuSet> {
    if let Some(isolated) = facts.cpus.isolated.known().filter(|isolated| !isolated.is_empty()) {
        return Some(isolated.clone());
    }
    let needs = usize::try_from(context.server.cpus.filter(|_| context.goal == Goal::Latency)?).ok()?;
    Cores::from_facts(facts)?.apart(needs, &network_cpus(facts))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Server;
    use crate::testing::{base, check, set};

    #[test]
    fn the_servers_cpus_are_spared() {
        check(
            &KNOB,
            &[
                ("none apart", Goal::Latency, &|_| {}),
                ("isolated", Goal::Latency, &|facts| facts.cpus.isolated = Fact::Known(set("2-3"))),
                ("isolated, spared", Goal::Latency, &|facts| {
                    facts.cpus.isolated = Fact::Known(set("2-3"));
                    facts.cpus.unbound_work = Fact::Known(set("0-1"));
                }),
                ("before 4.2", Goal::Latency, &|facts| facts.cpus.unbound_work = Fact::absent("no such file")),
            ],
            expect![[r#"
                none apart (latency)
                  keep /sys/devices/virtual/workqueue/cpumask "0-3": no CPU is reserved for the server: give `--server cpus=N` if one could be
                isolated (latency)
                  set /sys/devices/virtual/workqueue/cpumask "0-3" -> "0-1": kernel work may run in the middle of a tick on the server's CPUs 2-3
                isolated, spared (latency)
                  keep /sys/devices/virtual/workqueue/cpumask "0-1": the kernel already runs no unbound work on CPUs 2-3
                before 4.2 (latency)
                  not-here /sys/devices/virtual/workqueue/cpumask: not present here: no such file
            "#]],
        );
    }

    #[test]
    fn the_servers_cpus_count() {
        let server = Server { cpus: Some(2), ..Server::default() };
        let finding = advise(&base(), &AdviceContext { goal: Goal::Latency, server }).remove(0);
        assert_eq!(finding.wanted.as_deref(), Some("0,2"), "{}", finding.reason);
    }
}
