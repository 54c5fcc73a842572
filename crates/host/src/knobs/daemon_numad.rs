//! Whether a daemon moves the server between memory nodes.

use crate::extras::Extras;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::{one, several_nodes};

const PLACE: &str = "daemon.numad";

pub(super) const KNOB: Knob = Knob {
    id: "daemon.numad",
    title: "a daemon that moves servers between nodes",
    area: Area::Memory,
    place: Place::ByHand { how: "keep numad {}: systemctl disable --now numad where it is installed" },
    values: Values::Words(&["off"]),
    default: "off: distributions do not install it by default",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "numad watches processes and binds each to the nodes that it considers best. It does that through the control \
        group, and moves the memory there. It moves memory while the server runs. It also overrides other bindings: \
        those of systemd, of a container's CPU set, and of Kubernetes. Bind the server once at its start: you gain the \
        same without the moves.",
    risk: "none if the server is bound to a node",
    shows_in: "the process numad, /var/log/numad.log",
    kernels: "all that are built with CONFIG_NUMA",
    sources: &[
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "the last of three ways, with balancing disabled; test which is best",
        },
        Source { title: "numad(8)", says: "how it selects nodes, and that -i 0 stops it" },
    ],
    extras: Extras { called: &["systemctl numad"], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let nodes = several_nodes(facts, PLACE)?;
    Ok(Finding::keep(
        PLACE,
        format!("do not use it: bind the server to one of {} nodes when it starts (process.numa_policy)", nodes.len()),
    ))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, two_nodes};

    #[test]
    fn binding_once_does_without_it() {
        check(
            &KNOB,
            &[("one node", Goal::Latency, &|_| {}), ("two nodes", Goal::Latency, &two_nodes)],
            expect![[r#"
                one node (latency)
                  not-here daemon.numad: there is one memory node: all memory is equally close
                two nodes (latency)
                  keep daemon.numad: do not use it: bind the server to one of 2 nodes when it starts (process.numa_policy)
            "#]],
        );
    }
}
