//! Whether the kernel reclaims memory of the local node before it uses a remote node.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::{one, several_nodes};

const PATH: &str = "/proc/sys/vm/zone_reclaim_mode";

pub(super) const KNOB: Knob = Knob {
    id: "vm.zone_reclaim_mode",
    title: "local reclaim before remote memory",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 7, unit: "" },
    default: "0",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "When a node has no free memory, an allocation normally takes memory of the next node. With bit 1, the kernel \
        first drops file pages on its own node. With 2 it also writes dirty ones out, and with 4 it also swaps. The \
        allocation waits for that, although memory is free on the other node.",
    risk: "above 0, allocations wait and files are evicted from memory while other nodes have room",
    shows_in: "zone_reclaim_success and zone_reclaim_failed in /proc/vmstat",
    kernels: "all that are built with CONFIG_NUMA",
    sources: &[Source {
        title: "Linux Documentation/admin-guide/sysctl/vm.rst, zone_reclaim_mode",
        says: "off by default; only for workloads that are split so that each fits on its node, if remote memory is \
            slow",
    }],
    extras: Extras {
        read_in: &[CounterPlace::Table {
            file: "/proc/vmstat",
            names: &["zone_reclaim_failed", "zone_reclaim_success"],
        }],
        // The knob's own counters show only reclaim within a node.
        // If the kernel scanned nothing, it reclaimed nothing within a node either.
        counter: Some(Counter::Reclaim),
        // The kernel moves or frees memory before the requesting thread continues.
        effect: Some(Effect::Large),
        risk_at: RiskAt::Except(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let nodes = several_nodes(facts, PATH).map_err(|finding| finding.at(current))?;
    let finding = match current {
        0 => Finding::keep(PATH, format!("an allocation uses any of {} nodes instead of waiting", nodes.len())),
        _ => {
            let reason = format!(
                "an allocation first reclaims memory on its own node, although another of {} may have room: only \
                    a server that fits on its node gains from that",
                nodes.len()
            );
            Finding::set(PATH, 0, reason)
        }
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, two_nodes, with_sysctl};

    #[test]
    fn allocations_do_not_wait_for_near_memory() {
        check(
            &KNOB,
            &[
                ("one node", Goal::Latency, &with_sysctl(PATH, "1")),
                ("two nodes", Goal::Latency, &two_nodes),
                ("two nodes, on", Goal::Density, &|facts| {
                    two_nodes(facts);
                    with_sysctl(PATH, "1")(facts);
                }),
            ],
            expect![[r#"
                one node (latency)
                  not-here /proc/sys/vm/zone_reclaim_mode "1": there is one memory node: all memory is equally close
                two nodes (latency)
                  keep /proc/sys/vm/zone_reclaim_mode "0": an allocation uses any of 2 nodes instead of waiting
                two nodes, on (density)
                  set /proc/sys/vm/zone_reclaim_mode "1" -> "0": an allocation first reclaims memory on its own node, although another of 2 may have room: only a server that fits on its node gains from that
            "#]],
        );
    }
}
