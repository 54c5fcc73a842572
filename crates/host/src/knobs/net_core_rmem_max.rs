//! The most receive buffer that a socket may ask for.

use crate::facts::Facts;
use crate::goal::Wish;
use crate::knob::{Area, Finding, Knob, Place, Source, TakesEffect, Values};
use crate::plan::Reading;

use super::{one, own_number};

const PATH: &str = "/proc/sys/net/core/rmem_max";

/// The kernel's own default by Linux 6.18.
const WANTED: i64 = 4_194_304;

/// What a packet of up to 100 bytes takes of a receive buffer, by the kernel's own count (its `truesize`).
const PACKET_BYTES: i64 = 832;

/// 64 players who send 60 packets a second each.
const PACKETS_A_SECOND: i64 = 64 * 60;

pub(super) const KNOB: Knob = Knob {
    id: "net.core.rmem_max",
    title: "the largest receive buffer a socket may ask for",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 2304, max: i32::MAX as i64, unit: "bytes" },
    default: "212992 up to Linux 6.12, 4194304 by 6.18",
    takes_effect: TakesEffect::NewSockets,
    mechanism: "Packets that arrive while the server computes wait in the socket's receive buffer; what does not fit \
                is dropped. A server asks for a buffer by SO_RCVBUF; the kernel cuts the request to this ceiling, then \
                doubles it, and counts each packet by the memory it occupies: 832 bytes for one of up to 100 bytes, \
                1283 for 200 to 600, 2315 for 1000 to 1400. So the buffer must be at least packets a second x the \
                longest stall x that size. The ceiling itself takes no memory, and does nothing for a server that \
                never asks.",
    risk: "after a stall a server with a deep buffer works through stale inputs; sockets that ask can take more memory",
    shows_in: "RcvbufErrors on the Udp line of /proc/net/snmp, the drops column of /proc/net/udp",
    counter: None,
    kernels: "all",
    side_effects: &[],
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/net.rst, rmem_max",
            says: "the maximum receive socket buffer size in bytes",
        },
        Source {
            title: "Linux net/core/sock.c, __sock_set_rcvbuf",
            says: "cuts the request to rmem_max, then doubles it for overhead",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "start by doubling the value; the packet count above says more",
        },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "a reader that drains 64,000 packets/s once per 30 ms lost 71.7 % of them at 212992 bytes, none at 1 \
                   MB",
        },
    ],
    advise,
};

fn advise(facts: &Facts, _: &Wish) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let packets = 2 * i128::from(current.max(0)) / i128::from(PACKET_BYTES);
    let stall_ms = packets * 1000 / i128::from(PACKETS_A_SECOND);
    let room = format!("room for {packets} small packets, {stall_ms} ms of 64 players who send 60/s each");
    let finding = if current >= WANTED {
        Finding::keep(PATH, format!("a server that asks for it gets {room}"))
    } else {
        Finding::set(PATH, WANTED, format!("the most a server can ask for is {room}: a longer stall drops packets"))
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn it_is_judged_by_the_packets_that_fit() {
        check(
            &KNOB,
            &[
                ("as the base machine has it", Goal::Latency, &|_| {}),
                ("kernel 6.18", Goal::Latency, &with_sysctl(PATH, "4194304")),
                ("more than that", Goal::Density, &with_sysctl(PATH, "33554432")),
                ("i64's most", Goal::Latency, &with_sysctl(PATH, "9223372036854775807")),
                ("negative", Goal::Latency, &with_sysctl(PATH, "-1")),
                ("no number", Goal::Latency, &with_sysctl(PATH, "212992 bytes")),
                ("not captured", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                as the base machine has it (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                kernel 6.18 (latency)
                  keep /proc/sys/net/core/rmem_max "4194304": a server that asks for it gets room for 10082 small packets, 2625 ms of 64 players who send 60/s each
                more than that (density)
                  keep /proc/sys/net/core/rmem_max "33554432": a server that asks for it gets room for 80659 small packets, 21004 ms of 64 players who send 60/s each
                i64's most (latency)
                  keep /proc/sys/net/core/rmem_max "9223372036854775807": a server that asks for it gets room for 22171567396285518 small packets, 5773845676116020 ms of 64 players who send 60/s each
                negative (latency)
                  set /proc/sys/net/core/rmem_max "-1" -> "4194304": the most a server can ask for is room for 0 small packets, 0 ms of 64 players who send 60/s each: a longer stall drops packets
                no number (latency)
                  unknown /proc/sys/net/core/rmem_max: the value in force is no whole number: "212992 bytes"
                not captured (latency)
                  not-here /proc/sys/net/core/rmem_max: not found here: /proc/sys/net/core/rmem_max is not among the facts
            "#]],
        );
    }
}
