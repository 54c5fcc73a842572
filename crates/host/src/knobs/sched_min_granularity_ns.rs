//! How long a thread runs before another thread may take its CPU.

use crate::extras::{Counter, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Since, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{one, scheduler_number, times_by_cpus};

/// The knob's file in each kernel.
const FILES: &[Since] = &[
    Since { kernel: (2, 6), path: Some("/proc/sys/kernel/sched_min_granularity_ns") },
    Since { kernel: (5, 13), path: Some("/sys/kernel/debug/sched/min_granularity_ns") },
    Since { kernel: (6, 6), path: Some("/sys/kernel/debug/sched/base_slice_ns") },
];

/// The default for one CPU under CFS and under EEVDF, before the kernel scales it.
const CFS_NS: i64 = 750_000;
const EEVDF_NS: i64 = 700_000;

pub(super) const KNOB: Knob = Knob {
    id: "sched.min_granularity_ns",
    title: "how long a thread runs before others may",
    area: Area::Cpu,
    place: Place::FileSince { files: FILES, reading: Reading::Plain },
    values: Values::Number { min: 100_000, max: 1_000_000_000, unit: "ns" },
    default: "750000 (CFS) or 700000 (EEVDF, Linux 6.6 and later; 750000 in its first years), times 1 to 4 by the \
              number of CPUs: 3 ms on 8 or more under CFS",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Threads that compete for a CPU take turns, each for about this long. A longer slice wastes less time on \
        switches and keeps caches warm, but a thread that wakes for its tick on a busy CPU waits longer. The kernel \
        multiplies its default by 1 + log2 of the number of CPUs, counting at most 8. Since 6.6 the file is \
        base_slice_ns, the default for threads that request no slice.",
    risk: "longer slices make others wait longer, including ticks; a reboot resets it, and sysctl.d cannot set files in \
        debugfs",
    shows_in: "nonvoluntary_ctxt_switches in /proc/PID/status of the server",
    kernels: "a sysctl up to 5.12, in debugfs since 5.13, base_slice_ns since 6.6",
    sources: &[
        Source {
            title: "Linux kernel/sched/fair.c",
            says: "defaults, and their scaling by 1 + log2(CPUs), for at most 8 CPUs",
        },
        Source { title: "Linux kernel/sched/debug.c", says: "the files in debugfs, since 5.13" },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "double it; 3 ms on the C4 family",
        },
        Source { title: "TuneD, profile throughput-performance", says: "10 ms in the days of the sysctl" },
    ],
    extras: Extras {
        read_in: &[],
        // Use the pressure of waiting threads, because not every kernel has /proc/schedstat.
        counter: Some(Counter::WaitingThreads),
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let is_eevdf = facts.kernel.is_at_least(6, 6) == Some(true);
    let default = times_by_cpus(facts, &KNOB, if is_eevdf { EEVDF_NS } else { CFS_NS })?;
    let (path, current) = scheduler_number(facts, &KNOB, default)?;
    let finding = match goal {
        Goal::Latency if current > times_by_cpus(facts, &KNOB, CFS_NS)? => {
            let reason = format!(
                "a thread that wakes for its tick on a busy CPU waits for slices of {current} ns; this kernel's \
                    default here is {default} ns"
            );
            Finding::set(path, default, reason)
        }
        Goal::Latency => {
            Finding::keep(path, "longer slices, which some guides advise, make a tick wait longer on a busy CPU")
        }
        Goal::Throughput | Goal::Density => {
            let reason = format!(
                "Amazon's guide doubles the default of {default} ns, which helps only if threads compete for \
                    CPUs: run `evenkeel prove {}={}` to measure",
                KNOB.id,
                2 * default
            );
            Finding::keep(path, reason)
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
    fn a_tick_wants_short_turns() {
        const SYSCTL: &str = "/proc/sys/kernel/sched_min_granularity_ns";
        const DEBUGFS: &str = "/sys/kernel/debug/sched/min_granularity_ns";
        const SLICE: &str = "/sys/kernel/debug/sched/base_slice_ns";
        check(
            &KNOB,
            &[
                ("5.10", Goal::Latency, &kernel((5, 10), SYSCTL, "2250000")),
                ("5.10, TuneD", Goal::Latency, &kernel((5, 10), SYSCTL, "10000000")),
                ("5.10, 16 CPUs", Goal::Throughput, &|facts| {
                    with_cpus(16)(facts);
                    kernel((5, 10), SYSCTL, "3000000")(facts);
                }),
                ("6.1", Goal::Latency, &kernel((6, 1), DEBUGFS, "2250000")),
                ("6.12", Goal::Latency, &kernel((6, 12), SLICE, "2250000")),
                ("6.12, raised", Goal::Latency, &kernel((6, 12), SLICE, "6000000")),
                ("6.12", Goal::Density, &kernel((6, 12), SLICE, "2100000")),
                ("under lockdown", Goal::Latency, &|facts| {
                    with_kernel(6, 12)(facts);
                    let why = "/sys/kernel/debug/sched/base_slice_ns: operation not permitted (EPERM)";
                    facts.sysctls.insert("/sys/kernel/debug/sched/base_slice_ns", Fact::Forbidden { why: why.into() });
                }),
                ("not root", Goal::Latency, &|facts| {
                    with_kernel(6, 12)(facts);
                    facts.sysctls.insert(
                        "/sys/kernel/debug/sched/base_slice_ns",
                        Fact::Denied { why: "permission denied (EACCES)".into() },
                    );
                }),
                ("no debugfs", Goal::Latency, &|facts| {
                    with_kernel(6, 12)(facts);
                    facts.sysctls.insert(
                        "/sys/kernel/debug/sched/base_slice_ns",
                        Fact::absent("no such file or directory (ENOENT)"),
                    );
                }),
                ("kernel unknown", Goal::Latency, &|facts| facts.kernel.version = Fact::absent("no release")),
            ],
            expect![[r#"
                5.10 (latency)
                  keep /proc/sys/kernel/sched_min_granularity_ns "2250000": longer slices, which some guides advise, make a tick wait longer on a busy CPU
                5.10, TuneD (latency)
                  set /proc/sys/kernel/sched_min_granularity_ns "10000000" -> "2250000": a thread that wakes for its tick on a busy CPU waits for slices of 10000000 ns; this kernel's default here is 2250000 ns
                5.10, 16 CPUs (throughput)
                  keep /proc/sys/kernel/sched_min_granularity_ns "3000000": Amazon's guide doubles the default of 3000000 ns, which helps only if threads compete for CPUs: run `evenkeel prove sched.min_granularity_ns=6000000` to measure
                6.1 (latency)
                  keep /sys/kernel/debug/sched/min_granularity_ns "2250000": longer slices, which some guides advise, make a tick wait longer on a busy CPU
                6.12 (latency)
                  keep /sys/kernel/debug/sched/base_slice_ns "2250000": longer slices, which some guides advise, make a tick wait longer on a busy CPU
                6.12, raised (latency)
                  set /sys/kernel/debug/sched/base_slice_ns "6000000" -> "2100000": a thread that wakes for its tick on a busy CPU waits for slices of 6000000 ns; this kernel's default here is 2100000 ns
                6.12 (density)
                  keep /sys/kernel/debug/sched/base_slice_ns "2100000": Amazon's guide doubles the default of 2100000 ns, which helps only if threads compete for CPUs: run `evenkeel prove sched.min_granularity_ns=4200000` to measure
                under lockdown (latency)
                  blocked /sys/kernel/debug/sched/base_slice_ns ? -> "2100000": the kernel's lockdown disables debugfs, even for root: /sys/kernel/debug/sched/base_slice_ns: operation not permitted (EPERM)
                not root (latency)
                  unknown /sys/kernel/debug/sched/base_slice_ns: you need root to read it: permission denied (EACCES)
                no debugfs (latency)
                  not-here /sys/kernel/debug/sched/base_slice_ns: not present here: debugfs is not mounted, or the kernel does not show its scheduler there
                kernel unknown (latency)
                  unknown sched.min_granularity_ns: the kernel's version is not known: no release
            "#]],
        );
    }

    #[test]
    fn the_kernel_scales_by_cpus() {
        let scale = |count| {
            let mut facts = crate::testing::base();
            with_cpus(count)(&mut facts);
            crate::shapes::scheduler_scale(&facts)
        };
        assert_eq!([1, 2, 3, 4, 7, 8, 128].map(scale), [1, 2, 2, 3, 3, 4, 4].map(Some));
        assert_eq!(scale(16).map(|scale| scale * CFS_NS), Some(3_000_000), "3 ms, as on the C4 family");
    }
}
