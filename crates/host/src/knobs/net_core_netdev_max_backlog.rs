//! How many packets may wait in a CPU's backlog.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::fact::Fact;
use crate::facts::{Facts, reads};
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/core/netdev_max_backlog";

const DEFAULT: i64 = 1000;

/// Twice the default. Amazon's guide for game servers begins with this value.
const WITH_RPS: i64 = 2000;

pub(super) const KNOB: Knob = Knob {
    id: "net.core.netdev_max_backlog",
    title: "packets that may wait in a CPU's backlog",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: i32::MAX as i64, unit: "packets" },
    default: "1000",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Each CPU has a queue for packets that did not come from a device's own queue. These are packets from receive \
        packet steering (RPS), from loopback and veth, and from drivers without NAPI. If the queue is full, the kernel \
        drops the packet. Packets of an ENA, virtio, gVNIC or mana queue use it only if RPS is on.",
    risk: "in a longer queue packets wait longer when a CPU falls behind",
    shows_in: "column 2 of /proc/net/softnet_stat (hexadecimal, one line per CPU)",
    kernels: "all",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/net.rst, netdev_max_backlog",
            says: "the most packets queued when an interface receives faster than the kernel can process",
        },
        Source { title: "Linux net/core/dev.c, enqueue_to_backlog", says: "the only place that tests it" },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "double it against drops; true only if packets use this queue",
        },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "at 630,000 packets/s over veth, 100 drops and 1000 does not; 30000 gains nothing more",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::SoftnetColumns(&[2])],
        // Drops are not the only sign of use.
        // Loopback traffic uses the backlog too, so the limit is engaged even if it is never reached.
        counter: Some(Counter::Backlog),
        // A full backlog drops the packets of a whole stall.
        effect: Some(Effect::Large),
        worth_a_trial: &["4000"],
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let (wanted, who) = match steered_queue(facts).map_err(|finding| finding.at(current))? {
        Some(queue) => (WITH_RPS, format!("RPS sends packets of {queue} through this queue")),
        None => (DEFAULT, "RPS is off, so only loopback and veth use this queue".to_owned()),
    };
    let finding = if current >= wanted {
        Finding::keep(
            PATH,
            format!(
                "{who}; room for {current} packets is enough while column 2 of /proc/net/softnet_stat does not rise"
            ),
        )
    } else {
        let reason = format!(
            "{who}; if there is room for only {current} packets, a burst is dropped (column 2 of /proc/net/softnet_stat)"
        );
        Finding::set(PATH, wanted, reason)
    };
    let dropped = facts.counters.softnet_sum(|cpu| cpu.dropped);
    let as_text = reads(
        "the column",
        dropped,
        "no packet was lost this way",
        "this many packets were dropped because a backlog was full",
    );
    Ok(finding.counting(&as_text).at(current))
}

/// The first receive queue whose packets RPS steers to other CPUs.
fn steered_queue(facts: &Facts) -> Result<Option<String>, Finding> {
    if facts.network.nics.known().is_none() {
        return Err(Finding::unknown(PATH, "which network interfaces there are", &facts.network.nics));
    }
    let mut unread = None;
    for nic in facts.network.hardware() {
        for queue in &nic.rx_queues {
            match &queue.steering_cpus {
                Fact::Known(cpus) if !cpus.is_empty() => return Ok(Some(format!("{}/rx-{}", nic.name, queue.index))),
                // A kernel without RPS has no such file, so absent means off.
                Fact::Known(_) | Fact::Absent { .. } => {}
                denied_or_odd => unread = Some(Finding::unknown(PATH, "whether RPS is on", denied_or_odd)),
            }
        }
    }
    unread.map_or(Ok(None), Err)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, nic, nics, set, with_sysctl};

    fn with_rps(facts: &mut Facts) {
        nics(facts).push(nic("eth1", 2, 40));
        nics(facts)[2].rx_queues[1].steering_cpus = Fact::Known(set("2-3"));
    }

    #[test]
    fn it_matters_where_rps_is_on() {
        check(
            &KNOB,
            &[
                ("no RPS", Goal::Latency, &|_| {}),
                ("less than the default", Goal::Latency, &with_sysctl(PATH, "100")),
                ("RPS", Goal::Latency, &with_rps),
                ("RPS, raised", Goal::Throughput, &|facts| {
                    with_rps(facts);
                    with_sysctl(PATH, "30000")(facts);
                }),
                ("a kernel without RPS", Goal::Latency, &|facts| {
                    nics(facts)[0].rx_queues[0].steering_cpus = Fact::absent("no rps_cpus");
                }),
                ("RPS unreadable", Goal::Latency, &|facts| {
                    nics(facts)[0].rx_queues[0].steering_cpus = Fact::Denied { why: "rps_cpus: EACCES".into() };
                }),
                ("interfaces unknown", Goal::Latency, &|facts| facts.network.nics = Fact::absent("no /sys here")),
            ],
            expect![[r#"
                no RPS (latency)
                  keep /proc/sys/net/core/netdev_max_backlog "1000": RPS is off, so only loopback and veth use this queue; room for 1000 packets is enough while column 2 of /proc/net/softnet_stat does not rise
                less than the default (latency)
                  set /proc/sys/net/core/netdev_max_backlog "100" -> "1000": RPS is off, so only loopback and veth use this queue; if there is room for only 100 packets, a burst is dropped (column 2 of /proc/net/softnet_stat)
                RPS (latency)
                  set /proc/sys/net/core/netdev_max_backlog "1000" -> "2000": RPS sends packets of eth1/rx-1 through this queue; if there is room for only 1000 packets, a burst is dropped (column 2 of /proc/net/softnet_stat)
                RPS, raised (throughput)
                  keep /proc/sys/net/core/netdev_max_backlog "30000": RPS sends packets of eth1/rx-1 through this queue; room for 30000 packets is enough while column 2 of /proc/net/softnet_stat does not rise
                a kernel without RPS (latency)
                  keep /proc/sys/net/core/netdev_max_backlog "1000": RPS is off, so only loopback and veth use this queue; room for 1000 packets is enough while column 2 of /proc/net/softnet_stat does not rise
                RPS unreadable (latency)
                  unknown /proc/sys/net/core/netdev_max_backlog "1000": whether RPS is on is not known: rps_cpus: EACCES
                interfaces unknown (latency)
                  unknown /proc/sys/net/core/netdev_max_backlog "1000": which network interfaces there are is not known: no /sys here
            "#]],
        );
    }

    /// The reason reports past losses, but no decision depends on them, whether zero or not.
    #[test]
    fn the_counter_is_quoted_and_decides_nothing() {
        check(
            &KNOB,
            &[
                ("none", Goal::Latency, &crate::facts::all_counted(0)),
                ("some", Goal::Latency, &crate::facts::all_counted(9)),
            ],
            expect![[r#"
                none (latency)
                  keep /proc/sys/net/core/netdev_max_backlog "1000": RPS is off, so only loopback and veth use this queue; room for 1000 packets is enough while column 2 of /proc/net/softnet_stat does not rise; the column reads 0 since boot: no packet was lost this way
                some (latency)
                  keep /proc/sys/net/core/netdev_max_backlog "1000": RPS is off, so only loopback and veth use this queue; room for 1000 packets is enough while column 2 of /proc/net/softnet_stat does not rise; the column reads 9 since boot: this many packets were dropped because a backlog was full
            "#]],
        );
    }
}
