//! CPUs kept apart at runtime: what isolcpus= does at boot and can't undo.

use crate::extras::Extras;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::usable_cpus;

const PLACE: &str = "cgroup.cpuset_partition";

pub(super) const KNOB: Knob = Knob {
    id: "cgroup.cpuset_partition",
    title: "CPUs kept apart without a reboot",
    area: Area::Process,
    place: Place::ByHand {
        how: "in the server's control group, which has the CPUs in cpuset.cpus: write {} to cpuset.cpus.partition",
    },
    values: Values::Words(&["isolated", "root", "member"]),
    default: "member",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A control group that is a partition has its CPUs to itself: nobody else's threads run there. isolated also takes \
                them out of load balancing, as isolcpus= does, but can be undone. Threads in an isolated partition stay where \
                they are put: a server with several has to pin each, or they pile up on one CPU. root keeps balancing among its \
                CPUs, and suits a server with many threads.",
    risk: "threads of an unpinned server pile up on one CPU of an isolated partition",
    shows_in: "cpuset.cpus.partition reads the word back, with invalid behind it where it could not be had",
    kernels: "6.1 on, with version 2 of control groups; isolcpus= before",
    sources: &[Source {
        title: "Linux Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition",
        says: "the words, what makes a partition invalid, and that isolated is not balanced",
    }],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    vec![match (usable_cpus(facts), facts.kernel.is_at_least(6, 1)) {
        (_, Some(false)) => Finding::not_here(PLACE, "this kernel is older than 6.1, which isolates CPUs only at boot"),
        (None, _) => Finding::unknown(PLACE, "how many CPUs there are", &facts.cpus.online),
        (_, None) => Finding::unknown(PLACE, "the kernel's version", &facts.kernel.version),
        (Some(..4), _) => Finding::not_here(PLACE, "fewer than 4 CPUs leave none to keep apart"),
        _ if context.goal != Goal::Latency => {
            Finding::keep(PLACE, format!("CPUs that others may not use stand idle, against the goal {}", context.goal))
        }
        _ => Finding::keep(
            PLACE,
            "a pinned server can have CPUs to itself without a reboot: root for many threads, isolated where each is pinned",
        ),
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, with_cpus, with_kernel};

    #[test]
    fn it_takes_cpus_to_spare() {
        check(
            &KNOB,
            &[
                ("4 CPUs", Goal::Latency, &|_| {}),
                ("4 CPUs", Goal::Density, &|_| {}),
                ("2 CPUs", Goal::Latency, &with_cpus(2)),
                ("old kernel", Goal::Latency, &with_kernel(5, 15)),
                ("version unknown", Goal::Latency, &|facts| facts.kernel.version = Fact::absent("no uname")),
                ("CPUs unknown", Goal::Latency, &|facts| facts.cpus.online = Fact::absent("no list")),
            ],
            expect![[r#"
                4 CPUs (latency)
                  keep cgroup.cpuset_partition: a pinned server can have CPUs to itself without a reboot: root for many threads, isolated where each is pinned
                4 CPUs (density)
                  keep cgroup.cpuset_partition: CPUs that others may not use stand idle, against the goal density
                2 CPUs (latency)
                  not-here cgroup.cpuset_partition: fewer than 4 CPUs leave none to keep apart
                old kernel (latency)
                  not-here cgroup.cpuset_partition: this kernel is older than 6.1, which isolates CPUs only at boot
                version unknown (latency)
                  unknown cgroup.cpuset_partition: the kernel's version is not known: no uname
                CPUs unknown (latency)
                  unknown cgroup.cpuset_partition: how many CPUs there are is not known: no list
            "#]],
        );
    }
}
