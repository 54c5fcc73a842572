//! The settings of a recording: its events, and the processes, threads or CPUs to record.

use std::path::PathBuf;

use evenkeel_sys::CpuSet;

use super::probe;

/// The size of a CPU's ring buffer in bytes: about a second of switches with stacks on a busy CPU.
pub const RING_BYTES: usize = 1 << 20;

/// The default sampling rate in Hz. It costs almost nothing, and it does not run in step with work that a program does 100 times a second.
pub const CLOCK_HZ: u32 = 99;

/// The settings of a recording.
#[derive(Clone, Debug)]
pub struct RecordConfig {
    /// The processes, threads or CPUs.
    pub targets: Targets,
    /// The processes of interest, if more processes are recorded. At least one of them must exist.
    /// The recording ends when the last process of interest ends.
    pub about: Vec<u32>,
    /// Samples per second, from 1 to 10,000. None takes no samples.
    pub clock_hz: Option<u32>,
    /// Whether to record context switches.
    pub switches: Switches,
    /// Whether to record page faults that wait for a disk, with address and stack.
    pub faults: bool,
    /// Whether to record wake-ups (`sched:sched_waking`), with the stack of the waker.
    pub wakes: bool,
    /// Whether to record which files the processes run. Names of functions need these files. Without stacks, they are not needed.
    pub mappings: bool,
    /// Whether to record each packet that is passed to a network interface (`net:net_dev_queue`).
    pub packets: bool,
    /// Probes in programs.
    pub probes: Vec<probe::Probed>,
    /// How many bytes of the user stack to copy with each sample, for code without frame pointers: a multiple of 8, from 8 to 65,528.
    /// None copies nothing.
    pub user_stack_bytes: Option<u32>,
    /// The size of each CPU's ring buffer, rounded up to a power of two.
    pub ring_bytes: usize,
}

impl RecordConfig {
    /// The processes that the configuration names: the processes of interest, or else the processes to record.
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
    /// These processes with all their threads, and the processes that they start.
    Processes(Vec<u32>),
    /// The threads with a given name.
    Threads {
        /// The name of the threads, as `ps -L` shows it: at most 15 bytes.
        name: String,
        /// The processes whose threads are recorded. Empty means all processes.
        pids: Vec<u32>,
    },
    /// The processes of the control group at this path, and of the groups below it.
    Group(PathBuf),
}

/// How to record switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switches {
    /// No switches.
    #[default]
    None,
    /// Each switch, with thread and time.
    Records,
    /// Each switch, with the stack of the thread that leaves the CPU.
    WithStacks,
}
