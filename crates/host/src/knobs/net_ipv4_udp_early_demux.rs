//! Whether the kernel looks for a packet's socket before it routes the packet.

use crate::extras::{Counter, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, State, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;

use crate::finding::shown;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/ipv4/udp_early_demux";

pub(super) const KNOB: Knob = Knob {
    id: "net.ipv4.udp_early_demux",
    title: "early socket lookup for UDP packets",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "1 (on)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "For each packet the kernel first looks for a connected socket. If it finds one, it need not look up the route. \
        A server that receives from all its players on one unconnected socket has no such socket. The first lookup \
        then finds nothing and only costs time. A server that connects one socket per player gains.",
    risk: "connected sockets need a route lookup for each packet",
    shows_in: "softirq CPU time per packet; no counter",
    kernels: "5.10 and newer; 4.4 does not have it",
    sources: &[Source {
        title: "Linux Documentation/networking/ip-sysctl.rst, udp_early_demux",
        says: "for connected sockets; disable it if more load comes through unconnected ones; default 1",
    }],
    extras: Extras {
        counter: Some(Counter::UdpDatagrams),
        // One lookup per packet, in under a microsecond.
        effect: Some(Effect::Small),
        worth_a_trial: &["0", "1"],
        risk_at: RiskAt::Values(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let text = own(PATH, &facts.sysctl(PATH))?;
    let reason = match text.as_str() {
        "0" => "no early lookup: right for unconnected sockets; connected ones need a route lookup for each packet"
            .to_owned(),
        "1" => format!(
            "right for connected sockets; if all packets come through one unconnected socket, run `evenkeel prove \
                {}=0` to measure the cost of the lookup",
            KNOB.id
        ),
        _ => {
            let reason = format!("the value in force is neither 0 nor 1: {:?}", shown(&text));
            return Err(Finding::new(State::Unknown, PATH, reason));
        }
    };
    Ok(Finding::keep(PATH, reason).at(text))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn whether_sockets_are_connected_is_for_the_user_to_say() {
        check(
            &KNOB,
            &[
                ("on", Goal::Latency, &|_| {}),
                ("off", Goal::Latency, &with_sysctl(PATH, "0")),
                ("odd", Goal::Latency, &with_sysctl(PATH, "2")),
                ("Linux 4.4", Goal::Latency, &|facts| {
                    facts.sysctls.insert(PATH, crate::fact::Fact::absent("no such file or directory (ENOENT)"));
                }),
            ],
            expect![[r#"
                on (latency)
                  keep /proc/sys/net/ipv4/udp_early_demux "1": right for connected sockets; if all packets come through one unconnected socket, run `evenkeel prove net.ipv4.udp_early_demux=0` to measure the cost of the lookup
                off (latency)
                  keep /proc/sys/net/ipv4/udp_early_demux "0": no early lookup: right for unconnected sockets; connected ones need a route lookup for each packet
                odd (latency)
                  unknown /proc/sys/net/ipv4/udp_early_demux: the value in force is neither 0 nor 1: "2"
                Linux 4.4 (latency)
                  not-here /proc/sys/net/ipv4/udp_early_demux: not present here: no such file or directory (ENOENT)
            "#]],
        );
    }
}
