//! Recording: what a machine, a process, a thread or a control group does, through perf_event_open(2), into a whole `perf.data` file.
//!
//! One ring a CPU is read now and then, and its records go to a [`Sink`] as the kernel wrote them: a file, memory, or a window that keeps
//! the last seconds. What comes out is read by the reader of such files, so that live and recorded data go one way.

mod already;
mod build_ids;
mod chosen;
mod events;
mod lives;
mod order;
mod pace;
pub mod probe;
mod recorder;
mod sink;
mod targets;
mod waking;
mod window;

use std::path::PathBuf;

use evenkeel_sys::{CpuSet, Errno};

pub use recorder::record;
pub use sink::{FileSink, Memory, Sink};
pub use window::{Outlet, Window};

/// Room of a CPU's ring: about a second of a busy CPU's switches with their stacks.
pub const RING_BYTES: usize = 1 << 20;
/// The usual rate: next to no cost, and no multiple of what machines do each hundredth of a second.
pub const CLOCK_HZ: u32 = 99;

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct Wishes {
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

impl Wishes {
    /// The processes that were named.
    fn named(&self) -> &[u32] {
        match &self.targets {
            Targets::Processes(pids) | Targets::Threads { pids, .. } if !pids.is_empty() => pids,
            _ => &self.about,
        }
    }
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
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

/// How a recording goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Since it began, in nanoseconds.
    pub elapsed_ns: u64,
    /// Samples of all events.
    pub samples: u64,
    /// Switches.
    pub switches: u64,
    /// Records that found no room.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
    /// Bytes of records.
    pub bytes: u64,
}

/// What became of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The last count of all.
    pub status: Status,
    /// The processes that it was about and with the last of which it ended; none if something else ended it.
    pub ended_with: Vec<u32>,
    /// The event that says what runs, such as `cpu-clock`; none if that was not asked.
    pub clock: Option<String>,
    /// Each event that is sampled, and its samples.
    pub events: Vec<(String, u64)>,
    /// What cannot be seen in it.
    pub unseen: Vec<Unseen>,
}

/// Something that cannot be seen in a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// What, and why, in one sentence.
    pub what: String,
    /// The processes of which it cannot be seen; empty if it concerns all.
    pub of: Vec<u32>,
}

impl From<String> for Unseen {
    fn from(what: String) -> Unseen {
        Unseen { what, of: Vec::new() }
    }
}

/// Whether the places that are wished can be recorded.
///
/// # Errors
/// [`LiveError::NoProbe`].
pub fn try_probes(wishes: &Wishes) -> Result<(), LiveError> {
    events::try_probes(wishes, &targets::cpus(wishes))
}

fn numbers(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl Told {
    /// Who had ended when it did, if that is why: `process 7`, `the last of processes 7, 8`.
    pub fn ended_with(&self) -> Option<String> {
        match self.ended_with.as_slice() {
            [] => None,
            [pid] => Some(format!("process {pid}")),
            pids => Some(format!("the last of processes {}", numbers(pids))),
        }
    }

    /// What cannot be seen in it of these processes, a sentence each; of all, if there are none.
    pub fn unseen_of(&self, pids: &[u32]) -> Vec<String> {
        let concerns = |of: &[u32]| pids.is_empty() || of.is_empty() || of.iter().any(|pid| pids.contains(pid));
        self.unseen.iter().filter(|unseen| concerns(&unseen.of)).map(|unseen| unseen.what.clone()).collect()
    }
}

/// Why there is no recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// This user may not.
    #[error("record {whom}: {errno}, since {why}")]
    Denied {
        /// Whom.
        whom: String,
        /// What the kernel said.
        errno: Errno,
        /// What stands against it.
        why: String,
        /// The one command that mends it.
        mend: String,
    },
    /// What is to be recorded is not there.
    #[error("record {whom}: {why}")]
    NotThere {
        /// Whom.
        whom: String,
        /// Why.
        why: String,
    },
    /// A wish that can't be meant.
    #[error("record {whom}: {why}")]
    WrongUse {
        /// Whom.
        whom: String,
        /// Why.
        why: String,
    },
    /// A place in a program can't be recorded.
    #[error("record each time that {event} is run: {errno}, since {why}")]
    NoProbe {
        /// The place.
        event: String,
        /// What the kernel said.
        errno: Errno,
        /// What stands against it.
        why: String,
        /// What mends it, or does without.
        mend: String,
    },
    /// What is run so often is no tick, and to record it costs the program too much.
    #[error("{event} is run {per_s} times a second: that is no tick, and the recording was ended before it cost more")]
    TooOften {
        /// The place.
        event: String,
        /// How often.
        per_s: u64,
    },
    /// The kernel said no to something else.
    #[error("{what}: {errno}")]
    Refused {
        /// What was asked.
        what: String,
        /// What the kernel said.
        errno: Errno,
    },
    /// The recording could not be written.
    #[error("write the recording: {0}")]
    Write(Errno),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_is_not_missed() {
        let unseen = ["which files are run by 1 of the processes: …", "who wakes whom"].map(str::to_owned);
        let mut told = Told { unseen: unseen.iter().cloned().map(Unseen::from).collect(), ..Told::default() };
        told.unseen[0].of.push(1);
        let table: [(&[u32], &[String]); 4] =
            [(&[], &unseen), (&[7], &unseen[1..]), (&[7, 1], &unseen), (&[7, 8], &unseen[1..])];
        for (pids, expected) in table {
            assert_eq!(told.unseen_of(pids), expected, "{pids:?}");
        }
    }
}
