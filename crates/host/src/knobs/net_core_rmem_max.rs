//! The largest receive buffer that a socket may request.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::load::{Load, PACKET_BYTES, PPS_A_PLAYER, STALL_MS, lasts_ms};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::{full_buffers, one};

const PATH: &str = "/proc/sys/net/core/rmem_max";

/// The kernel's own default since Linux 6.18, for a server with an unknown load.
const WANTED: u64 = 4_194_304;

/// 64 players that send 60 packets per second each.
const TYPICAL_PPS: u64 = 64 * PPS_A_PLAYER;

/// The kernel limits a request to half of an `int` before it doubles the request, so a higher maximum has no effect.
const USEFUL_MAX: u64 = 1 << 30;

pub(super) const KNOB: Knob = Knob {
    id: "net.core.rmem_max",
    title: "the largest receive buffer a socket may request",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 2304, max: i32::MAX as i64, unit: "bytes" },
    default: "212992 up to Linux 6.12, 4194304 by 6.18",
    takes_effect: TakesEffect::NewSockets,
    mechanism: "Packets that arrive while the server computes wait in the socket's receive buffer. Packets that do not fit are \
        dropped. A server requests a buffer with SO_RCVBUF. The kernel limits the request to this maximum and doubles \
        it. It counts each packet by the memory it occupies: 832 bytes for one of up to 100 bytes, 1283 for 200 to \
        600, 2315 for 1000 to 1400. So the buffer must be at least packets per second x the longest stall x that size. \
        This maximum must be half of that, because the kernel doubles. evenkeel assumes a stall of 100 ms, the default \
        period of cpu.max: a server that has used its quota stops for up to that long. The maximum uses no memory by \
        itself, and has no effect on a server that requests no buffer.",
    risk: "after a stall a server with a deep buffer works through stale inputs; sockets that request more can use more \
        memory",
    shows_in: "RcvbufErrors on the Udp line of /proc/net/snmp, the drops column of /proc/net/udp",
    kernels: "all",
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
            says: "start by doubling the value; the packet count above is more exact",
        },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "a reader that drains 64,000 packets/s once per 30 ms lost 71.7 % of them at 212992 bytes, none at 1 \
                   MB",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/net/snmp", names: &["RcvbufErrors"] }],
        // If the buffer never fills, its size has no effect.
        counter: Some(Counter::ReceiveBuffers),
        // While the server stalls, every packet that no longer fits into the socket buffer or the ring is lost.
        effect: Some(Effect::Large),
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let ceiling = u64::try_from(current).unwrap_or(0);
    let buffer = ceiling.saturating_mul(2);
    let packets = buffer / PACKET_BYTES;
    let finding = match Load::from_server(&context.server) {
        None => {
            let stall_ms = lasts_ms(buffer, TYPICAL_PPS);
            let room = format!("room for {packets} small packets, {stall_ms} ms of 64 players who send 60/s each");
            if ceiling >= WANTED {
                Finding::keep(PATH, format!("a server that requests it gets {room}"))
            } else {
                let reason = format!("a server can request at most {room}: a longer stall drops packets");
                Finding::set(PATH, WANTED, reason)
            }
        }
        Some(load) => {
            let room = format!("room for {packets} small packets, {} ms of {}", lasts_ms(buffer, load.pps), load.label);
            let needed = load.stalled_bytes();
            // The kernel doubles the request, so the server requests half.
            let wanted = needed.div_ceil(2).next_power_of_two().min(USEFUL_MAX);
            if buffer >= needed || ceiling >= wanted {
                let reason =
                    format!("a server that requests it gets {room}; a stall of {STALL_MS} ms needs {needed} bytes");
                Finding::keep(PATH, reason)
            } else {
                let reason = format!(
                    "a server can request at most {room}; a stall of {STALL_MS} ms leaves {} packets of \
                        {PACKET_BYTES} bytes, {needed} in all; the value is half of that, because the kernel doubles \
                        it, rounded up to a power of two",
                    load.stalled_packets()
                );
                Finding::set(PATH, wanted, reason)
            }
        }
    };
    Ok(finding.counting(&full_buffers(facts)).at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, check_server, with_sysctl};

    #[test]
    fn it_is_computed_from_the_servers_load() {
        check_server(
            &KNOB,
            &[
                ("pps=3840", &|_| {}),
                ("players=64", &|_| {}),
                ("pps=5120", &|_| {}),
                ("pps=5121", &|_| {}),
                ("players=4000", &|_| {}),
                ("players=4000", &with_sysctl(PATH, "4194304")),
                ("players=4000", &with_sysctl(PATH, "16777216")),
                ("pps=1000000000", &with_sysctl(PATH, "1073741824")),
                ("pps=1000000000", &|_| {}),
                ("cpus=4", &|_| {}),
            ],
            expect![[r#"
                pps=3840
                  keep /proc/sys/net/core/rmem_max "212992": a server that requests it gets room for 512 small packets, 133 ms of 3840 packets/s; a stall of 100 ms needs 319488 bytes
                players=64
                  keep /proc/sys/net/core/rmem_max "212992": a server that requests it gets room for 512 small packets, 133 ms of 64 players that send 60/s each; a stall of 100 ms needs 319488 bytes
                pps=5120
                  keep /proc/sys/net/core/rmem_max "212992": a server that requests it gets room for 512 small packets, 100 ms of 5120 packets/s; a stall of 100 ms needs 425984 bytes
                pps=5121
                  set /proc/sys/net/core/rmem_max "212992" -> "262144": a server can request at most room for 512 small packets, 99 ms of 5121 packets/s; a stall of 100 ms leaves 513 packets of 832 bytes, 426816 in all; the value is half of that, because the kernel doubles it, rounded up to a power of two
                players=4000
                  set /proc/sys/net/core/rmem_max "212992" -> "16777216": a server can request at most room for 512 small packets, 2 ms of 4000 players that send 60/s each; a stall of 100 ms leaves 24000 packets of 832 bytes, 19968000 in all; the value is half of that, because the kernel doubles it, rounded up to a power of two
                players=4000
                  set /proc/sys/net/core/rmem_max "4194304" -> "16777216": a server can request at most room for 10082 small packets, 42 ms of 4000 players that send 60/s each; a stall of 100 ms leaves 24000 packets of 832 bytes, 19968000 in all; the value is half of that, because the kernel doubles it, rounded up to a power of two
                players=4000
                  keep /proc/sys/net/core/rmem_max "16777216": a server that requests it gets room for 40329 small packets, 168 ms of 4000 players that send 60/s each; a stall of 100 ms needs 19968000 bytes
                pps=1000000000
                  keep /proc/sys/net/core/rmem_max "1073741824": a server that requests it gets room for 2581110 small packets, 2 ms of 1000000000 packets/s; a stall of 100 ms needs 83200000000 bytes
                pps=1000000000
                  set /proc/sys/net/core/rmem_max "212992" -> "1073741824": a server can request at most room for 512 small packets, 0 ms of 1000000000 packets/s; a stall of 100 ms leaves 100000000 packets of 832 bytes, 83200000000 in all; the value is half of that, because the kernel doubles it, rounded up to a power of two
                cpus=4
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
            "#]],
        );
    }

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
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                kernel 6.18 (latency)
                  keep /proc/sys/net/core/rmem_max "4194304": a server that requests it gets room for 10082 small packets, 2625 ms of 64 players who send 60/s each
                more than that (density)
                  keep /proc/sys/net/core/rmem_max "33554432": a server that requests it gets room for 80659 small packets, 21004 ms of 64 players who send 60/s each
                i64's most (latency)
                  keep /proc/sys/net/core/rmem_max "9223372036854775807": a server that requests it gets room for 22171567396285518 small packets, 4803839602528529 ms of 64 players who send 60/s each
                negative (latency)
                  set /proc/sys/net/core/rmem_max "-1" -> "4194304": a server can request at most room for 0 small packets, 0 ms of 64 players who send 60/s each: a longer stall drops packets
                no number (latency)
                  unknown /proc/sys/net/core/rmem_max: the value in force is not a whole number: "212992 bytes"
                not captured (latency)
                  not-here /proc/sys/net/core/rmem_max: not present here: the facts do not include /proc/sys/net/core/rmem_max
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
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; RcvbufErrors reads 0 since boot: no packet was lost this way
                some (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; RcvbufErrors reads 9 since boot: this many packets were dropped because a socket's buffer was full
            "#]],
        );
    }
}
