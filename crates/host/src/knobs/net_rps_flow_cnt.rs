//! Receive flow steering: how many flows each queue tracks.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::{Facts, Nic, Queue};
use crate::finding::{Finding, own, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;

const TABLE: &str = "/proc/sys/net/core/rps_sock_flow_entries";

pub(super) const KNOB: Knob = Knob {
    id: "net.rps_flow_cnt",
    title: "flows that a receive queue steers",
    area: Area::Network,
    place: Place::Each { device: Device::ReceiveQueue, file: "rps_flow_cnt", reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1 << 29, unit: "flows" },
    default: "0 (off)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "This is the part of receive flow steering that each queue has. The other part is \
        net.core.rps_sock_flow_entries; without it this has no effect. Together they send a packet to the CPU on which \
        its flow was last read. The kernel records that CPU only for connected sockets, so one unconnected UDP socket \
        gains nothing. The documentation divides the entries of the table among the queues.",
    risk: "memory for each queue; if threads move, packets follow them from CPU to CPU",
    shows_in: "column 10 of /proc/net/softnet_stat (steered packets), NET_RX in /proc/softirqs by CPU",
    kernels: "all that are built with CONFIG_RPS (the default on several CPUs)",
    sources: &[
        Source {
            title: "Linux Documentation/networking/scaling.rst, RFS",
            says: "needs both settings; with N queues, each gets 1/N of the table",
        },
        Source {
            title: "Linux include/net/rps.h, sock_rps_record_flow",
            says: "records the CPU for sockets in the established state only, which is connected ones",
        },
    ],
    extras: Extras {
        read_in: &[
            CounterPlace::Table { file: "/proc/softirqs", names: &["NET_RX"] },
            CounterPlace::SoftnetColumns(&[10]),
        ],
        // The number affects only steered packets. Without steering, it has no effect.
        counter: Some(Counter::SteeredPackets),
        risk_at: RiskAt::Except(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    if facts.network.nics.known().is_none() {
        return vec![Finding::unknown(KNOB.id, "which network interfaces there are", &facts.network.nics)];
    }
    let queues = facts.network.hardware().flat_map(|nic| nic.rx_queues.iter().map(move |queue| (nic, queue)));
    let findings: Vec<Finding> =
        queues.map(|(nic, queue)| decide(facts, nic, queue).unwrap_or_else(|finding| finding)).collect();
    if findings.is_empty() {
        return vec![Finding::not_here(KNOB.id, "no interface with hardware behind it has a receive queue")];
    }
    findings
}

fn decide(facts: &Facts, nic: &Nic, queue: &Queue) -> Result<Finding, Finding> {
    let place = format!("{}/rx-{}", nic.name, queue.index);
    let Some(flows) = &queue.flows else {
        return Err(Finding::not_here(place, "not a receive queue"));
    };
    let current = own(&place, flows)?;
    let table = own_number(facts, TABLE).ok();
    let finding = match (current, table) {
        (0, Some(table @ 1..)) => {
            let share = (table / nic.rx_queues.len().max(1) as i64).clamp(1, 1 << 29);
            let reason = format!(
                "net.core.rps_sock_flow_entries is {table} and has no effect without this value, its share per \
                    queue"
            );
            Finding::set(&place, share, reason)
        }
        (0, _) => Finding::keep(&place, "off, which suits one unconnected UDP socket"),
        (_, Some(0)) => {
            Finding::set(&place, 0, "net.core.rps_sock_flow_entries is 0: this uses memory and has no effect")
        }
        _ => Finding::keep(&place, "on: TCP and connected sockets follow their readers"),
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::{check, nic, nics, with_sysctl};

    fn with_flows(flows: u32) -> impl Fn(&mut Facts) {
        move |facts| nics(facts)[0].rx_queues[0].flows = Some(Fact::Known(flows))
    }

    #[test]
    fn half_of_it_does_nothing() {
        check(
            &KNOB,
            &[
                ("off", Goal::Latency, &|_| {}),
                ("table alone, 2 queues", Goal::Latency, &|facts| {
                    nics(facts)[0] = nic("eth0", 2, 24);
                    with_sysctl(TABLE, "32768")(facts);
                }),
                ("queue alone", Goal::Latency, &with_flows(4096)),
                ("both", Goal::Latency, &|facts| {
                    with_flows(4096)(facts);
                    with_sysctl(TABLE, "32768")(facts);
                }),
                ("table unknown", Goal::Latency, &|facts| {
                    facts.sysctls.clear();
                    with_flows(4096)(facts);
                }),
                ("no such file", Goal::Latency, &|facts| {
                    nics(facts)[0].rx_queues[0].flows = Some(Fact::absent("no rps_flow_cnt"));
                }),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
            ],
            expect![[r#"
                off (latency)
                  keep eth0/rx-0 "0": off, which suits one unconnected UDP socket
                table alone, 2 queues (latency)
                  set eth0/rx-0 "0" -> "16384": net.core.rps_sock_flow_entries is 32768 and has no effect without this value, its share per queue
                  set eth0/rx-1 "0" -> "16384": net.core.rps_sock_flow_entries is 32768 and has no effect without this value, its share per queue
                queue alone (latency)
                  set eth0/rx-0 "4096" -> "0": net.core.rps_sock_flow_entries is 0: this uses memory and has no effect
                both (latency)
                  keep eth0/rx-0 "4096": on: TCP and connected sockets follow their readers
                table unknown (latency)
                  keep eth0/rx-0 "4096": on: TCP and connected sockets follow their readers
                no such file (latency)
                  not-here eth0/rx-0: not present here: no rps_flow_cnt
                loopback only (latency)
                  not-here net.rps_flow_cnt: no interface with hardware behind it has a receive queue
            "#]],
        );
    }
}
