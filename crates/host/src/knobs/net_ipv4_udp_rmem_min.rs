//! The memory that each UDP socket may keep while all UDP sockets together exceed their limit.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/ipv4/udp_rmem_min";

const DEFAULT: i64 = 4096;

pub(super) const KNOB: Knob = Knob {
    id: "net.ipv4.udp_rmem_min",
    title: "memory a UDP socket keeps under memory pressure",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: i32::MAX as i64, unit: "bytes" },
    default: "4096 (one page)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Once all UDP sockets together hold more than the first number of net.ipv4.udp_mem, a socket accepts another \
        packet only while it holds less than this. Below that limit it has no effect: it is neither a buffer size nor \
        a guarantee. Its counterpart udp_wmem_min never has an effect.",
    risk: "with many sockets, a large value uses the memory that the limit protects",
    shows_in: "MemErrors on the Udp line of /proc/net/snmp",
    kernels: "all; one for the whole machine in 4.4, one per network namespace by 5.10",
    sources: &[
        Source {
            title: "Linux Documentation/networking/ip-sysctl.rst, udp_rmem_min",
            says: "the minimum receive buffer of UDP sockets in moderation; default 4096; udp_wmem_min has no effect",
        },
        Source {
            title: "Linux net/core/sock.c, __sk_mem_raise_allocated",
            says: "used only above the first number of udp_mem",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/net/snmp", names: &["MemErrors"] }],
        // The kernel counts refused packets as receive buffer errors.
        counter: Some(Counter::ReceiveBuffers),
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
    let finding = if current < DEFAULT {
        let reason = format!("below the kernel's default {DEFAULT}: under memory pressure a socket keeps no packet");
        Finding::set(PATH, DEFAULT, reason)
    } else {
        Finding::keep(PATH, "it applies only above the first number of net.ipv4.udp_mem, and is not a buffer size")
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
    fn it_is_a_floor_and_no_buffer_size() {
        check(
            &KNOB,
            &[
                ("the default", Goal::Latency, &|_| {}),
                ("raised", Goal::Latency, &with_sysctl(PATH, "16384")),
                ("lowered", Goal::Latency, &with_sysctl(PATH, "1")),
                ("not captured", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                the default (latency)
                  keep /proc/sys/net/ipv4/udp_rmem_min "4096": it applies only above the first number of net.ipv4.udp_mem, and is not a buffer size
                raised (latency)
                  keep /proc/sys/net/ipv4/udp_rmem_min "16384": it applies only above the first number of net.ipv4.udp_mem, and is not a buffer size
                lowered (latency)
                  set /proc/sys/net/ipv4/udp_rmem_min "1" -> "4096": below the kernel's default 4096: under memory pressure a socket keeps no packet
                not captured (latency)
                  not-here /proc/sys/net/ipv4/udp_rmem_min: not present here: the facts do not include /proc/sys/net/ipv4/udp_rmem_min
            "#]],
        );
    }
}
