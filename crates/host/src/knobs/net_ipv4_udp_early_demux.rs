//! Whether the kernel looks for a packet's socket before it routes the packet.

use crate::extras::{Counter, Extras};
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
    title: "early look-up of a UDP packet's socket",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1, unit: "" },
    default: "1 (on)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "For each packet the kernel first looks for a connected socket, whose route it then need not look up. A \
                server that receives from all its players on one unconnected socket has no such socket, so the first \
                look finds nothing and is a cost alone; one that connects a socket for each player gains by it.",
    risk: "connected sockets pay for a route with each packet",
    shows_in: "CPU time of softirq a packet; no counter",
    kernels: "not 4.4; 5.10 and newer have it",
    sources: &[Source {
        title: "Linux Documentation/networking/ip-sysctl.rst, udp_early_demux",
        says: "for connected sockets; turn it off if more load comes by unconnected ones; default 1",
    }],
    extras: Extras {
        counter: Some(Counter::UdpDatagrams),
        // A look-up of every packet, in under a microsecond.
        effect: Some(Effect::Small),
        worth_a_trial: &["0", "1"],
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
        "0" => "no early look-up: right for unconnected sockets; connected ones pay for a route with each packet"
            .to_owned(),
        "1" => format!(
            "right for connected sockets; if all packets come by one unconnected socket, `evenkeel prove {}=0` tells what \
             the look-up costs",
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
                  keep /proc/sys/net/ipv4/udp_early_demux "1": right for connected sockets; if all packets come by one unconnected socket, `evenkeel prove net.ipv4.udp_early_demux=0` tells what the look-up costs
                off (latency)
                  keep /proc/sys/net/ipv4/udp_early_demux "0": no early look-up: right for unconnected sockets; connected ones pay for a route with each packet
                odd (latency)
                  unknown /proc/sys/net/ipv4/udp_early_demux: the value in force is neither 0 nor 1: "2"
                Linux 4.4 (latency)
                  not-here /proc/sys/net/ipv4/udp_early_demux: not found here: no such file or directory (ENOENT)
            "#]],
        );
    }
}
