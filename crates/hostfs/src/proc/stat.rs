//! /proc/stat.

use std::collections::BTreeMap;

use evenkeel_sys::MAX_CPUS;
use serde::{Deserialize, Serialize};

use super::LINES_MAX;

/// The times of CPUs since boot, in [ticks](super::TICK_NS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTicks {
    /// Time in user space, at normal and at lower (nice) priority. Includes the time of this machine's own guests.
    pub user: u64,
    /// Time in the kernel.
    pub system: u64,
    /// Time in interrupts.
    pub irq: u64,
    /// Time in softirqs.
    pub softirq: u64,
    /// Time that the hypervisor reports as stolen.
    pub steal: u64,
    /// Idle time, including waiting for disks.
    pub idle: u64,
    /// The part of `idle` in which a thread waited for a disk. The kernel sometimes decreases this count.
    pub iowait: u64,
}

impl CpuTicks {
    /// The sum of all times. `iowait` is a part of `idle`.
    pub fn total(&self) -> u64 {
        let CpuTicks { user, system, irq, softirq, steal, idle, iowait: _ } = *self;
        [user, system, irq, softirq, steal, idle].into_iter().fold(0, u64::saturating_add)
    }

    /// The time that is neither idle nor stolen.
    pub fn busy(&self) -> u64 {
        self.total().saturating_sub(self.idle).saturating_sub(self.steal)
    }

    /// The increase since `before`.
    pub fn since(&self, before: &CpuTicks) -> CpuTicks {
        CpuTicks {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            irq: self.irq.saturating_sub(before.irq),
            softirq: self.softirq.saturating_sub(before.softirq),
            steal: self.steal.saturating_sub(before.steal),
            idle: self.idle.saturating_sub(before.idle),
            iowait: self.iowait.saturating_sub(before.iowait),
        }
    }

    /// Adds the times of another CPU.
    pub fn add(&mut self, other: &CpuTicks) {
        *self = CpuTicks {
            user: self.user.saturating_add(other.user),
            system: self.system.saturating_add(other.system),
            irq: self.irq.saturating_add(other.irq),
            softirq: self.softirq.saturating_add(other.softirq),
            steal: self.steal.saturating_add(other.steal),
            idle: self.idle.saturating_add(other.idle),
            iowait: self.iowait.saturating_add(other.iowait),
        };
    }
}

/// The contents of /proc/stat. A number is `None` if its line is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The sum of all CPUs, including CPUs that went offline.
    pub all: Option<CpuTicks>,
    /// The online CPUs.
    pub cpus: BTreeMap<usize, CpuTicks>,
    /// Switches between threads.
    pub context_switches: Option<u64>,
    /// Interrupts of all kinds.
    pub interrupts: Option<u64>,
    /// Softirqs.
    pub softirqs: Option<u64>,
    /// Created processes and threads.
    pub forks: Option<u64>,
    /// When the machine booted, in seconds since 1970.
    pub boot_s: Option<u64>,
}

/// Parses /proc/stat. `None` if no line has CPU times, if a line that this function reads has no number, or if a CPU has two lines.
pub fn parse_stat(text: &str) -> Option<Stat> {
    let mut stat = Stat::default();
    for line in text.lines().take(LINES_MAX) {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        // Read only the sum from the interrupt line: with 200 CPUs, the rest is thousands of numbers.
        let first = || rest.split_ascii_whitespace().next()?.parse::<u64>().ok();
        match name {
            "cpu" => stat.all = Some(parse_ticks(rest)?),
            "ctxt" => stat.context_switches = Some(first()?),
            "intr" => stat.interrupts = Some(first()?),
            "softirq" => stat.softirqs = Some(first()?),
            "processes" => stat.forks = Some(first()?),
            "btime" => stat.boot_s = Some(first()?),
            _ => {
                let Some(number) = name.strip_prefix("cpu") else { continue };
                let cpu = number.parse().ok().filter(|cpu| *cpu < MAX_CPUS)?;
                if stat.cpus.insert(cpu, parse_ticks(rest)?).is_some() {
                    return None;
                }
            }
        }
    }
    (stat.all.is_some() || !stat.cpus.is_empty()).then_some(stat)
}

