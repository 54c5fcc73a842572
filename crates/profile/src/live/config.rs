//! What is to be recorded, and of whom.

use std::path::PathBuf;

use evenkeel_sys::CpuSet;

use super::probe;

/// Room of a CPU's ring: about a second of a busy CPU's switches with their stacks.
pub const RING_BYTES: usize = 1 << 20;

/// The usual rate: next to no cost, and no multiple of what machines do each hundredth of a second.
pub const CLOCK_HZ: u32 = 99;

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct RecordConfig {
    /// Of whom.
    pub targets: Targets,
    /// Processes that it is about, where more than them is recorded: one of them has to be there, and it ends with the last.
    pub about: Vec<u32>,
    /// How often a second to see what runs, from 1 to 10,000; none to see it not at all.
    pub clock_hz: Option<u32>,
    /// Whether to record who is given a CPU and gives it away.
    pub switches: Switches,
    /// Page faults that had to wait for a disk, with their address and stack.
    pub faults: bool,
    /// Who wakes whom (`sched:sched_waking`), with the stack of who does.
    pub wakes: bool,
    /// Each packet that is handed to a network interface (`net:net_dev_queue`), by whom and when.
    pub packets: bool,
    /// Places in programs: each time that one is run.
    pub probes: Vec<probe::Probed>,
    /// How much of the user's stack is copied with each sample, for code without frame pointers: bytes, from 8 to 65,528, in eights.
    pub user_stack_bytes: Option<u32>,
    /// Room of each CPU's ring; rounded up to a power of two.
    pub ring_bytes: usize,
}

impl RecordConfig {
    /// The processes that were named.
    pub(super) fn named(&self) -> &[u32] {
        match &self.targets {
            Targets::Processes(pids) | Targets::Threads { pids, .. } if !pids.is_empty() => pids,
            _ => &self.about,
        }
    }
}

impl Default for RecordConfig {
    fn default() -> RecordConfig {
        RecordConfig {
            targets: Targets::Machine,
            about: Vec::new(),
            clock_hz: Some(CLOCK_HZ),
            switches: Switches::None,
            faults: false,
            wakes: false,
            packets: false,
            probes: Vec::new(),
            user_stack_bytes: None,
            ring_bytes: RING_BYTES,
        }
    }
}

/// Whom to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All that runs.
    Machine,
    /// All that runs on these CPUs.
    Cpus(CpuSet),
    /// These processes, all their threads and those that they make later, and processes that they start.
    Processes(Vec<u32>),
    /// The threads of this name; of these processes, or of all if there are none.
    Threads {
        /// Their name, as `ps -L` shows it: 15 bytes at most.
        name: String,
        /// Their processes.
        pids: Vec<u32>,
    },
    /// The control group at this path, and those below it.
    Group(PathBuf),
}

/// What of switches is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switches {
    /// Nothing.
    #[default]
    None,
    /// Who and when.
    Records,
    /// Also where each thread was that gave its CPU away.
    WithStacks,
}
