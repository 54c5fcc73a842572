//! The receive buffer of a socket that does not set its own size.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::load::{Load, PACKET_BYTES, PPS_A_PLAYER, STALL_MS, lasts_ms};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::{full_buffers, one};

const PATH: &str = "/proc/sys/net/core/rmem_default";

/// The maximum recommended value.
/// A server that needs more should set the buffer of its own socket, because this value applies to every socket.
const WANTED_MAX: u64 = 1 << 24;

pub(super) const KNOB: Knob = Knob {
    id: "net.core.rmem_default",
    title: "the receive buffer of sockets that set none",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 2304, max: i32::MAX as i64, unit: "bytes" },
    default: "212992",
    takes_effect: TakesEffect::NewSockets,
    mechanism: "A new socket gets a buffer of this size. A socket that sets SO_RCVBUF has its own size, and this setting does \
        not affect it. The kernel does not double it, as it does SO_RCVBUF. 212992 bytes hold 256 packets of up to 100 \
        bytes (832 bytes of memory each), 166 of 200 to 600, 92 of 1000 to 1400. The required buffer is packets per \
        second x the longest stall x that memory size. If you can change the server, let it set SO_RCVBUF: then only \
        the socket that needs the memory gets it.",
    risk: "every UDP, UNIX and netlink socket may use as much; after a stall a server works through stale inputs",
    shows_in: "RcvbufErrors on the Udp line of /proc/net/snmp, the drops column of /proc/net/udp",
    kernels: "all",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/net.rst, rmem_default",
            says: "the default size of the receive buffer in bytes",
        },
        Source {
            title: "Linux net/core/sock.c, sock_init_data",
            says: "the kernel sets a socket's buffer when it is created",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "start by doubling the value; the formula above gives the required size",
        },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18, over loopback",
            says: "212992 bytes hold 256 packets of up to 100 bytes",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/net/snmp", names: &["RcvbufErrors"] }],
        // If the buffer never fills, its size has no effect.
        counter: Some(Counter::ReceiveBuffers),
        // While the server stalls, every packet that no longer fits into the socket buffer or the ring is lost.
        effect: Some(Effect::Large),
        worth_a_trial: &["1048576"],
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
    let bytes = u64::try_from(current).unwrap_or(0);
    let packets = bytes / PACKET_BYTES;
    let Some(load) = Load::from_server(&context.server) else {
        let typical_ms = lasts_ms(bytes, 64 * PPS_A_PLAYER);
        let reason = format!(
            "holds {packets} small packets, {typical_ms} ms of 64 players who send {PPS_A_PLAYER}/s each; give \
                your server's packet rate (`--server pps=N`), and prefer SO_RCVBUF for the one socket"
        );
        return Ok(Finding::keep(PATH, reason).counting(&full_buffers(facts)).at(current));
    };
    let (needed, as_text) = (load.stalled_bytes(), &load.label);
    let holds = format!("holds {packets} small packets, {} ms of {as_text}", lasts_ms(bytes, load.pps));
    let finding = if bytes >= needed {
        Finding::keep(PATH, format!("{holds}; a stall of {STALL_MS} ms needs {needed} bytes"))
    } else if needed > WANTED_MAX {
        let reason = format!(
            "{holds}; a stall of {STALL_MS} ms needs {needed} bytes, too much for every socket: let the server \
                set SO_RCVBUF (up to net.core.rmem_max) or read with several sockets"
        );
        Finding::keep(PATH, reason)
    } else {
        let wanted = needed.next_power_of_two();
        let reason = format!(
            "{holds}; a stall of {STALL_MS} ms leaves {} packets of {PACKET_BYTES} bytes, {needed} in all, rounded up \
             to a power of two; a server that sets SO_RCVBUF is not affected",
            load.stalled_packets()
        );
        Finding::set(PATH, wanted, reason)
    };
    Ok(finding.counting(&full_buffers(facts)).at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check_server, with_sysctl};

    #[test]
    fn it_is_computed_from_the_servers_load() {
        check_server(
            &KNOB,
            &[
                ("", &|_| {}),
                ("pps=2560", &|_| {}),
                ("pps=2561", &|_| {}),
                ("players=64", &|_| {}),
                ("pps=3840", &with_sysctl(PATH, "4194304")),
                ("pps=10000000", &|_| {}),
                ("pps=1000000000", &|_| {}),
                ("pps=3840", &with_sysctl(PATH, "-1")),
                ("pps=3840", &with_sysctl(PATH, "many")),
                ("", &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                nothing known
                  keep /proc/sys/net/core/rmem_default "212992": holds 256 small packets, 66 ms of 64 players who send 60/s each; give your server's packet rate (`--server pps=N`), and prefer SO_RCVBUF for the one socket
                pps=2560
                  keep /proc/sys/net/core/rmem_default "212992": holds 256 small packets, 100 ms of 2560 packets/s; a stall of 100 ms needs 212992 bytes
                pps=2561
                  set /proc/sys/net/core/rmem_default "212992" -> "262144": holds 256 small packets, 99 ms of 2561 packets/s; a stall of 100 ms leaves 257 packets of 832 bytes, 213824 in all, rounded up to a power of two; a server that sets SO_RCVBUF is not affected
                players=64
                  set /proc/sys/net/core/rmem_default "212992" -> "524288": holds 256 small packets, 66 ms of 64 players that send 60/s each; a stall of 100 ms leaves 384 packets of 832 bytes, 319488 in all, rounded up to a power of two; a server that sets SO_RCVBUF is not affected
                pps=3840
                  keep /proc/sys/net/core/rmem_default "4194304": holds 5041 small packets, 1312 ms of 3840 packets/s; a stall of 100 ms needs 319488 bytes
                pps=10000000
                  keep /proc/sys/net/core/rmem_default "212992": holds 256 small packets, 0 ms of 10000000 packets/s; a stall of 100 ms needs 832000000 bytes, too much for every socket: let the server set SO_RCVBUF (up to net.core.rmem_max) or read with several sockets
                pps=1000000000
                  keep /proc/sys/net/core/rmem_default "212992": holds 256 small packets, 0 ms of 1000000000 packets/s; a stall of 100 ms needs 83200000000 bytes, too much for every socket: let the server set SO_RCVBUF (up to net.core.rmem_max) or read with several sockets
                pps=3840
                  set /proc/sys/net/core/rmem_default "-1" -> "524288": holds 0 small packets, 0 ms of 3840 packets/s; a stall of 100 ms leaves 384 packets of 832 bytes, 319488 in all, rounded up to a power of two; a server that sets SO_RCVBUF is not affected
                pps=3840
                  unknown /proc/sys/net/core/rmem_default: the value in force is not a whole number: "many"
                nothing known
                  not-here /proc/sys/net/core/rmem_default: not present here: the facts do not include /proc/sys/net/core/rmem_default
            "#]],
        );
    }

    /// The reason reports past losses, but no decision depends on them, whether zero or not.
    #[test]
    fn the_counter_is_quoted_and_decides_nothing() {
        check_server(
            &KNOB,
            &[("", &crate::facts::all_counted(0)), ("pps=2560", &crate::facts::all_counted(9))],
            expect![[r#"
                nothing known
                  keep /proc/sys/net/core/rmem_default "212992": holds 256 small packets, 66 ms of 64 players who send 60/s each; give your server's packet rate (`--server pps=N`), and prefer SO_RCVBUF for the one socket; RcvbufErrors reads 0 since boot: no packet was lost this way
                pps=2560
                  keep /proc/sys/net/core/rmem_default "212992": holds 256 small packets, 100 ms of 2560 packets/s; a stall of 100 ms needs 212992 bytes; RcvbufErrors reads 9 since boot: this many packets were dropped because a socket's buffer was full
            "#]],
        );
    }
}
