//! Reads the machine's counters before and after a window.

use std::time::Instant;

use evenkeel_fleet::capacity::{Machine, MachineUse};
use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{self, CpuTicks, Stat};
use evenkeel_measure::meters::memory::Room;
use evenkeel_sys::cpu_limit::{self, Counters as Limits};
use evenkeel_sys::{CpuSet, thread};

use crate::exit;
use crate::failure::Failure;

const MIB: f64 = 1024.0 * 1024.0;

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    at: Instant,
    ticks: CpuTicks,
    cpus: usize,
    memory_available_bytes: u64,
    udp_drops: u64,
    /// How often a control group has used up its CPU quota.
    throttled: u64,
}

impl Counters {
    pub(super) fn read() -> Result<Counters, Failure> {
        let root = Root::live();
        let (cpus, ticks) = cpus(&root).ok_or_else(|| unreadable("/proc/stat"))?;
        let memory = Room::read(&root).ok().map(|room| room.available_bytes);
        let drops = root.text("/proc/net/snmp").ok();
        let drops = drops.and_then(|text| proc::under_name(&text, Some("Udp"), "RcvbufErrors")?.parse().ok());
        Ok(Counters {
            at: Instant::now(),
            ticks,
            cpus,
            memory_available_bytes: memory.ok_or_else(|| unreadable("/proc/meminfo"))?,
            // A kernel without IPv4 has no such counter, and drops no UDP packets.
            udp_drops: drops.unwrap_or(0),
            throttled: Limits::open(&cpu_limit::all()).read().times.unwrap_or(0),
        })
    }

    /// The use of the machine since `before`.
    pub(super) fn since(&self, before: &Counters) -> MachineUse {
        let seconds = (self.at - before.at).as_secs_f64().max(1e-9);
        let ticks = self.ticks.since(&before.ticks);
        MachineUse {
            // Divide by the counted ticks, not by the elapsed time: the counters increase in steps of 10 ms.
            cpus_busy: ticks.busy() as f64 / ticks.total().max(1) as f64 * self.cpus as f64,
            steal_share: ticks.steal as f64 / ticks.total().max(1) as f64,
            memory_available_mib: self.memory_available_bytes as f64 / MIB,
            udp_drops_per_s: self.udp_drops.saturating_sub(before.udp_drops) as f64 / seconds,
            throttled_per_s: self.throttled.saturating_sub(before.throttled) as f64 / seconds,
        }
    }
}

/// Describes the machine that all sessions share.
pub(super) fn machine() -> Result<Machine, Failure> {
    let root = Root::live();
    let cpus = cpus(&root).map(|(cpus, _)| cpus);
    let memory = memory(&root);
    Ok(Machine {
        cpus: cpus.ok_or_else(|| unreadable("/proc/stat"))? as f64,
        memory_mib: memory.ok_or_else(|| unreadable("/proc/meminfo"))? as f64 / MIB,
    })
}

/// The CPUs that the sessions may use, and the sum of their times.
/// The sessions inherit the CPUs of this process, which its control group or `taskset` has set.
fn cpus(root: &Root) -> Option<(usize, CpuTicks)> {
    let stat = root.text("/proc/stat").ok().and_then(|text| proc::parse_stat(&text))?;
    times_of(&stat, &thread::affinity().unwrap_or_default())
}

/// The memory that the sessions may use, in bytes.
/// It is the machine's memory, or the limit of the control group with the least memory left.
fn memory(root: &Root) -> Option<u64> {
    let total = root.text("/proc/meminfo").ok().and_then(|text| proc::amount(&text, "MemTotal"))?;
    let group = Room::read(root).ok()?.limited_by;
    let number = |name: &&str| root.text(&format!("{group}/{name}")).ok()?.trim().parse::<u64>().ok();
    // Without a limit, `group` is the word `machine`.
    let is_group = group.starts_with('/');
    let limit = ["memory.max", "memory.limit_in_bytes"].iter().filter(|_| is_group).find_map(number);
    Some(limit.map_or(total, |limit| limit.min(total)))
}

/// The number of the CPUs in `own`, and the sum of their times. If `stat` has none of these CPUs, counts all CPUs.
fn times_of(stat: &Stat, own: &CpuSet) -> Option<(usize, CpuTicks)> {
    let of_own: Vec<&CpuTicks> = stat.cpus.iter().filter(|(cpu, _)| own.contains(**cpu)).map(|(_, one)| one).collect();
    if of_own.is_empty() {
        return Some((stat.cpus.len(), stat.all?));
    }
    let mut sum = CpuTicks::default();
    of_own.iter().for_each(|one| sum.add(one));
    Some((of_own.len(), sum))
}

fn unreadable(path: &str) -> Failure {
    Failure::text(exit::NOT_POSSIBLE, "observe the machine", format_args!("{path} can't be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under `taskset --cpu-list 1,2`, the sessions can use only two CPUs of four. Both are busy here.
    #[test]
    fn only_the_cpus_of_the_sessions_count() {
        let text = "cpu  220 0 0 780 0 0 0 0\ncpu0 10 0 0 240 0 0 0 0\ncpu1 100 0 0 150 0 0 0 0\ncpu2 100 0 0 150 0 0 0 0\n\
                    cpu3 10 0 0 240 0 0 0 0\n";
        let stat = proc::parse_stat(text).unwrap();
        let found = |cpus: &[usize]| {
            let (count, ticks) = times_of(&stat, &cpus.iter().copied().collect()).unwrap();
            (count, ticks.busy(), ticks.total())
        };
        assert_eq!(found(&[1, 2]), (2, 200, 500));
        assert_eq!(found(&[0, 1, 2, 3]), (4, 220, 1000));
        assert_eq!(found(&[9]), (4, 220, 1000), "none of them runs");
    }
}
