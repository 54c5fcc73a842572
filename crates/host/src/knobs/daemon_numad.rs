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
    default: "off: distributions do not install it by themselves",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "numad watches processes and binds each to the nodes that it thinks best, through their control group, moving \
                their memory there. It moves while the server runs, and works against whoever binds it too: systemd, a \
                container's CPU set, Kubernetes. To bind the server once, when it starts, has the gain without the moves.",
    risk: "none, for a server that is bound",
    shows_in: "the process numad, /var/log/numad.log",
    kernels: "all that are built with CONFIG_NUMA",
    sources: &[
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "the last of three ways, with balancing switched off; test which is best",
        },
        Source { title: "numad(8)", says: "how it chooses, and that -i 0 ends it" },
    ],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let nodes = several_nodes(facts, PLACE)?;
    Ok(Finding::keep(
        PLACE,
        format!("leave it out: bind the server to one of {} nodes when it starts (process.numa_policy)", nodes.len()),
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
              not-here daemon.numad: there is one memory node: all memory is equally near
            two nodes (latency)
              keep daemon.numad: leave it out: bind the server to one of 2 nodes when it starts (process.numa_policy)
        "#]],
        );
    }
}
