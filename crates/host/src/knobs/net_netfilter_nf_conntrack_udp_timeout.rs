//! How long connection tracking remembers a UDP sender whom nobody answered.

use crate::extras::{Counter, Extras, Program};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout";

pub(super) const KNOB: Knob = Knob {
    id: "net.netfilter.nf_conntrack_udp_timeout",
    title: "how long a one-sided UDP flow is kept",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: 86_400, unit: "s" },
    default: "30",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A UDP flow that only one side has used is dropped from connection tracking after so many seconds. Forged addresses of a flood are such \
                flows, and a shorter time empties the table sooner. Players who are answered fall under \
                nf_conntrack_udp_timeout_stream. NOTRACK for the game's ports keeps all of them out.",
    risk: "a firewall that lets answers in by state forgets sooner who asked",
    shows_in: "nf_conntrack_count beside it during a flood",
    kernels: "all that have the nf_conntrack module loaded; writable outside containers only",
    sources: &[Source {
        title: "Linux Documentation/networking/nf_conntrack-sysctl.rst",
        says: "seconds; streams have a timeout of their own",
    }],
    extras: Extras { counter: Some(Counter::TrackedConnections), set_by: &[Program::ContainerNetwork], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    if let Fact::Absent { why } = facts.sysctl(PATH) {
        return Ok(Finding::not_here(PATH, format!("no connection tracking is found, so it keeps no flow: {why}")));
    }
    let seconds = own_number(facts, PATH)?;
    let reason = format!(
        "a sender whom nobody answered is kept {seconds} s; a flood of forged ones is better kept out by NOTRACK for the game's ports"
    );
    Ok(Finding::keep(PATH, reason).at(seconds))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn it_is_told_where_flows_are_tracked() {
        check(
            &KNOB,
            &[("no firewall", Goal::Latency, &|_| {}), ("default", Goal::Latency, &with_sysctl(PATH, "30"))],
            expect![[r#"
                no firewall (latency)
                  not-here /proc/sys/net/netfilter/nf_conntrack_udp_timeout: no connection tracking is found, so it keeps no flow: /proc/sys/net/netfilter/nf_conntrack_udp_timeout is not among the facts
                default (latency)
                  keep /proc/sys/net/netfilter/nf_conntrack_udp_timeout "30": a sender whom nobody answered is kept 30 s; a flood of forged ones is better kept out by NOTRACK for the game's ports
            "#]],
        );
    }
}