/// Parses `USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL …`. Some kernels reported a steal time near `u64::MAX`, so sums saturate.
fn parse_ticks(text: &str) -> Option<CpuTicks> {
    let mut kinds = [0_u64; 8];
    let mut words = text.split_ascii_whitespace();
    for kind in &mut kinds {
        *kind = words.next()?.parse().ok()?;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = kinds;
    let (user, idle) = (user.saturating_add(nice), idle.saturating_add(iowait));
    Some(CpuTicks { user, system, irq, softirq, steal, idle, iowait })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernels_text_is_read() {
        let text = "cpu  11 2 3 4 5 6 7 8 9 0\ncpu0 10 1 5 100 7 2 3 4 0 0\ncpu12 1 2 3 4 5 6 7 8 0 0\n\
                    intr 99 1 2\nctxt 5\nbtime 1000\nprocesses 3\nprocs_running 1\nsoftirq 12 1 11\n";
        let stat = parse_stat(text).unwrap();
        let ticks = CpuTicks { user: 11, system: 5, irq: 2, softirq: 3, steal: 4, idle: 107, iowait: 7 };
        let other = CpuTicks { user: 3, system: 3, irq: 6, softirq: 7, steal: 8, idle: 9, iowait: 5 };
        assert_eq!(stat.all, Some(CpuTicks { user: 13, ..other }));
        assert_eq!(stat.cpus, BTreeMap::from([(0, ticks), (12, other)]));
        assert_eq!((stat.context_switches, stat.interrupts, stat.softirqs), (Some(5), Some(99), Some(12)));
        assert_eq!((stat.forks, stat.boot_s), (Some(3), Some(1000)));
        assert_eq!((ticks.total(), ticks.busy()), (132, 21));
        assert_eq!(ticks.since(&other).idle, 98);
        assert_eq!(other.since(&ticks).idle, 0);
        let mut sum = ticks;
        sum.add(&other);
        assert_eq!(sum.since(&other), ticks);
        // Every line of /proc/stat may be missing.
        let stat = parse_stat("cpu0 1 2 3 4 5 6 7 8\n").unwrap();
        assert_eq!(stat, Stat { cpus: BTreeMap::from([(0, other)]), ..Stat::default() });
    }

    #[test]
    fn a_text_of_another_form_is_refused() {
        let table = [
            "",
            "cpu",
            "cpu 1 2 3",
            "cpu  1 2 3 4 5 6 7",
            "cpu  a b c d e f g h",
            "ctxt 1\nintr 1\n",
            "cpu0 1 2 3\nctxt 1\nintr 1",
            "cpu0 1 2 3 4 5 6 7 8\nctxt x\nintr 1",
            "cpux 1 2 3 4 5 6 7 8",
            "cpu0 1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8",
            "cpu99999 1 2 3 4 5 6 7 8\nctxt 1\nintr 1",
        ];
        for text in table {
            assert_eq!(parse_stat(text), None, "{text}");
        }
        let odd = parse_stat(&format!("cpu  {0} {0} 1 1 1 1 1 1", u64::MAX)).unwrap().all.unwrap();
        assert_eq!((odd.user, odd.total()), (u64::MAX, u64::MAX));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(
            text in "((cpu[0-9]{0,22}|ctxt|intr|btime|[0-9]{1,20})[ \n]{0,2}){0,24}|.{0,40}", ticks in "(cpu[0-9]{1,2}( [0-9]{1,20}){8}\n){0,3}"
        ) {
            for text in [&text, &ticks] {
                for cpu in parse_stat(text).iter().flat_map(|stat| stat.cpus.values().chain(&stat.all)) {
                    prop_assert_eq!(cpu.since(cpu).total(), 0);
                }
            }
        }
    }
}
