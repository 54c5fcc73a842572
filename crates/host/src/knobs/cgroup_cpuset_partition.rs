//! CPUs that are reserved at runtime. Unlike a reservation by isolcpus= at boot, this can be undone.

use crate::extras::Extras;
use crate::facts::Facts;
use crate::finding::{Against, Finding};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::usable_cpus;

const PLACE: &str = "cgroup.cpuset_partition";

/// The values that reserve CPUs.
const RESERVED: &[&str] = &["isolated", "root"];

pub(super) const KNOB: Knob = Knob {
    id: "cgroup.cpuset_partition",
    title: "CPUs reserved for a group without a reboot",
    area: Area::Process,
    place: Place::ByHand {
        how: "in the server's control group, which has the CPUs in cpuset.cpus: write {} to cpuset.cpus.partition",
    },
    values: Values::Words(&["isolated", "root", "member"]),
    default: "member",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A control group that is a partition has its CPUs to itself: no other group's threads run there. isolated also \
        takes them out of load balancing, like isolcpus=, but you can undo it. Threads in an isolated partition stay \
        where they are put. A server with several threads must pin each of them, or they all share one CPU. root keeps \
        load balancing among its CPUs, so it suits a server with many threads.",
    risk: "the threads of a server that does not pin them share one CPU of an isolated partition",
    shows_in: "cpuset.cpus.partition shows the word, followed by invalid if the kernel could not make the partition",
    kernels: "6.1 and later, with control groups version 2; use isolcpus= before",
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
        (Some(..4), _) => Finding::not_here(PLACE, "with fewer than 4 CPUs there is none to reserve")
            .against(Against::Values(&RESERVED)),
        _ if context.goal != Goal::Latency => {
            Finding::keep(PLACE, format!("reserved CPUs are idle at times, against the goal {}", context.goal))
        }
        _ => Finding::keep(
            PLACE,
            "a pinned server can reserve CPUs without a reboot: use root for many threads, isolated if each \
                thread is pinned",
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
                  keep cgroup.cpuset_partition: a pinned server can reserve CPUs without a reboot: use root for many threads, isolated if each thread is pinned
                4 CPUs (density)
                  keep cgroup.cpuset_partition: reserved CPUs are idle at times, against the goal density
                2 CPUs (latency)
                  not-here cgroup.cpuset_partition: with fewer than 4 CPUs there is none to reserve
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
