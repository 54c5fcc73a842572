//! Whether the kernel moves memory to the node that uses it.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::{Finding, State, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::{cpus, cpus_of_a_node, one, several_nodes};

const PATH: &str = "/proc/sys/kernel/numa_balancing";

pub(super) const KNOB: Knob = Knob {
    id: "kernel.numa_balancing",
    title: "moving memory to the node that uses it",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 3, unit: "" },
    default: "1 with several nodes, 0 with one",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "From time to time the kernel makes some of a process's memory inaccessible. The page faults show which node \
        uses it, and the kernel then moves the memory or the thread. The faults and the moves happen during ticks. A \
        server that is bound to one node already has all its memory there, so it only pays the cost. Bit 1 moves \
        memory between nodes, bit 2 between fast and slow memory.",
    risk: "off: a server that is not bound keeps memory on the far node",
    shows_in: "numa_hint_faults and numa_pages_migrated in /proc/vmstat, numastat -p PID",
    kernels: "all that are built with CONFIG_NUMA_BALANCING; 0 and 1 up to Linux 5.15, bits in 6.1 and later",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/kernel.rst, numa_balancing",
            says: "what it costs; off if the workload is already bound to nodes",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "binding, balancing and numad are three ways: test which is best",
        },
        Source { title: "TuneD, profile network-latency", says: "0" },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/vmstat", names: &["numa_hint_faults", "numa_pages_migrated"] }],
        counter: Some(Counter::NumaHinting),
        // The kernel moves or frees memory before the requesting thread continues.
        effect: Some(Effect::Large),
        worth_a_trial: &["0"],
        tuned: &[TunedProfile::NetworkLatency],
        risk_at: RiskAt::Values(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let nodes = several_nodes(facts, PATH).map_err(|finding| finding.at(current))?;
    let count = nodes.len();
    let finding = match (current, cpus_of_a_node(nodes)) {
        (0, _) => Finding::keep(
            PATH,
            format!(
                "off: of {count} nodes, memory stays on the one that first touched it, so bind the server \
                    (process.numa_policy)"
            ),
        ),
        (2, _) => Finding::keep(PATH, "it moves between fast and slow memory only"),
        (1 | 3, Some(node)) => {
            let bound = format!("bound to one of {count} nodes with process.numa_policy");
            match context.server.cpus {
                Some(needed) if needed <= node => {
                    let reason = format!(
                        "the server's {} fit on a node, which has {node}: if it is {bound}, it only pays for the \
                            faults",
                        cpus(usize::try_from(needed).unwrap_or(usize::MAX))
                    );
                    Finding::set(PATH, current - 1, reason)
                }
                Some(needed) => Finding::keep(
                    PATH,
                    format!("the server needs {needed} CPUs and a node has {node}: its memory is on several"),
                ),
                None => Finding::keep(
                    PATH,
                    format!(
                        "a server that is not bound needs it; once it is {bound}, run `evenkeel prove \
                            kernel.numa_balancing=0` to measure its cost"
                    ),
                ),
            }
        }
        (1 | 3, None) => Finding::keep(PATH, "no node reports its CPUs, so evenkeel cannot bind a server to one"),
        _ => Finding::new(State::Unknown, PATH, "evenkeel does not know this value"),
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::{Goal, Server};
    use crate::testing::{base, check, two_nodes, with_sysctl};

    fn on_two_nodes(value: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            two_nodes(facts);
            with_sysctl(PATH, value)(facts);
        }
    }

    #[test]
    fn it_is_for_servers_that_are_not_bound() {
        check(
            &KNOB,
            &[
                ("one node", Goal::Latency, &|_| {}),
                ("one node, on", Goal::Latency, &with_sysctl(PATH, "1")),
                ("two nodes, off", Goal::Latency, &on_two_nodes("0")),
                ("two nodes, on", Goal::Latency, &on_two_nodes("1")),
                ("two nodes, tiers", Goal::Latency, &on_two_nodes("2")),
                ("two nodes, odd", Goal::Latency, &on_two_nodes("8")),
                ("nodes unknown", Goal::Latency, &|facts| facts.numa.nodes = Fact::odd("/x", "?", "no list")),
                ("not built in", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                one node (latency)
                  not-here /proc/sys/kernel/numa_balancing "0": there is one memory node: all memory is equally close
                one node, on (latency)
                  not-here /proc/sys/kernel/numa_balancing "1": there is one memory node: all memory is equally close
                two nodes, off (latency)
                  keep /proc/sys/kernel/numa_balancing "0": off: of 2 nodes, memory stays on the one that first touched it, so bind the server (process.numa_policy)
                two nodes, on (latency)
                  keep /proc/sys/kernel/numa_balancing "1": a server that is not bound needs it; once it is bound to one of 2 nodes with process.numa_policy, run `evenkeel prove kernel.numa_balancing=0` to measure its cost
                two nodes, tiers (latency)
                  keep /proc/sys/kernel/numa_balancing "2": it moves between fast and slow memory only
                two nodes, odd (latency)
                  unknown /proc/sys/kernel/numa_balancing "8": evenkeel does not know this value
                nodes unknown (latency)
                  unknown /proc/sys/kernel/numa_balancing "0": how many memory nodes there are is not known: no list
                not built in (latency)
                  not-here /proc/sys/kernel/numa_balancing: not present here: the facts do not include /proc/sys/kernel/numa_balancing
            "#]],
        );
    }

    #[test]
    fn it_is_off_for_a_server_that_fits_a_node() {
        let mut facts = base();
        on_two_nodes("3")(&mut facts);
        let as_text = |cpus| {
            let context =
                AdviceContext { goal: Goal::Latency, server: Server { cpus: Some(cpus), ..Server::default() } };
            advise(&facts, &context).remove(0)
        };
        assert_eq!(
            (as_text(18).state, as_text(18).wanted.as_deref()),
            (State::Set, Some("2")),
            "the bit for tiers stays"
        );
        assert_eq!(as_text(19).state, State::Keep);
    }
}
