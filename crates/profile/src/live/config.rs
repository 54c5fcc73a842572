//! The settings of a recording: its events, and the processes, threads or CPUs to record.

use std::path::PathBuf;

use evenkeel_sys::CpuSet;

use super::probe;

/// The size of a CPU's ring buffer in bytes: about a second of switches with stacks on a busy CPU.
pub const RING_BYTES: usize = 1 << 20;

/// The default rate: it costs almost nothing, and it is not in step with work that runs 100 times a second.
pub const CLOCK_HZ: u32 = 99;

/// The settings of a recording.
#[derive(Clone, Debug)]
pub struct RecordConfig {
    /// The processes, threads or CPUs.
    pub targets: Targets,
    /// The processes of interest, if more than these are recorded. At least one must exist, and the recording ends with the last.
    pub about: Vec<u32>,
    /// Samples a second, from 1 to 10,000; none for no samples.
    pub clock_hz: Option<u32>,
    /// Whether to record context switches.
    pub switches: Switches,
    /// Page faults that wait for a disk, with address and stack.
    pub faults: bool,
    /// Wake-ups (`sched:sched_waking`), with the waker's stack.
    pub wakes: bool,
    /// Which files the processes run, for names of functions. Not needed without stacks.
    pub mappings: bool,
    /// Each packet passed to a network interface (`net:net_dev_queue`).
    pub packets: bool,
    /// Probes in programs.
    pub probes: Vec<probe::Probed>,
    /// Bytes of the user stack to copy with each sample, for code without frame pointers: 8 to 65,528, a multiple of 8.
    pub user_stack_bytes: Option<u32>,
    /// The size of each CPU's ring buffer, rounded up to a power of two.
    pub ring_bytes: usize,
}

impl RecordConfig {
    /// The named processes.
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
            mappings: true,
            packets: false,
            probes: Vec::new(),
            user_stack_bytes: None,
            ring_bytes: RING_BYTES,
        }
    }
}

/// The processes, threads or CPUs to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// The whole machine.
    Machine,
    /// These CPUs.
    Cpus(CpuSet),
    /// These processes with their threads, also later ones, and the processes that they start.
    Processes(Vec<u32>),
    /// The threads of this name, in these processes or in all if the list is empty.
    Threads {
        /// Their name, as `ps -L` shows it: 15 bytes at most.
        name: String,
        /// Their processes.
        pids: Vec<u32>,
    },
    /// The control group at this path, and those below it.
    Group(PathBuf),
}

/// How to record switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switches {
    /// No switches.
    #[default]
    None,
    /// Thread and time.
    Records,
    /// Switches, with the stack of each thread that leaves a CPU.
    WithStacks,
}
