//! The scheduling class of the server's threads.

use crate::extras::{Extras, Lasts, Owner, Process, ProcessFiles, ProcessValue, RiskAt, ServerUnit};
use crate::facts::Facts;
use crate::finding::{Against, Finding};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::{one, usable_cpus};
use evenkeel_hostfs::proc::parse_process;

/// The place of a manual step is the knob itself.
const PLACE: &str = "process.sched_policy";

const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// The policies of real-time threads.
const REAL_TIME: &[&str] = &["fifo", "rr"];

pub(super) const KNOB: Knob = Knob {
    id: "process.sched_policy",
    title: "the scheduling policy of the server's threads",
    area: Area::Process,
    place: Place::ByHand { how: "start the server under chrt, or with CPUSchedulingPolicy={} in its systemd unit" },
    values: Values::Words(&["other", "fifo", "rr"]),
    default: "other",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "A real-time thread (fifo, rr) runs as soon as it wakes, whatever normal threads do, until it sleeps. That \
        gives the steadiest ticks on a CPU that other programs also use. But a loop that never sleeps takes its CPU, \
        limited only by kernel.sched_rt_runtime_us. It needs CAP_SYS_NICE or RLIMIT_RTPRIO.",
    risk: "an endless loop takes its CPU from everything else, even from the login",
    shows_in: "the lateness of the server's ticks while other work runs",
    kernels: "all",
    sources: &[
        Source { title: "sched(7)", says: "the classes, and the privileges that they need" },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "with a busy neighbor, ticks more than 1 ms late: 28.5 % by default, 2.0 % with a slice of 0.1 ms, \
                0.0 % with SCHED_FIFO",
        },
    ],
    extras: Extras {
        process: Some(Process { of: Owner::Server, while_it_runs: true, has: Some(has), reset_by: None }),
        lasts: Some(Lasts::ServerUnit(ServerUnit { lines: unit_lines, ..ServerUnit::NONE })),
        risk_at: RiskAt::Values(&["fifo", "rr"]),
        called: &["chrt", "systemd CPUSchedulingPolicy"],
        ..Extras::NONE
    },
    advise,
};

fn unit_lines(policy: &str) -> Option<String> {
    // The lowest priority is enough to preempt every normal thread. Higher priorities stay free for threads that must preempt the server.
    let priority = if policy == "other" { "" } else { "CPUSchedulingPriority=1\n" };
    Some(format!("CPUSchedulingPolicy={policy}\n{priority}"))
}

fn has(file: ProcessFiles<'_>, wanted: &str) -> Option<ProcessValue> {
    let stat = file("stat")?;
    let (stat, _) = parse_process(&stat)?;
    let number = match wanted {
        "fifo" => 1,
        "rr" => 2,
        _ => 0,
    };
    let policy = stat.policy?;
    Some(ProcessValue::new(policy == number, format!("policy {policy}")))
}

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    if goal != Goal::Latency {
        return Ok(Finding::keep(
            PLACE,
            format!("a real-time thread takes its CPU from other threads, against the goal {goal}"),
        ));
    }
    let Some(count) = usable_cpus(facts) else {
        return Err(Finding::unknown(PLACE, "how many CPUs there are", &facts.cpus.online));
    };
    if count <= 1 {
        let finding = Finding::not_here(PLACE, "1 CPU: a real-time thread would take the only CPU");
        return Ok(finding.against(Against::Values(&REAL_TIME)));
    }
    let guard = facts.sysctl(RUNTIME);
    if guard.known().is_some_and(|runtime| runtime == "-1") {
        return Ok(Finding::not_here(
            PLACE,
            "kernel.sched_rt_runtime_us is -1: the kernel would never stop an endless loop",
        )
        .against(Against::Values(&REAL_TIME)));
    }
    Ok(match (facts.kernel.is_at_least(6, 12), guard.known()) {
        (Some(true), _) => Finding::keep(
            PLACE,
            "a short slice (process.sched_slice_ns) is nearly as good, without privileges or danger: measured on \
                6.18, 2.0 % of ticks were more than 1 ms late, 0.0 % with fifo",
        ),
        (Some(false), Some(runtime)) => Finding::set(
            PLACE,
            "fifo",
            format!(
                "a tick preempts normal threads immediately; this kernel has no per-thread slices, and it stops \
                    loops after {runtime} us of each period"
            ),
        ),
        (Some(false), None) => Finding::unknown(PLACE, "the limit for endless loops", &guard),
        (None, _) => Finding::unknown(PLACE, "the kernel's version", &facts.kernel.version),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_cpus, with_kernel, with_sysctl};

    #[test]
    fn real_time_needs_its_guard() {
        check(
            &KNOB,
            &[
                ("6.12", Goal::Latency, &|_| {}),
                ("6.1", Goal::Latency, &|facts| {
                    with_kernel(6, 1)(facts);
                    with_sysctl(RUNTIME, "950000")(facts);
                }),
                ("6.1", Goal::Density, &with_kernel(6, 1)),
                ("guard lifted", Goal::Latency, &with_sysctl(RUNTIME, "-1")),
                ("guard unknown", Goal::Latency, &with_kernel(6, 1)),
                ("1 CPU", Goal::Latency, &with_cpus(1)),
            ],
            expect![[r#"
                6.12 (latency)
                  keep process.sched_policy: a short slice (process.sched_slice_ns) is nearly as good, without privileges or danger: measured on 6.18, 2.0 % of ticks were more than 1 ms late, 0.0 % with fifo
                6.1 (latency)
                  set process.sched_policy ? -> "fifo": a tick preempts normal threads immediately; this kernel has no per-thread slices, and it stops loops after 950000 us of each period
                6.1 (density)
                  keep process.sched_policy: a real-time thread takes its CPU from other threads, against the goal density
                guard lifted (latency)
                  not-here process.sched_policy: kernel.sched_rt_runtime_us is -1: the kernel would never stop an endless loop
                guard unknown (latency)
                  unknown process.sched_policy: the limit for endless loops is not known: the facts do not include /proc/sys/kernel/sched_rt_runtime_us
                1 CPU (latency)
                  not-here process.sched_policy: 1 CPU: a real-time thread would take the only CPU
            "#]],
        );
    }
}
