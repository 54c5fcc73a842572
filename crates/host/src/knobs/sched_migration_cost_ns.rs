//! How long the scheduler considers a thread's cache warm, and therefore does not move the thread.

use crate::extras::{Counter, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Since, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::{one, scheduler_number, usable_cpus};

/// The knob's file in each kernel.
const FILES: &[Since] = &[
    Since { kernel: (2, 6), path: Some("/proc/sys/kernel/sched_migration_cost_ns") },
    Since { kernel: (5, 13), path: Some("/sys/kernel/debug/sched/migration_cost_ns") },
];

/// The kernel's default, which is the same from 4.4 to 7.3 and for any number of CPUs.
const DEFAULT_NS: i64 = 500_000;

/// The value in TuneD's profiles: ten times the default.
const TRIED_NS: i64 = 5_000_000;

pub(super) const KNOB: Knob = Knob {
    id: "sched.migration_cost_ns",
    title: "how long a thread counts as cache-hot",
    area: Area::Cpu,
    place: Place::FileSince { files: FILES, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 2_147_483_647, unit: "ns" },
    default: "500000, independent of the number of CPUs",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The scheduler does not move a thread that ran less than this long ago, because its data is probably still in \
        the old CPU's cache. A higher value moves threads less often. But a thread that is ready then waits for its \
        old CPU even if another one is idle. Pinned threads do not move anyway.",
    risk: "threads wait for a busy CPU while another one is idle",
    shows_in: "se.nr_migrations in /proc/PID/sched of the server",
    kernels: "a sysctl up to 5.12, in debugfs since 5.13",
    sources: &[
        Source { title: "Linux kernel/sched/fair.c, task_hot", says: "500000 ns in 4.4 to 7.3" },
        Source { title: "Linux kernel/sched/debug.c", says: "the files in debugfs, since 5.13" },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "double it, from a default that it gives as 4 ms: the kernel's is 0.5 ms",
        },
        Source { title: "TuneD, profile latency-performance", says: "5 ms in the days of the sysctl" },
    ],
    extras: Extras {
        read_in: &[],
        // The pressure of waiting threads shows the effect: if no thread waits for a CPU, the scheduler moves no thread.
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
    if usable_cpus(facts) == Some(1) {
        return Ok(Finding::not_here(KNOB.id, "1 CPU: there is no other CPU to move to"));
    }
    let (path, current) = scheduler_number(facts, &KNOB, TRIED_NS)?;
    let prove = format!("run `evenkeel prove {}={TRIED_NS}` to measure", KNOB.id);
    let finding = match goal {
        _ if current == DEFAULT_NS => Finding::keep(
            path,
            format!(
                "Amazon's guide doubles it and TuneD once wrote {TRIED_NS}, but a thread then waits while another \
                    CPU is idle, and pinned threads gain nothing; {prove}"
            ),
        ),
        Goal::Latency if current > DEFAULT_NS => Finding::keep(
            path,
            format!(
                "above the default of {DEFAULT_NS} ns: threads keep their caches, but may wait while another CPU is \
                idle"
            ),
        ),
        _ => Finding::keep(path, format!("somebody changed it from the default of {DEFAULT_NS} ns; {prove}")),
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
    fn its_default_is_half_a_millisecond() {
        const SYSCTL: &str = "/proc/sys/kernel/sched_migration_cost_ns";
        const DEBUGFS: &str = "/sys/kernel/debug/sched/migration_cost_ns";
        assert!(KNOB.default.starts_with("500000"));
        check(
            &KNOB,
            &[
                ("4.4", Goal::Latency, &kernel((4, 4), SYSCTL, "500000")),
                ("6.12", Goal::Density, &kernel((6, 12), DEBUGFS, "500000")),
                ("raised", Goal::Latency, &kernel((6, 12), DEBUGFS, "5000000")),
                ("lowered", Goal::Throughput, &kernel((6, 12), DEBUGFS, "50000")),
                ("1 CPU", Goal::Latency, &with_cpus(1)),
                ("under lockdown", Goal::Latency, &|facts| {
                    with_kernel(7, 3)(facts);
                    let why = "/sys/kernel/debug/sched/migration_cost_ns: operation not permitted (EPERM)";
                    facts
                        .sysctls
                        .insert("/sys/kernel/debug/sched/migration_cost_ns", Fact::Forbidden { why: why.into() });
                }),
                ("not root", Goal::Latency, &|facts| {
                    with_kernel(7, 3)(facts);
                    facts.sysctls.insert(
                        "/sys/kernel/debug/sched/migration_cost_ns",
                        Fact::Denied { why: "permission denied (EACCES)".into() },
                    );
                }),
                ("no debugfs", Goal::Latency, &|facts| {
                    with_kernel(7, 3)(facts);
                    facts.sysctls.insert(
                        "/sys/kernel/debug/sched/migration_cost_ns",
                        Fact::absent("no such file or directory (ENOENT)"),
                    );
                }),
                ("kernel unknown", Goal::Latency, &|facts| facts.kernel.version = Fact::absent("no release")),
            ],
            expect![[r#"
                4.4 (latency)
                  keep /proc/sys/kernel/sched_migration_cost_ns "500000": Amazon's guide doubles it and TuneD once wrote 5000000, but a thread then waits while another CPU is idle, and pinned threads gain nothing; run `evenkeel prove sched.migration_cost_ns=5000000` to measure
                6.12 (density)
                  keep /sys/kernel/debug/sched/migration_cost_ns "500000": Amazon's guide doubles it and TuneD once wrote 5000000, but a thread then waits while another CPU is idle, and pinned threads gain nothing; run `evenkeel prove sched.migration_cost_ns=5000000` to measure
                raised (latency)
                  keep /sys/kernel/debug/sched/migration_cost_ns "5000000": above the default of 500000 ns: threads keep their caches, but may wait while another CPU is idle
                lowered (throughput)
                  keep /sys/kernel/debug/sched/migration_cost_ns "50000": somebody changed it from the default of 500000 ns; run `evenkeel prove sched.migration_cost_ns=5000000` to measure
                1 CPU (latency)
                  not-here sched.migration_cost_ns: 1 CPU: there is no other CPU to move to
                under lockdown (latency)
                  blocked /sys/kernel/debug/sched/migration_cost_ns ? -> "5000000": the kernel's lockdown disables debugfs, even for root: /sys/kernel/debug/sched/migration_cost_ns: operation not permitted (EPERM)
                not root (latency)
                  unknown /sys/kernel/debug/sched/migration_cost_ns: you need root to read it: permission denied (EACCES)
                no debugfs (latency)
                  not-here /sys/kernel/debug/sched/migration_cost_ns: not present here: debugfs is not mounted, or the kernel does not show its scheduler there
                kernel unknown (latency)
                  unknown sched.migration_cost_ns: the kernel's version is not known: no release
            "#]],
        );
    }
}
