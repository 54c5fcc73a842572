//! The queue in which packets wait before the device of a new interface takes them.

use crate::extras::{Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/core/default_qdisc";

pub(super) const KNOB: Knob = Knob {
    id: "net.core.default_qdisc",
    title: "queueing discipline of new interfaces",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Name,
    default: "pfifo_fast, unless the kernel was built with another; Ubuntu sets fq_codel",
    takes_effect: TakesEffect::NewInterfaces,
    mechanism: "A tick sends a burst: one packet to each player at once. Packets that the device cannot take yet wait in the \
        queueing discipline. pfifo_fast is a plain queue. fq_codel has a queue for each flow and drops packets that \
        waited too long. fq has a queue for each flow and sends at the times that SO_TXTIME or pacing requests. The \
        kernel applies the setting when an interface comes up. An interface that is up keeps its discipline until `tc \
        qdisc replace`. An interface with several queues has the discipline mq, and one of these on each queue.",
    risk: "fq and fq_codel need their module, and drop or delay packets by their own rules",
    shows_in: "`tc -s qdisc`: dropped, overlimits, backlog",
    kernels: "all since 3.12",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/net.rst, default_qdisc",
            says: "the discipline of network devices; some virtual ones have none; default pfifo_fast",
        },
        Source { title: "Linux net/sched/sch_generic.c, attach_default_qdiscs", says: "used when a device comes up" },
    ],
    extras: Extras { risk_at: RiskAt::Values(&["fq", "fq_codel"]), ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own(PATH, &facts.sysctl(PATH))?;
    let reason = match current.as_str() {
        "pfifo_fast" => "a plain queue: a tick's burst leaves in the order it was sent",
        "fq_codel" => {
            "a queue for each flow, and drops of packets that waited too long: a burst to many players is many flows"
        }
        "fq" => "a queue for each flow; it also supports SO_TXTIME and pacing",
        _ => "no source speaks against it",
    };
    let reason =
        format!("{reason}; no source says which one suits a game server: compare them with `tc qdisc replace`");
    Ok(Finding::keep(PATH, reason).at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn no_discipline_is_preferred_without_proof() {
        check(
            &KNOB,
            &[
                ("Debian", Goal::Latency, &|_| {}),
                ("Ubuntu", Goal::Latency, &with_sysctl(PATH, "fq_codel")),
                ("paced", Goal::Throughput, &with_sysctl(PATH, "fq")),
                ("another", Goal::Latency, &with_sysctl(PATH, "cake")),
                ("a namespace of its own", Goal::Latency, &|facts| {
                    facts.sysctls.insert(PATH, Fact::absent("no such file or directory (ENOENT)"));
                }),
            ],
            expect![[r#"
                Debian (latency)
                  keep /proc/sys/net/core/default_qdisc "pfifo_fast": a plain queue: a tick's burst leaves in the order it was sent; no source says which one suits a game server: compare them with `tc qdisc replace`
                Ubuntu (latency)
                  keep /proc/sys/net/core/default_qdisc "fq_codel": a queue for each flow, and drops of packets that waited too long: a burst to many players is many flows; no source says which one suits a game server: compare them with `tc qdisc replace`
                paced (throughput)
                  keep /proc/sys/net/core/default_qdisc "fq": a queue for each flow; it also supports SO_TXTIME and pacing; no source says which one suits a game server: compare them with `tc qdisc replace`
                another (latency)
                  keep /proc/sys/net/core/default_qdisc "cake": no source speaks against it; no source says which one suits a game server: compare them with `tc qdisc replace`
                a namespace of its own (latency)
                  not-here /proc/sys/net/core/default_qdisc: not present here: no such file or directory (ENOENT)
            "#]],
        );
    }
}
