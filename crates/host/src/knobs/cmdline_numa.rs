//! Whether a kernel argument merges several memory nodes into one.

use crate::extras::{CounterPlace, Extras};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

const PLACE: &str = "cmdline.numa";

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.numa",
    title: "whether the kernel distinguishes memory nodes",
    area: Area::Memory,
    place: Place::ByHand {
        how: "remove numa=off from the kernel command line in the boot loader's configuration, so that NUMA is {} after a \
                reboot",
    },
    values: Values::Words(&["on"]),
    default: "on",
    takes_effect: TakesEffect::Reboot,
    mechanism: "With numa=off on its command line, the kernel treats all memory as one node. The nodes are as far apart as \
        before, but nothing can be bound to one node, and memory comes from any of them. On a machine with one node \
        the argument has no effect. So the only value here is on.",
    risk: "only the reboot",
    shows_in: "/sys/devices/system/node/online, numactl --hardware",
    kernels: "all that are built with CONFIG_NUMA",
    sources: &[
        Source {
            title: "Linux Documentation/arch/x86/x86_64/boot-options.rst, numa=off",
            says: "sets up one node only",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "bind, balance or run numad with two nodes; each way needs the kernel to know the nodes",
        },
        Source {
            title: "AWS, Deep Dive on Amazon EC2 Instances (2016)",
            says: "numa=off for programs larger than a node, against the others",
        },
    ],
    extras: Extras { read_in: &[CounterPlace::File("/sys/devices/system/node/online")], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    let Fact::Known(arguments) = &facts.kernel.command_line else {
        return vec![Finding::unknown(PLACE, "the kernel's command line", &facts.kernel.command_line)];
    };
    let is_off = arguments.iter().any(|argument| argument == "numa=off");
    vec![if is_off {
        let reason = "numa=off hides the distance of memory: nothing can be bound to its node, and on one node it has no \
            effect";
        Finding::set(PLACE, "on", reason).at("off")
    } else {
        Finding::keep(PLACE, "the kernel knows which memory is local to which CPU").at("on")
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, two_nodes};

    fn off(facts: &mut Facts) {
        facts.kernel.command_line = Fact::Known(vec!["ro".into(), "numa=off".into()]);
    }

    #[test]
    fn nodes_are_never_hidden() {
        check(
            &KNOB,
            &[
                ("one node", Goal::Latency, &|_| {}),
                ("two nodes", Goal::Throughput, &two_nodes),
                ("off", Goal::Latency, &off),
                ("unknown", Goal::Latency, &|facts| facts.kernel.command_line = Fact::absent("no /proc/cmdline")),
            ],
            expect![[r#"
                one node (latency)
                  keep cmdline.numa "on": the kernel knows which memory is local to which CPU
                two nodes (throughput)
                  keep cmdline.numa "on": the kernel knows which memory is local to which CPU
                off (latency)
                  set cmdline.numa "off" -> "on": numa=off hides the distance of memory: nothing can be bound to its node, and on one node it has no effect
                unknown (latency)
                  unknown cmdline.numa: the kernel's command line is not known: no /proc/cmdline
            "#]],
        );
        assert!(KNOB.check("off").is_err(), "harm on two nodes, nothing on one");
    }
}
