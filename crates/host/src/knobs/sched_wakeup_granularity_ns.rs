//! How far a waking thread must be behind the running thread to preempt it.

use crate::extras::{Counter, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Since, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{one, scheduler_number, times_by_cpus};

/// The knob's file in each kernel.
const FILES: &[Since] = &[
    Since { kernel: (2, 6), path: Some("/proc/sys/kernel/sched_wakeup_granularity_ns") },
    Since { kernel: (5, 13), path: Some("/sys/kernel/debug/sched/wakeup_granularity_ns") },
    Since { kernel: (6, 6), path: None },
];

/// The default for one CPU, before the kernel scales it.
const DEFAULT_NS: i64 = 1_000_000;

pub(super) const KNOB: Knob = Knob {
    id: "sched.wakeup_granularity_ns",
    title: "how easily a waking thread preempts",
    area: Area::Cpu,
    place: Place::FileSince { files: FILES, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1_000_000_000, unit: "ns" },
    default: "1000000, times 1 to 4 by the number of CPUs: 4 ms on 8 or more",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A waking thread takes the CPU from the running one if it has had less CPU time by more than this. With a lower \
        value a tick starts sooner on a busy CPU, and other work is interrupted more often. EEVDF, the scheduler since \
        6.6, decides by deadlines and has no such number. There a thread requests a short slice \
        (process.sched_slice_ns).",
    risk: "more switches when many threads wake; a reboot resets it",
    shows_in: "nonvoluntary_ctxt_switches in /proc/PID/status of the processes that share the CPU",
    kernels: "a sysctl up to 5.12, in debugfs from 5.13 to 6.5; since then see process.sched_slice_ns",
    sources: &[
        Source { title: "Linux kernel/sched/fair.c", says: "1 ms times 1 + log2(CPUs); gone with EEVDF in 6.6" },
        Source { title: "Linux kernel/sched/debug.c", says: "the files in debugfs, since 5.13" },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "halve it; 4 ms on the C4 family",
        },
        Source {
            title: "TuneD, profile throughput-performance",
            says: "15 ms in the days of the sysctl, against the guide",
        },
    ],
    extras: Extras {
        read_in: &[],
        // Use the pressure of waiting threads, because not every kernel has /proc/schedstat.
        counter: Some(Counter::WaitingThreads),
        risk_at: RiskAt::Lower,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let default = times_by_cpus(facts, &KNOB, DEFAULT_NS)?;
    let half = default / 2;
    let (path, current) = scheduler_number(facts, &KNOB, half)?;
    let finding = match goal {
        Goal::Latency if current > half => {
            let reason = format!(
                "a tick that wakes on a busy CPU preempts only if it is {current} ns behind; Amazon's guide \
                    halves the default of {default} ns, TuneD raised it: run `evenkeel prove {}={half}` to measure",
                KNOB.id
            );
            Finding::set(path, half, reason)
        }
        Goal::Latency => Finding::keep(path, "a waking tick preempts sooner than with the kernel's default"),
        Goal::Throughput | Goal::Density => {
            Finding::keep(path, format!("a lower value interrupts work more often, against the goal {goal}"))
        }
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, with_cpus, with_kernel, with_sysctl};

    /// A kernel whose file contains this text.
    fn kernel(version: (u32, u32), path: &'static str, text: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            with_kernel(version.0, version.1)(facts);
            with_sysctl(path, text)(facts);
        }
    }

    #[test]
    fn it_went_with_cfs() {
        const SYSCTL: &str = "/proc/sys/kernel/sched_wakeup_granularity_ns";
        const DEBUGFS: &str = "/sys/kernel/debug/sched/wakeup_granularity_ns";
        check(
            &KNOB,
            &[
                ("4.4", Goal::Latency, &kernel((4, 4), SYSCTL, "3000000")),
                ("4.4, 16 CPUs", Goal::Latency, &|facts| {
                    with_cpus(16)(facts);
                    kernel((4, 4), SYSCTL, "4000000")(facts);
                }),
                ("6.1", Goal::Latency, &kernel((6, 1), DEBUGFS, "1500000")),
                ("6.5", Goal::Density, &kernel((6, 5), DEBUGFS, "3000000")),
                ("6.6", Goal::Latency, &with_kernel(6, 6)),
                ("7.3", Goal::Throughput, &with_kernel(7, 3)),
                ("under lockdown", Goal::Latency, &|facts| {
                    with_kernel(6, 1)(facts);
                    let why = "/sys/kernel/debug/sched/wakeup_granularity_ns: operation not permitted (EPERM)";
                    facts
                        .sysctls
                        .insert("/sys/kernel/debug/sched/wakeup_granularity_ns", Fact::Forbidden { why: why.into() });
                }),
                ("not root", Goal::Latency, &|facts| {
                    with_kernel(6, 1)(facts);
                    facts.sysctls.insert(
                        "/sys/kernel/debug/sched/wakeup_granularity_ns",
                        Fact::Denied { why: "permission denied (EACCES)".into() },
                    );
                }),
                ("no debugfs", Goal::Latency, &|facts| {
                    with_kernel(6, 1)(facts);
                    facts.sysctls.insert(
                        "/sys/kernel/debug/sched/wakeup_granularity_ns",
                        Fact::absent("no such file or directory (ENOENT)"),
                    );
                }),
                ("kernel unknown", Goal::Latency, &|facts| facts.kernel.version = Fact::absent("no release")),
            ],
            expect![[r#"
                4.4 (latency)
                  set /proc/sys/kernel/sched_wakeup_granularity_ns "3000000" -> "1500000": a tick that wakes on a busy CPU preempts only if it is 3000000 ns behind; Amazon's guide halves the default of 3000000 ns, TuneD raised it: run `evenkeel prove sched.wakeup_granularity_ns=1500000` to measure
                4.4, 16 CPUs (latency)
                  set /proc/sys/kernel/sched_wakeup_granularity_ns "4000000" -> "2000000": a tick that wakes on a busy CPU preempts only if it is 4000000 ns behind; Amazon's guide halves the default of 4000000 ns, TuneD raised it: run `evenkeel prove sched.wakeup_granularity_ns=2000000` to measure
                6.1 (latency)
                  keep /sys/kernel/debug/sched/wakeup_granularity_ns "1500000": a waking tick preempts sooner than with the kernel's default
                6.5 (density)
                  keep /sys/kernel/debug/sched/wakeup_granularity_ns "3000000": a lower value interrupts work more often, against the goal density
                6.6 (latency)
                  removed sched.wakeup_granularity_ns: removed in Linux 6.6; a sysctl up to 5.12, in debugfs from 5.13 to 6.5; since then see process.sched_slice_ns
                7.3 (throughput)
                  removed sched.wakeup_granularity_ns: removed in Linux 6.6; a sysctl up to 5.12, in debugfs from 5.13 to 6.5; since then see process.sched_slice_ns
                under lockdown (latency)
                  blocked /sys/kernel/debug/sched/wakeup_granularity_ns ? -> "1500000": the kernel's lockdown disables debugfs, even for root: /sys/kernel/debug/sched/wakeup_granularity_ns: operation not permitted (EPERM)
                not root (latency)
                  unknown /sys/kernel/debug/sched/wakeup_granularity_ns: you need root to read it: permission denied (EACCES)
                no debugfs (latency)
                  not-here /sys/kernel/debug/sched/wakeup_granularity_ns: not present here: debugfs is not mounted, or the kernel does not show its scheduler there
                kernel unknown (latency)
                  unknown sched.wakeup_granularity_ns: the kernel's version is not known: no release
            "#]],
        );
    }
}
