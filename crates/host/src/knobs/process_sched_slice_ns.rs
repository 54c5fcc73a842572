//! The slice of CPU time that the server's threads request. With a shorter slice, the threads start sooner.

use crate::extras::{Extras, Lasts, Owner, Process, ServerUnit, UnitLimit};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

/// The place of a manual step is the knob itself.
const PLACE: &str = "process.sched_slice_ns";

/// The shortest slice that the kernel accepts.
const WANTED_NS: u32 = 100_000;

pub(super) const KNOB: Knob = Knob {
    id: "process.sched_slice_ns",
    title: "the scheduling slice that the server's threads request",
    area: Area::Process,
    place: Place::ByHand { how: "the server sets it in each thread: sched_setattr with sched_runtime={}" },
    values: Values::Number { min: 100_000, max: 100_000_000, unit: "ns" },
    default: "the value of sched.min_granularity_ns",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "A thread of the normal class may request the length of its time slices (sched_setattr, sched_runtime). With a \
        short slice it runs sooner after it wakes, but it is switched more often while it competes. Its share of CPU \
        time stays the same. It needs no privileges, and threads inherit it.",
    risk: "more switches while the server competes for its CPU with long-running work",
    shows_in: "the lateness of the server's ticks while other work runs; se.slice in /proc/PID/sched",
    kernels: "since Linux 6.12; older kernels ignore it",
    sources: &[
        Source {
            title: "Linux kernel/sched/syscalls.c, 6.12",
            says: "sched_runtime of normal threads, within 0.1 to 100 ms",
        },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "with a busy neighbor, ticks more than 1 ms late fall from 28.5 % to 2.0 % with a slice of 0.1 ms; \
                SCHED_FIFO has 0.0 %",
        },
    ],
    extras: Extras {
        process: Some(Process { of: Owner::Server, while_it_runs: true, has: None, reset_by: None }),
        lasts: Some(Lasts::ServerUnit(ServerUnit {
            lines: |_| None,
            without_lines: Some(UnitLimit {
                why: "systemd has no key for it, and the kernel keeps it for each thread",
                todo: None,
            }),
            ..ServerUnit::NONE
        })),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    match facts.kernel.is_at_least(6, 12) {
        None => return Err(Finding::unknown(PLACE, "the kernel's version", &facts.kernel.version)),
        Some(false) => return Ok(Finding::not_here(PLACE, "the kernel supports it only since Linux 6.12")),
        Some(true) => {}
    }
    Ok(match goal {
        Goal::Latency => Finding::set(
            PLACE,
            WANTED_NS,
            "a tick then starts sooner while other work runs: measured on 6.18, 2.0 % of ticks were more than 1 \
                ms late instead of 28.5 %",
        ),
        Goal::Throughput | Goal::Density => {
            Finding::keep(PLACE, format!("short slices cost switches, against the goal {goal}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, with_kernel};

    #[test]
    fn ticks_ask_for_short_slices() {
        check(
            &KNOB,
            &[
                ("6.12", Goal::Latency, &|_| {}),
                ("6.12", Goal::Throughput, &|_| {}),
                ("6.6", Goal::Latency, &with_kernel(6, 6)),
                ("unknown", Goal::Latency, &|facts| facts.kernel.version = Fact::absent("no release")),
            ],
            expect![[r#"
                6.12 (latency)
                  set process.sched_slice_ns ? -> "100000": a tick then starts sooner while other work runs: measured on 6.18, 2.0 % of ticks were more than 1 ms late instead of 28.5 %
                6.12 (throughput)
                  keep process.sched_slice_ns: short slices cost switches, against the goal throughput
                6.6 (latency)
                  not-here process.sched_slice_ns: the kernel supports it only since Linux 6.12
                unknown (latency)
                  unknown process.sched_slice_ns: the kernel's version is not known: no release
            "#]],
        );
    }
}
