//! How long a receive call on a new socket polls the network device before it sleeps.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

use super::net_core_busy_poll::{Polling, decide};

const PATH: &str = "/proc/sys/net/core/busy_read";

pub(super) const KNOB: Knob = Knob {
    id: "net.core.busy_read",
    title: "device polling in receive calls",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: i32::MAX as i64, unit: "us" },
    default: "0 (off)",
    takes_effect: TakesEffect::NewSockets,
    mechanism: "A new socket gets this value as its SO_BUSY_POLL. For this many microseconds, a receive call that finds no \
        packet polls the device's queue before it sleeps. Open sockets keep their value: restart the server. poll and \
        select poll only sockets that have it set, and they also need net.core.busy_poll. If you can change the \
        server, set SO_BUSY_POLL on the one socket that matters (up to Linux 6.1 that needs CAP_NET_ADMIN). A socket \
        without a NAPI queue (loopback, veth) has nothing to poll.",
    risk: "every new socket polls: each waiting thread spins on a CPU, takes time from the CPU's sibling, and uses power",
    shows_in: "BusyPollRxPackets in /proc/net/netstat",
    kernels: "all that are built with CONFIG_NET_RX_BUSY_POLL (the default)",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/net.rst, busy_read",
            says: "sets the default of SO_BUSY_POLL, which is preferred; 50 if it must be global; default 0",
        },
        Source {
            title: "Linux net/core/sock.c, sock_init_data",
            says: "copied into a socket when it is created, and not read again",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "test 50 first, then 100",
        },
        Source { title: "amzn-drivers, ENA_Linux_Best_Practices.rst", says: "70, against the others" },
        Source { title: "TuneD, profile network-latency", says: "50" },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "50 and 100 change nothing on loopback and veth",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/net/netstat", names: &["BusyPollRxPackets"] }],
        counter: Some(Counter::BusyPolling),
        worth_a_trial: &["50"],
        tuned: &[TunedProfile::NetworkLatency],
        risk_at: RiskAt::Except(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    let on = |us| format!("receive calls on new sockets already poll for {us} us");
    let suits = |us| {
        format!(
            "sources recommend {us}, 70 and 100 us: run `evenkeel prove {}={us}` to measure the effect; the \
                kernel's documentation prefers SO_BUSY_POLL in the server",
            KNOB.id
        )
    };
    one(decide(facts, context.goal, Polling { path: PATH, on, suits }))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, nics, with_cpus, with_sysctl};

    #[test]
    fn it_polls_where_busy_poll_would() {
        check(
            &KNOB,
            &[
                ("4 CPUs", Goal::Latency, &|_| {}),
                ("already on", Goal::Latency, &with_sysctl(PATH, "70")),
                ("already on", Goal::Density, &with_sysctl(PATH, "50")),
                ("2 CPUs", Goal::Latency, &with_cpus(2)),
                ("1 CPU", Goal::Latency, &with_cpus(1)),
                ("1 CPU, on", Goal::Latency, &|facts| {
                    with_cpus(1)(facts);
                    with_sysctl(PATH, "50")(facts);
                }),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
                ("busy_poll is on, this is not", Goal::Throughput, &with_sysctl("/proc/sys/net/core/busy_poll", "50")),
            ],
            expect![[r#"
                4 CPUs (latency)
                  set /proc/sys/net/core/busy_read "0" -> "50": 4 CPUs and eth0, a device with queues to poll: sources recommend 50, 70 and 100 us: run `evenkeel prove net.core.busy_read=50` to measure the effect; the kernel's documentation prefers SO_BUSY_POLL in the server
                already on (latency)
                  keep /proc/sys/net/core/busy_read "70": receive calls on new sockets already poll for 70 us
                already on (density)
                  set /proc/sys/net/core/busy_read "50" -> "0": polling uses CPU time that the goal density needs for work
                2 CPUs (latency)
                  keep /proc/sys/net/core/busy_read "0": 2 CPUs: the server needs the CPU that would poll
                1 CPU (latency)
                  not-here /proc/sys/net/core/busy_read "0": 1 CPU: polling would take CPU time from the server itself
                1 CPU, on (latency)
                  set /proc/sys/net/core/busy_read "50" -> "0": 1 CPU: polling would take CPU time from the server itself
                loopback only (latency)
                  not-here /proc/sys/net/core/busy_read "0": no interface has hardware to poll behind it
                busy_poll is on, this is not (throughput)
                  keep /proc/sys/net/core/busy_read "0": polling uses CPU time that the goal throughput needs for work
            "#]],
        );
    }

    /// The sources have an error here: a change of the setting does not affect an open socket.
    #[test]
    fn only_new_sockets_follow() {
        assert_eq!(KNOB.takes_effect, TakesEffect::NewSockets);
    }
}
