//! The memory node on which the server runs and allocates its memory.

use crate::extras::{Extras, Lasts, Owner, Process, ProcessValue, ServerUnit};
use crate::facts::{Facts, Node};
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::{one, several_nodes};

const PLACE: &str = "process.numa_policy";

pub(super) const KNOB: Knob = Knob {
    id: "process.numa_policy",
    title: "the memory node that the server is bound to",
    area: Area::Process,
    place: Place::ByHand {
        how: "start the server with numactl --cpunodebind={} --membind={}, or with NUMAPolicy=bind, NUMAMask={} and the \
                node's CPUs as CPUAffinity= in its unit",
    },
    values: Values::Number { min: 0, max: 1023, unit: "" },
    default: "none: memory comes from the node of the CPU that first touches it, and the scheduler places threads on any \
        node",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "Memory of another node takes longer to reach. A server that is bound to the CPUs and the memory of one node \
        never uses the other. Bind each of several servers to spread them over the nodes. The network interrupts \
        belong on the same node.",
    risk: "a server that needs more memory or CPUs than its node has is killed or waits while the other node is idle",
    shows_in: "numastat -p PID, numa_miss in /sys/devices/system/node/node*/numastat",
    kernels: "all that are built with CONFIG_NUMA",
    sources: &[
        Source { title: "numactl(8)", says: "--cpunodebind and --membind, with two dashes" },
        Source { title: "systemd.exec(5), NUMAPolicy= and NUMAMask=", says: "the same for a service" },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "the first of three ways on machines with two nodes; its example has one dash too few",
        },
    ],
    extras: Extras {
        process: Some(Process {
            of: Owner::Server,
            while_it_runs: false,
            // The first mapping belongs to the program itself, so it follows the policy of the process.
            has: Some(|file, node| {
                let maps = file("numa_maps")?;
                let policy = maps.lines().next()?.split_whitespace().nth(1)?;
                Some(ProcessValue::new(policy == format!("bind:{node}"), policy))
            }),
            reset_by: None,
        }),
        lasts: Some(Lasts::ServerUnit(ServerUnit {
            lines: |node| Some(format!("NUMAPolicy=bind\nNUMAMask=\nNUMAMask={node}\n")),
            // Memory of one node helps only threads that run on that node.
            along: Some(("CPUAffinity", "numa")),
            ..ServerUnit::NONE
        })),
        called: &["numactl --cpunodebind", "systemd NUMAMask"],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    let nodes = several_nodes(facts, PLACE)?;
    let Some(needed) = context.server.cpus else {
        return Ok(Finding::keep(
            PLACE,
            format!(
                "there are {} nodes: bind the server to one if it fits; give --server cpus=N with the CPUs that \
                    it needs",
                nodes.len()
            ),
        ));
    };
    let of_nic = facts.network.hardware().find_map(|nic| nic.numa_node.known().copied());
    let fits = |node: &&Node| node.cpus.known().is_some_and(|cpus| cpus.len() as u64 >= needed);
    let near = nodes.iter().filter(fits).find(|node| of_nic.is_some_and(|nic| i64::from(nic) == i64::from(node.node)));
    Ok(match (near, nodes.iter().find(fits)) {
        (Some(node), _) => Finding::set(
            PLACE,
            node.node,
            format!("the server's {needed} CPUs fit on node {}, the node of the network interface", node.node),
        ),
        (None, Some(node)) => {
            Finding::set(PLACE, node.node, format!("the server's {needed} CPUs fit on node {}", node.node))
        }
        (None, None) => Finding::keep(PLACE, format!("no known node has {needed} CPUs: the server needs several")),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::{Goal, Server};
    use crate::testing::{base, check, two_nodes};

    #[test]
    fn it_is_for_machines_with_several_nodes() {
        check(
            &KNOB,
            &[("one node", Goal::Latency, &|_| {}), ("two nodes, needs unknown", Goal::Latency, &two_nodes)],
            expect![[r#"
                one node (latency)
                  not-here process.numa_policy: there is one memory node: all memory is equally close
                two nodes, needs unknown (latency)
                  keep process.numa_policy: there are 2 nodes: bind the server to one if it fits; give --server cpus=N with the CPUs that it needs
            "#]],
        );
    }

    #[test]
    fn a_server_that_fits_goes_to_the_node_of_its_network() {
        let mut facts = base();
        two_nodes(&mut facts);
        let as_text = |cpus| {
            let server = Server { cpus: Some(cpus), ..Server::default() };
            let finding = advise(&facts, &AdviceContext { goal: Goal::Latency, server }).remove(0);
            (finding.wanted, finding.reason)
        };
        assert_eq!(
            as_text(18),
            (Some("1".into()), "the server's 18 CPUs fit on node 1, the node of the network interface".into())
        );
        assert_eq!(as_text(19), (None, "no known node has 19 CPUs: the server needs several".into()));
    }
}
