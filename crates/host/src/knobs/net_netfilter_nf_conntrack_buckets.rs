//! The number of buckets in which connection tracking searches for flows.

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
    title: "hash buckets of the connection tracking table",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: i32::MAX as i64, unit: "buckets" },
    default: "computed from memory",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Connection tracking stores its entries in buckets, and each packet searches one bucket. With as many buckets \
        as entries, a search takes one or two steps. If you raise only nf_conntrack_max, searches take more steps as \
        the table fills. The module's parameter hashsize sets the same number; a line in /etc/modprobe.d sets it \
        before the module loads.",
    risk: "memory for each bucket; packets wait while the kernel rebuilds the table",
    shows_in: "compare with nf_conntrack_max; searched in /proc/net/stat/nf_conntrack",
    kernels: "all that have the nf_conntrack module loaded; writable outside containers only",
    sources: &[Source {
        title: "Linux Documentation/networking/nf_conntrack-sysctl.rst",
        says: "size of the hash table, and how nf_conntrack_max follows from it",
    }],
    extras: Extras {
        counter: Some(Counter::TrackedConnections),
        set_by: &[Program::ContainerNetwork],
        called: &["tuned net nf_conntrack_hashsize"],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    if let Fact::Absent { why } = facts.sysctl(PATH) {
        return Ok(Finding::not_here(PATH, format!("connection tracking is not loaded, so there is no table: {why}")));
    }
    let buckets = own_number(facts, PATH)?;
    let most = own_number(facts, "/proc/sys/net/netfilter/nf_conntrack_max")?;
    let finding = if buckets < 1 || most / buckets <= 4 {
        Finding::keep(PATH, format!("{buckets} buckets for {most} flows: a search takes a few steps"))
    } else {
        // Older kernels have four flows per bucket by default. Newer kernels have one flow per bucket.
        let wanted = (most / 4).clamp(buckets + 1, i64::from(i32::MAX));
        let reason = format!(
            "{buckets} buckets for {most} flows: in a full table each packet searches {} entries",
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
                  not-here /proc/sys/net/netfilter/nf_conntrack_buckets: connection tracking is not loaded, so there is no table: the facts do not include /proc/sys/net/netfilter/nf_conntrack_buckets
                as computed (latency)
                  keep /proc/sys/net/netfilter/nf_conntrack_buckets "65536": 65536 buckets for 262144 flows: a search takes a few steps
                raised alone (latency)
                  set /proc/sys/net/netfilter/nf_conntrack_buckets "65536" -> "524288": 65536 buckets for 2097152 flows: in a full table each packet searches 32 entries
                nonsense (latency)
                  keep /proc/sys/net/netfilter/nf_conntrack_buckets "0": 0 buckets for -1 flows: a search takes a few steps
            "#]],
        );
    }
}
