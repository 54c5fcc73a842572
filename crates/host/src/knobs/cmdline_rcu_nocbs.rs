//! CPUs whose RCU callbacks other CPUs run.

use crate::extras::{CounterPlace, Extras};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

const ARGUMENT: &str = "rcu_nocbs";

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.rcu_nocbs",
    title: "CPUs that offload RCU callbacks to other CPUs",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Cpus { may_be_empty: false },
    default: "none, or those of nohz_full=",
    takes_effect: TakesEffect::Reboot,
    mechanism: "The kernel frees data once nobody reads it any more. Callbacks do this in batches, in a soft interrupt on the \
        CPU that queued them. On these CPUs threads (rcuog, rcuop) run the callbacks instead, and those threads may \
        run on another CPU. So a CPU reserved for a server is interrupted less. In return, each callback needs a \
        wake-up. nohz_full= includes this.",
    risk: "the threads that run the callbacks need CPU time, and they cost more than the callbacks that they replace",
    shows_in: "RCU in /proc/softirqs by CPU, threads named rcuop/N",
    kernels: "with CONFIG_RCU_NOCB_CPU, which not every distribution enables",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/kernel-parameters.txt, rcu_nocbs=",
            says: "offloads the callbacks of these CPUs to threads",
        },
        Source { title: "TuneD, profile cpu-partitioning", says: "rcu_nocbs for the isolated cores" },
    ],
    extras: Extras { read_in: &[CounterPlace::Table { file: "/proc/softirqs", names: &["RCU"] }], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    vec![match (facts.kernel.command_line.known(), facts.kernel.argument(ARGUMENT)) {
        (None, _) => Finding::unknown(ARGUMENT, "the kernel's command line", &facts.kernel.command_line),
        (_, Some(asked)) => {
            Finding::keep(ARGUMENT, "other CPUs run the callbacks of these CPUs and need capacity for that").at(asked)
        }
        (_, None) if facts.kernel.argument("nohz_full").is_some() => {
            Finding::keep(ARGUMENT, "nohz_full= includes it for its CPUs")
        }
        _ => Finding::keep(
            ARGUMENT,
            "callbacks rarely take time; only CPUs that are reserved for a server (isolcpus) could gain",
        ),
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn only_isolated_cpus_could_gain() {
        let booted = |argument: &'static str| {
            move |facts: &mut Facts| facts.kernel.command_line = Fact::Known(vec![argument.into()])
        };
        check(
            &KNOB,
            &[
                ("none", Goal::Latency, &|_| {}),
                ("asked for", Goal::Latency, &booted("rcu_nocbs=2-3")),
                ("with nohz_full", Goal::Latency, &booted("nohz_full=2-3")),
                ("unknown", Goal::Latency, &|facts| facts.kernel.command_line = Fact::Denied { why: "no".into() }),
            ],
            expect![[r#"
                none (latency)
                  keep rcu_nocbs: callbacks rarely take time; only CPUs that are reserved for a server (isolcpus) could gain
                asked for (latency)
                  keep rcu_nocbs "2-3": other CPUs run the callbacks of these CPUs and need capacity for that
                with nohz_full (latency)
                  keep rcu_nocbs: nohz_full= includes it for its CPUs
                unknown (latency)
                  unknown rcu_nocbs: the kernel's command line is not known: no
            "#]],
        );
    }
}
