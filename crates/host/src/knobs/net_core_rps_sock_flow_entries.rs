//! Receive flow steering: the table that all queues share. It has the CPU that reads each flow.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/core/rps_sock_flow_entries";

pub(super) const KNOB: Knob = Knob {
    id: "net.core.rps_sock_flow_entries",
    title: "flows whose reading CPU the kernel remembers",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1 << 29, unit: "flows" },
    default: "0 (off)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Flow steering sends a packet to the CPU on which its flow was last read. It needs this table and \
        net.rps_flow_cnt of each queue. The kernel records the CPU only for connected sockets. So a server that \
        receives from all its players on one unconnected UDP socket gains nothing. TCP, and one socket per player, \
        gain if the threads that read them stay on their CPU.",
    risk: "memory of the table; if threads move, packets follow them from CPU to CPU",
    shows_in: "column 10 of /proc/net/softnet_stat (steered packets), NET_RX in /proc/softirqs by CPU",
    kernels: "all that are built with CONFIG_RPS (the default on several CPUs)",
    sources: &[
        Source {
            title: "Linux Documentation/networking/scaling.rst, RFS",
            says: "needs both settings; the kernel rounds up to a power of two; newer editions name 65536 and more",
        },
        Source {
            title: "Linux include/net/rps.h, sock_rps_record_flow",
            says: "records the CPU for sockets in the established state only, which is connected ones",
        },
        Source { title: "scylladb/seastar, perftune.py", says: "32768, divided among the queues; for TCP" },
    ],
    extras: Extras {
        read_in: &[
            CounterPlace::Table { file: "/proc/softirqs", names: &["NET_RX"] },
            CounterPlace::SoftnetColumns(&[10]),
        ],
        // The table selects the CPU for steered packets. Without steering, it has no effect.
        counter: Some(Counter::SteeredPackets),
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
    let reason = if current == 0 {
        "off, which suits one unconnected UDP socket: the kernel records the reading CPU only for connected sockets"
    } else {
        "on: TCP and connected sockets follow their readers; an unconnected UDP socket gains nothing"
    };
    Ok(Finding::keep(PATH, reason).at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn it_is_left_alone() {
        check(
            &KNOB,
            &[
                ("off", Goal::Throughput, &|_| {}),
                ("on", Goal::Latency, &with_sysctl(PATH, "32768")),
                ("no number", Goal::Latency, &with_sysctl(PATH, "?")),
                ("not captured", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                off (throughput)
                  keep /proc/sys/net/core/rps_sock_flow_entries "0": off, which suits one unconnected UDP socket: the kernel records the reading CPU only for connected sockets
                on (latency)
                  keep /proc/sys/net/core/rps_sock_flow_entries "32768": on: TCP and connected sockets follow their readers; an unconnected UDP socket gains nothing
                no number (latency)
                  unknown /proc/sys/net/core/rps_sock_flow_entries: the value in force is not a whole number: "?"
                not captured (latency)
                  not-here /proc/sys/net/core/rps_sock_flow_entries: not present here: the facts do not include /proc/sys/net/core/rps_sock_flow_entries
            "#]],
        );
    }
}
