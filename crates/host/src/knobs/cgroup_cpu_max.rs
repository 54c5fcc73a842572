//! Whether a control group stops the server when it has used its CPU quota.

use crate::extras::{Extras, Lasts, ServerUnit};
use crate::fact::Fact;
use crate::facts::{CpuLimit, Facts};
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

pub(super) const KNOB: Knob = Knob {
    id: "cgroup.cpu_max",
    title: "the limit on the server's CPU time",
    area: Area::Process,
    place: Place::ByHand {
        how: "write {} to cpu.max of the server's control group (systemd: an empty CPUQuota=; Kubernetes: no CPU limit, or whole CPUs by the static CPU manager)",
    },
    values: Values::Words(&["max"]),
    default: "max (no limit)",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A control group with a limit may use its quota of CPU time in each period. When the quota is used up, the \
        kernel stops all its threads until the next period, even in the middle of a tick. With 50 ms of each 100 ms, \
        the stop lasts up to 50 ms. cpu.max.burst lets the group save unused time, so a single longer tick is not \
        stopped.",
    risk: "without a limit, a runaway server takes all CPUs of the machine",
    shows_in: "nr_throttled and throttled_usec in cpu.stat of the group",
    kernels: "cpu.max with control groups 2, cpu.cfs_quota_us with 1; cpu.max.burst since 5.14",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/cgroup-v2.rst",
            says: "cpu.max, cpu.max.burst, nr_throttled in cpu.stat",
        },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "a limit of 20 of 50 ms shows as gaps of 29.6 ms",
        },
    ],
    extras: Extras {
        lasts: Some(Lasts::ServerUnit(ServerUnit {
            lines: |max| (max == "max").then(|| "CPUQuota=\n".to_owned()),
            ..ServerUnit::NONE
        })),
        called: &["systemd CPUQuota"],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    match &facts.limits.cpu {
        Fact::Known(CpuLimit::Unlimited) => {
            Ok(Finding::keep(KNOB.id, "no control group above evenkeel limits CPU time").at("max"))
        }
        Fact::Known(CpuLimit::Quota { quota_us, period_us }) => {
            let wait_us = period_us.saturating_sub(*quota_us);
            let stall = match wait_us {
                0 => "when the quota is used up, all threads stop for the rest of the period".to_owned(),
                _ => format!(
                    "one thread that uses up the quota stops for up to {wait_us} us, several threads for longer"
                ),
            };
            let reason = format!(
                "the group gets {quota_us} us of each {period_us} us: {stall}; if you need a limit, cpu.max.burst \
                    helps single long ticks"
            );
            Ok(Finding::set(KNOB.id, "max", reason).at(format!("{quota_us} {period_us}")))
        }
        Fact::Absent { .. } => Ok(Finding::not_here(KNOB.id, "no control group limits CPU time here")),
        unknown => Err(Finding::unknown(KNOB.id, "the limit on CPU time", unknown)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn a_limit_cuts_ticks() {
        check(
            &KNOB,
            &[
                ("none", Goal::Latency, &|_| {}),
                ("half a CPU", Goal::Latency, &limited(50_000, 100_000)),
                ("two CPUs", Goal::Density, &limited(200_000, 100_000)),
                ("denied", Goal::Latency, &|facts| facts.limits.cpu = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                none (latency)
                  keep cgroup.cpu_max "max": no control group above evenkeel limits CPU time
                half a CPU (latency)
                  set cgroup.cpu_max "50000 100000" -> "max": the group gets 50000 us of each 100000 us: one thread that uses up the quota stops for up to 50000 us, several threads for longer; if you need a limit, cpu.max.burst helps single long ticks
                two CPUs (density)
                  set cgroup.cpu_max "200000 100000" -> "max": the group gets 200000 us of each 100000 us: when the quota is used up, all threads stop for the rest of the period; if you need a limit, cpu.max.burst helps single long ticks
                denied (latency)
                  unknown cgroup.cpu_max: the limit on CPU time is not known: EACCES
            "#]],
        );
    }

    fn limited(quota_us: u64, period_us: u64) -> impl Fn(&mut Facts) {
        move |facts| facts.limits.cpu = Fact::Known(CpuLimit::Quota { quota_us, period_us })
    }
}
