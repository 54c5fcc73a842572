//! CPU time that a limited control group may save up for a busy moment.

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
    title: "CPU time saved up under a limit",
    area: Area::Process,
    place: Place::ByHand { how: "write {} to cpu.max.burst of the server's control group" },
    values: Values::Number { min: 0, max: 1_000_000_000, unit: "us" },
    default: "0",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Under cpu.max a group that has used up its quota stands still until the period ends, all its threads at once. What it \
                leaves of its quota in quiet periods it may save up to this much, and use on top in a busy one, so that a tick with \
                much to do is not cut off. On average the limit holds. No limit at all (cgroup.cpu_max) is better still.",
    risk: "neighbours in the same machine see bursts above the limit; at most the quota itself is taken",
    shows_in: "nr_bursts, burst_usec and nr_throttled in cpu.stat of the group",
    kernels: "6.1 on surely (5.14, from memory), with version 2 of control groups",
    sources: &[Source {
        title: "Linux Documentation/admin-guide/cgroup-v2.rst, cpu.max.burst",
        says: "the burst in the range from 0 to the quota",
    }],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    vec![match &facts.limits.cpu {
        Fact::Known(CpuLimit::Unlimited) => {
            Finding::not_here(PLACE, "no limit holds CPU time back: there is nothing to save up")
        }
        Fact::Known(CpuLimit::Quota { quota_us, period_us }) => Finding::keep(
            PLACE,
            format!(
                "the limit is {quota_us} us in each {period_us} us: without any limit no tick is cut off (cgroup.cpu_max); where it \
                 has to stay, a burst of up to {quota_us} us softens it"
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
                  not-here cgroup.cpu_max_burst_us: no limit holds CPU time back: there is nothing to save up
                half a CPU (latency)
                  keep cgroup.cpu_max_burst_us: the limit is 50000 us in each 100000 us: without any limit no tick is cut off (cgroup.cpu_max); where it has to stay, a burst of up to 50000 us softens it
                no group (latency)
                  not-here cgroup.cpu_max_burst_us: no control group limits CPU time here
                unknown (latency)
                  unknown cgroup.cpu_max_burst_us: how the control group is limited is not known: EACCES
            "#]],
        );
    }
}
