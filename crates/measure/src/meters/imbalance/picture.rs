//! The difference between two readings: how busy each CPU was and with what, and whether one CPU was full while others idled.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reading::{Reading, Source};

/// A CPU with at least this busy share is full: queued work waits.
pub const FULL: f64 = 0.9;
/// A CPU with at most this busy share is idle: it could take over work.
pub const IDLE: f64 = 0.5;
/// The maximum number of threads, interrupts and softirqs to list per CPU.
const LISTED_MAX: usize = 5;
/// A thread with less than this share of a CPU is not a cause.
const THREAD_SHARE_MIN: f64 = 0.01;
/// The number of ticks per second, as the kernel shows them to user space on every architecture in use.
const TICKS_PER_S: f64 = 100.0;

/// The state of all CPUs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// No CPU was full.
    Even,
    /// At least one CPU was full and at least one other CPU was idle. Work waits that could run on another CPU.
    Uneven,
    /// Some CPUs were full and no CPU was idle, so the machine is too small.
    Full,
    /// The state is unknown, because the counts did not change.
    Unknown,
}

/// A thread, with the share of a CPU that it took.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusyThread {
    /// The thread's process.
    pub pid: u32,
    /// The thread's number.
    pub tid: u32,
    /// The name, as the kernel reports it.
    pub name: String,
    /// The share of one CPU, from 0 to 1.
    pub share: f64,
}

/// An interrupt or a softirq.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusySource {
    /// The number or letters of the interrupt, or the name of the softirq, as in the kernel's file.
    pub label: String,
    /// The name, as the kernel reports it.
    pub name: String,
    /// The rate on this CPU, per second.
    pub per_s: f64,
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusyCpu {
    /// The CPU's number.
    pub cpu: usize,
    /// The share of time in which the CPU was not idle, from 0 to 1. Steal counts as busy, because the CPU was unavailable.
    pub busy_share: f64,
    /// The share of time in user space, from 0 to 1.
    pub user_share: f64,
    /// The share of time in the kernel, without interrupts.
    pub system_share: f64,
    /// The share of time in interrupts. 0 on kernels that do not measure this.
    pub irq_share: f64,
    /// The share of time in softirqs, mostly the network.
    pub softirq_share: f64,
    /// The share of time that the hypervisor reports as steal.
    pub steal_share: f64,
    /// Threads that last ran on this CPU, with the busiest first.
    pub threads: Vec<BusyThread>,
    /// Interrupts, with the most frequent first.
    pub irqs: Vec<BusySource>,
    /// Softirqs, with the most frequent first.
    pub softirqs: Vec<BusySource>,
}

/// The machine between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Picture {
    /// The time between the readings.
    pub length_ns: u64,
    /// The state.
    pub shape: Shape,
    /// The CPUs that were full.
    pub full_cpus: Vec<usize>,
    /// How busy each CPU was, and with what.
    pub cpus: Vec<BusyCpu>,
}

/// The difference between two readings. A CPU that is missing in one reading went offline or online in the meantime, and is left out.
pub fn between(before: &Reading, after: &Reading) -> Picture {
    let length_ns = after.at_ns.saturating_sub(before.at_ns);
    let seconds = length_ns as f64 / 1e9;
    let mut threads = threads(before, after, seconds);
    let mut cpus = Vec::new();
    for (cpu, now) in &after.cpus {
        let Some(then) = before.cpus.get(cpu) else { continue };
        let ticks = now.since(then);
        let share = |part: u64| if ticks.total() == 0 { 0.0 } else { part as f64 / ticks.total() as f64 };
        cpus.push(BusyCpu {
            cpu: *cpu,
            busy_share: share(ticks.total() - ticks.idle),
            user_share: share(ticks.user),
            system_share: share(ticks.system),
            irq_share: share(ticks.irq),
            softirq_share: share(ticks.softirq),
            steal_share: share(ticks.steal),
            threads: threads.remove(cpu).unwrap_or_default(),
            irqs: sources(&before.irqs, &after.irqs, *cpu, seconds),
            softirqs: sources(&before.softirqs, &after.softirqs, *cpu, seconds),
        });
    }
    let moved = cpus.iter().any(|cpu| cpu.busy_share > 0.0) || after.cpus != before.cpus;
    let full_cpus: Vec<usize> = cpus.iter().filter(|cpu| cpu.busy_share >= FULL).map(|cpu| cpu.cpu).collect();
    let has_idle = cpus.iter().any(|cpu| cpu.busy_share <= IDLE);
    let shape = match (moved, full_cpus.is_empty(), has_idle) {
        (false, ..) => Shape::Unknown,
        (true, true, _) => Shape::Even,
        (true, false, true) => Shape::Uneven,
        (true, false, false) => Shape::Full,
    };
    Picture { length_ns, shape, full_cpus, cpus }
}

