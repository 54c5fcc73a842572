//! Unused CPU time that a limited control group may save for a busy period.

use crate::extras::Extras;
use crate::fact::Fact;
use crate::facts::CpuLimit;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

const PLACE: &str = "cgroup.cpu_max_burst_us";

pub(super) const KNOB: Knob = Knob {
    id: "cgroup.cpu_max_burst_us",
    title: "unused CPU time that a limited group may save",
    area: Area::Process,
    place: Place::ByHand { how: "write {} to cpu.max.burst of the server's control group" },
    values: Values::Number { min: 0, max: 1_000_000_000, unit: "us" },
    default: "0",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Under cpu.max, a group that has used its quota stops until the period ends, with all its threads. With a burst \
        it saves up to this much unused quota in quiet periods and spends it in a busy one. A tick with more work is \
        then not stopped. The limit still holds on average. No limit at all (cgroup.cpu_max) is better still.",
    risk: "neighbors in the same machine see bursts above the limit, of at most the quota itself",
    shows_in: "nr_bursts, burst_usec and nr_throttled in cpu.stat of the group",
    kernels: "verified in 6.1 and later (5.14 from memory), with control groups version 2",
    sources: &[Source {
        title: "Linux Documentation/admin-guide/cgroup-v2.rst, cpu.max.burst",
        says: "the burst in the range from 0 to the quota",
    }],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    vec![match &facts.limits.cpu {
        Fact::Known(CpuLimit::Unlimited) => Finding::not_here(PLACE, "no limit applies, so there is no quota to save"),
        Fact::Known(CpuLimit::Quota { quota_us, period_us }) => Finding::keep(
            PLACE,
            format!(
                "the limit is {quota_us} us in each {period_us} us: without a limit no tick is stopped \
                    (cgroup.cpu_max); if the limit must stay, a burst of up to {quota_us} us helps"
            ),
        ),
        Fact::Absent { .. } => Finding::not_here(PLACE, "no control group limits CPU time here"),
        unknown => Finding::unknown(PLACE, "how the control group is limited", unknown),
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn a_limit_may_be_softened() {
        let quota = CpuLimit::Quota { quota_us: 50_000, period_us: 100_000 };
        check(
            &KNOB,
            &[
                ("no limit", Goal::Latency, &|_| {}),
                ("half a CPU", Goal::Latency, &|facts| facts.limits.cpu = Fact::Known(quota)),
                ("no group", Goal::Latency, &|facts| facts.limits.cpu = Fact::absent("no group")),
                ("unknown", Goal::Latency, &|facts| facts.limits.cpu = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                no limit (latency)
                  not-here cgroup.cpu_max_burst_us: no limit applies, so there is no quota to save
                half a CPU (latency)
                  keep cgroup.cpu_max_burst_us: the limit is 50000 us in each 100000 us: without a limit no tick is stopped (cgroup.cpu_max); if the limit must stay, a burst of up to 50000 us helps
                no group (latency)
                  not-here cgroup.cpu_max_burst_us: no control group limits CPU time here
                unknown (latency)
                  unknown cgroup.cpu_max_burst_us: how the control group is limited is not known: EACCES
            "#]],
        );
    }
}
