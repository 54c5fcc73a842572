//! How long connection tracking remembers an unanswered UDP sender.

use crate::extras::{Counter, Extras, Program, RiskAt};
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
    title: "how long a one-way UDP flow stays tracked",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: 86_400, unit: "s" },
    default: "30",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Connection tracking drops a UDP flow that only one side has used after this many seconds. Forged addresses of \
        a flood are such flows, so a shorter time empties the table sooner. Players whom the server answers fall under \
        nf_conntrack_udp_timeout_stream. NOTRACK for the game's ports keeps all of them out.",
    risk: "a firewall that accepts replies by state forgets the requests sooner",
    shows_in: "nf_conntrack_count during a flood",
    kernels: "all that have the nf_conntrack module loaded; writable outside containers only",
    sources: &[Source {
        title: "Linux Documentation/networking/nf_conntrack-sysctl.rst",
        says: "seconds; streams have their own timeout",
    }],
    extras: Extras {
        counter: Some(Counter::TrackedConnections),
        set_by: &[Program::ContainerNetwork],
        risk_at: RiskAt::Lower,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    if let Fact::Absent { why } = facts.sysctl(PATH) {
        return Ok(Finding::not_here(PATH, format!("connection tracking is not loaded, so it keeps no flows: {why}")));
    }
    let seconds = own_number(facts, PATH)?;
    let reason = format!(
        "an unanswered sender stays tracked for {seconds} s; against a flood of forged senders use NOTRACK for \
            the game's ports"
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
    fn it_applies_where_flows_are_tracked() {
        check(
            &KNOB,
            &[("no firewall", Goal::Latency, &|_| {}), ("default", Goal::Latency, &with_sysctl(PATH, "30"))],
            expect![[r#"
                no firewall (latency)
                  not-here /proc/sys/net/netfilter/nf_conntrack_udp_timeout: connection tracking is not loaded, so it keeps no flows: the facts do not include /proc/sys/net/netfilter/nf_conntrack_udp_timeout
                default (latency)
                  keep /proc/sys/net/netfilter/nf_conntrack_udp_timeout "30": an unanswered sender stays tracked for 30 s; against a flood of forged senders use NOTRACK for the game's ports
            "#]],
        );
    }
}