/// The busiest threads, by the CPU on which they last ran.
fn threads(before: &Reading, after: &Reading, seconds: f64) -> BTreeMap<usize, Vec<BusyThread>> {
    let mut by_cpu: BTreeMap<usize, Vec<BusyThread>> = BTreeMap::new();
    for (tid, now) in &after.threads {
        // A thread that started between the readings used all its CPU time between them.
        let then = before.threads.get(tid).filter(|then| then.started == now.started).map_or(0, |then| then.ran);
        let share = now.ran.saturating_sub(then) as f64 / TICKS_PER_S / seconds.max(1e-3);
        if share >= THREAD_SHARE_MIN {
            let thread = BusyThread { pid: now.pid, tid: *tid, name: now.name.clone(), share: share.min(1.0) };
            by_cpu.entry(now.cpu).or_default().push(thread);
        }
    }
    for threads in by_cpu.values_mut() {
        threads.sort_by(|one, other| other.share.total_cmp(&one.share).then(one.tid.cmp(&other.tid)));
        threads.truncate(LISTED_MAX);
    }
    by_cpu
}

fn sources(
    before: &BTreeMap<String, Source>,
    after: &BTreeMap<String, Source>,
    cpu: usize,
    seconds: f64,
) -> Vec<BusySource> {
    let rate = |(label, source): (&String, &Source)| {
        let count = |source: &Source| source.counts.get(&cpu).copied();
        let then = before.get(label).filter(|then| then.name == source.name).and_then(count).unwrap_or(0);
        let per_s = count(source)?.saturating_sub(then) as f64 / seconds.max(1e-3);
        (per_s >= 1.0).then(|| BusySource { label: label.clone(), name: source.name.clone(), per_s })
    };
    let mut rates: Vec<BusySource> = after.iter().filter_map(rate).collect();
    rates.sort_by(|one, other| other.per_s.total_cmp(&one.per_s).then_with(|| one.label.cmp(&other.label)));
    rates.truncate(LISTED_MAX);
    rates
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::proc::{self, CpuTicks};
    use proptest::prelude::*;

    use super::super::reading::{sources, thread_of};
    use super::*;

    fn cpus_of(stat: &str) -> BTreeMap<usize, CpuTicks> {
        proc::parse_stat(stat).unwrap_or_default().cpus
    }

    /// Readings two seconds apart: CPU 1 is full with thread 71 and packets, and CPU 0 is nearly idle.
    fn planted() -> (Reading, Reading) {
        let stat = |tid: u32, name: &str, started: u64, ran: u64, cpu: u64| {
            let text = format!(
                "{tid} ({name}) R 1 1 1 0 -1 0 1 0 0 0 {ran} 0 0 0 20 0 1 0 {started} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {cpu}"
            );
            (tid, thread_of(70, proc::parse_process(&text).unwrap()).unwrap())
        };
        let irqs =
            |count: u64| sources(&format!(" CPU0 CPU1\n 38: 7 {count} PCI-MSIX 1-edge  eth0-rx-0\n 39: 5 5 x y\n"));
        let softirqs = |count: u64| sources(&format!(" CPU0 CPU1\n NET_RX: 3 {count}\n TIMER: 100 100\n"));
        let before = Reading {
            at_ns: 1_000_000_000,
            cpus: cpus_of("cpu0 100 0 0 1000 0 0 0 0\ncpu1 100 0 0 1000 0 0 0 0\ncpu2 9 9 9 9 9 9 9 9\n"),
            threads: [stat(71, "server", 5, 1000, 1), stat(72, "old", 6, 900, 0)].into(),
            irqs: irqs(1000),
            softirqs: softirqs(2000),
            unseen_threads: 0,
        };
        let after = Reading {
            at_ns: 3_000_000_000,
            cpus: cpus_of("cpu0 110 0 10 1180 0 0 0 0\ncpu1 250 0 20 1002 0 0 20 8\n"),
            // The number 72 now belongs to another thread, which has run for 20 ticks.
            threads: [stat(71, "server", 5, 1150, 1), stat(72, "new", 99, 20, 0)].into(),
            irqs: irqs(9000),
            softirqs: softirqs(52000),
            unseen_threads: 0,
        };
        (before, after)
    }

    #[test]
    fn a_full_cpu_is_reported_with_what_fills_it() {
        let (before, after) = planted();
        let picture = between(&before, &after);
        assert_eq!((picture.shape, &picture.full_cpus[..]), (Shape::Uneven, &[1][..]));
        assert_eq!(picture.cpus.len(), 2, "CPU 2 went away");
        expect_test::expect![[r#"
            {"cpu":1,"busy_share":0.99,"user_share":0.75,"system_share":0.1,"irq_share":0.0,"softirq_share":0.1,"steal_share":0.04,"threads":[{"pid":70,"tid":71,"name":"server","share":0.75}],"irqs":[{"label":"38","name":"eth0-rx-0","per_s":4000.0}],"softirqs":[{"label":"NET_RX","name":"NET_RX","per_s":25000.0}]}
            {"cpu":0,"busy_share":0.1,"user_share":0.05,"system_share":0.05,"irq_share":0.0,"softirq_share":0.0,"steal_share":0.0,"threads":[{"pid":70,"tid":72,"name":"new","share":0.1}],"irqs":[],"softirqs":[]}
        "#]]
        .assert_eq(&picture.cpus.iter().rev().map(|cpu| serde_json::to_string(cpu).unwrap() + "\n").collect::<String>());
    }

    #[test]
    fn shapes_are_distinguished() {
        let reading = |at_ns, busy: [u64; 3]| {
            let cpu =
                |(cpu, busy): (usize, u64)| (cpu, CpuTicks { user: busy, idle: at_ns - busy, ..CpuTicks::default() });
            Reading { at_ns, cpus: busy.into_iter().enumerate().map(cpu).collect(), ..Reading::default() }
        };
        let table = [
            ([100, 100, 100], Shape::Full),
            ([100, 60, 60], Shape::Full),
            ([100, 60, 50], Shape::Uneven),
            ([90, 0, 0], Shape::Uneven),
            ([89, 0, 0], Shape::Even),
            ([0, 0, 0], Shape::Even),
        ];
        for (busy, shape) in table {
            assert_eq!(between(&reading(0, [0; 3]), &reading(100, busy)).shape, shape, "{busy:?}");
        }
        assert_eq!(between(&reading(5, [1; 3]), &reading(5, [1; 3])).shape, Shape::Unknown);
    }

    proptest! {
        #[test]
        fn shares_stay_within_bounds(one in "cpu0( [0-9]{1,20}){8,9}", two in "cpu0( [0-9]{1,20}){8,9}", at in any::<[u64; 2]>()) {
            let reading = |at_ns, text: &str| Reading { at_ns, cpus: cpus_of(text), ..Reading::default() };
            let picture = between(&reading(at[0], &one), &reading(at[1], &two));
            for cpu in picture.cpus {
                prop_assert!((0.0..=1.0).contains(&cpu.busy_share), "{cpu:?}");
            }
        }
    }
}
