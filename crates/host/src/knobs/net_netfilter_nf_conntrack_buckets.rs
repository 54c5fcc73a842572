//! In how many buckets connection tracking looks for a flow.

use crate::extras::{Counter, Extras, Program};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/netfilter/nf_conntrack_buckets";

pub(super) const KNOB: Knob = Knob {
    id: "net.netfilter.nf_conntrack_buckets",
    title: "buckets of the table of flows",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: i32::MAX as i64, unit: "buckets" },
    default: "computed from memory",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Entries of connection tracking hang in buckets, and each packet searches one. With as many buckets as entries a search takes a step or two; \
                a table whose nf_conntrack_max was raised alone takes more the fuller it is. It is also the module's parameter \
                hashsize, which a line in /etc/modprobe.d sets before the module is loaded.",
    risk: "memory for each bucket; the table is built anew while packets wait",
    shows_in: "nf_conntrack_max beside it; searched of /proc/net/stat/nf_conntrack",
    kernels: "all that have the nf_conntrack module loaded; writable outside containers only",
    sources: &[Source {
        title: "Linux Documentation/networking/nf_conntrack-sysctl.rst",
        says: "size of the hash table, and how nf_conntrack_max follows from it",
    }],
    extras: Extras { counter: Some(Counter::TrackedConnections), set_by: &[Program::ContainerNetwork], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    if let Fact::Absent { why } = facts.sysctl(PATH) {
        return Ok(Finding::not_here(PATH, format!("no connection tracking is found, so there is no table: {why}")));
    }
    let buckets = own_number(facts, PATH)?;
    let most = own_number(facts, "/proc/sys/net/netfilter/nf_conntrack_max")?;
    let finding = if buckets < 1 || most / buckets <= 4 {
        Finding::keep(PATH, format!("{buckets} buckets for {most} flows: a search takes a few steps"))
    } else {
        // Four flows a bucket is what older kernels have by default; newer ones have one.
        let wanted = (most / 4).clamp(buckets + 1, i64::from(i32::MAX));
        let reason = format!(
            "{buckets} buckets for {most} flows: in a full table each packet goes through {} entries",
            most / buckets
        );
        Finding::set(PATH, wanted, reason)
    };
    Ok(finding.at(buckets))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn buckets_follow_the_most_flows() {
        let table = |buckets: &'static str, most: &'static str| {
            move |facts: &mut Facts| {
                with_sysctl(PATH, buckets)(facts);
                with_sysctl("/proc/sys/net/netfilter/nf_conntrack_max", most)(facts);
            }
        };
        check(
            &KNOB,
            &[
                ("no firewall", Goal::Latency, &|_| {}),
                ("as computed", Goal::Latency, &table("65536", "262144")),
                ("raised alone", Goal::Latency, &table("65536", "2097152")),
                ("nonsense", Goal::Latency, &table("0", "-1")),
            ],
            expect![[r#"
                no firewall (latency)
                  not-here /proc/sys/net/netfilter/nf_conntrack_buckets: no connection tracking is found, so there is no table: /proc/sys/net/netfilter/nf_conntrack_buckets is not among the facts
                as computed (latency)
                  keep /proc/sys/net/netfilter/nf_conntrack_buckets "65536": 65536 buckets for 262144 flows: a search takes a few steps
                raised alone (latency)
                  set /proc/sys/net/netfilter/nf_conntrack_buckets "65536" -> "524288": 65536 buckets for 2097152 flows: in a full table each packet goes through 32 entries
                nonsense (latency)
                  keep /proc/sys/net/netfilter/nf_conntrack_buckets "0": 0 buckets for -1 flows: a search takes a few steps
            "#]],
        );
    }
}
