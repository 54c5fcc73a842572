//! Reads the machine's counters before and after a window.

use std::time::Instant;

use evenkeel_fleet::capacity::{Machine, MachineUse};
use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{self, CpuTicks};

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
}

impl Counters {
    pub(super) fn read() -> Result<Counters, Failure> {
        let root = Root::live();
        let stat = root.text("/proc/stat").ok().and_then(|text| proc::parse_stat(&text));
        let cpus = stat.as_ref().map_or(0, |stat| stat.cpus.len());
        let ticks = stat.and_then(|stat| stat.all);
        let memory = root.text("/proc/meminfo").ok().and_then(|text| proc::amount(&text, "MemAvailable"));
        let drops = root.text("/proc/net/snmp").ok();
        let drops = drops.and_then(|text| proc::under_name(&text, Some("Udp"), "RcvbufErrors")?.parse().ok());
        Ok(Counters {
            at: Instant::now(),
            ticks: ticks.ok_or_else(|| unreadable("/proc/stat"))?,
            cpus,
            memory_available_bytes: memory.ok_or_else(|| unreadable("/proc/meminfo"))?,
            // A kernel without IPv4 has no such counter, and drops no packets.
            udp_drops: drops.unwrap_or(0),
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
        }
    }
}

/// The machine that all sessions share.
pub(super) fn machine() -> Result<Machine, Failure> {
    let root = Root::live();
    let cpus = root.text("/proc/stat").ok().and_then(|text| Some(proc::parse_stat(&text)?.cpus.len()));
    let memory = root.text("/proc/meminfo").ok().and_then(|text| proc::amount(&text, "MemTotal"));
    Ok(Machine {
        cpus: cpus.ok_or_else(|| unreadable("/proc/stat"))? as f64,
        memory_mib: memory.ok_or_else(|| unreadable("/proc/meminfo"))? as f64 / MIB,
    })
}

fn unreadable(path: &str) -> Failure {
    Failure::text(exit::NOT_POSSIBLE, "observe the machine", format_args!("{path} can't be read"))
}
