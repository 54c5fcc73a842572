//! `Recording`: a recording from any source: samples with stacks, switches, threads and files. Function names come later, from
//! [`Names`](crate::names::Names).

use std::collections::BTreeMap;

use crate::stack::{Frame, Hint, ModuleId, Modules, StackId, Stacks};

/// A recording.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The recorded machine.
    pub machine: Machine,
    /// The events of samples.
    pub events: Vec<Event>,
    /// The threads by number. If a number was reused, it has the last name.
    pub threads: BTreeMap<u32, Thread>,
    /// The files with code.
    pub modules: Modules,
    /// Each stack, once.
    pub stacks: Stacks,
    /// In the order of time.
    pub samples: Vec<Sample>,
    /// In the order of time.
    pub switches: Vec<Switch>,
    /// The mappings, sorted by time. They identify addresses of data, such as that of a page fault.
    pub mappings: Vec<Mapping>,
    /// Threads that started or ended, sorted by time.
    pub lives: Vec<Life>,
    /// The raw data of tracepoints and probes: see [`Sample::raw`].
    pub raw: Vec<u8>,
    /// Events that were lost.
    pub lost: Lost,
    /// The clock of its times, by its number for clock_gettime(2); none for the kernel's own clock, which programs can't read.
    pub clock: Option<i32>,
    /// Its first and last time, on its own clock.
    pub span: Span,
    /// Caveats, for example that the end of its file is missing.
    pub caveats: Vec<RecordingCaveat>,
}

/// A caveat of a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingCaveat {
    /// The end of its file is missing.
    #[error("the end of the file is missing: {why}")]
    EndMissing {
        /// The reason.
        why: String,
    },
    /// The program that recorded was killed.
    #[error("perf was stopped before it finished the file, so names of events, machine and build IDs are missing")]
    Unfinished,
    /// More processes were created than the reader keeps mappings for.
    #[error("too many processes were created: mappings of later ones are unknown, and their code has no names")]
    TooManyProcesses,
    /// Lines that are not from `perf script`.
    #[error("{count} unreadable lines were skipped, the first is line {first}")]
    BadLines {
        /// How many.
        count: u64,
        /// The number of the first, from 1.
        first: usize,
    },
}

impl Recording {
    /// Drops the stacks of all samples except wanted ones, so that other threads need no names.
    pub fn keep_stacks(&mut self, is_wanted: impl Fn(&Sample) -> bool) {
        let wanted = self.samples.iter().filter(|sample| is_wanted(sample)).map(|sample| sample.stack);
        let (mut stacks, became) = self.stacks.only(wanted);
        let not_asked = stacks.intern([Frame::Hint(Hint::NotAsked)]);
        for sample in &mut self.samples {
            let kept = if is_wanted(sample) { became.get(&sample.stack).copied() } else { None };
            sample.stack = kept.unwrap_or(not_asked);
        }
        self.stacks = stacks;
    }
}

/// A time span in nanoseconds of the recording's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Its start.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

impl Span {
    /// How long.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Whether a time lies in it.
    pub fn contains(&self, at_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at_ns)
    }
}

/// The machine of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its host name.
    pub host: Option<String>,
    /// Its kernel, as in `uname -r`.
    pub kernel: Option<String>,
    /// Its architecture, as in `uname -m`.
    pub architecture: Option<String>,
    /// How many CPUs are online.
    pub cpus: Option<u32>,
    /// The command that made the recording.
    pub command: Vec<String>,
    /// The address of its kernel's code (`_text`), if known. It changes at each boot.
    pub kernel_text: Option<u64>,
}

/// Number of an event of a recording: its place in [`Recording::events`].
pub type EventId = u16;

/// A sampled event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name in perf: `cpu-clock`, `context-switches`, `sched:sched_waking`.
    pub name: String,
    /// The unit of weights.
    pub unit: Unit,
}

impl Event {
    /// Whether its samples show what ran on a CPU (clocks and counters), instead of single events (switches, faults).
    pub fn is_on_cpu(&self) -> bool {
        const ON_CPU: &[&str] = &["cycles", "instructions", "ref-cycles", "cpu-cycles", "cpu", "cpu_core", "cpu_atom"];
        self.is_clock() || ON_CPU.contains(&self.name_alone())
    }

    /// Whether it is a clock of a CPU or of a thread: its weights are nanoseconds.
    pub(crate) fn is_clock(&self) -> bool {
        matches!(self.name_alone(), "cpu-clock" | "task-clock")
    }

    /// The name without perf's modifiers: `cpu-clock:pppH`, `cpu-clock/freq=99/`.
    fn name_alone(&self) -> &str {
        self.name.split([':', '/']).next().unwrap_or(&self.name)
    }
}

/// The unit of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds of CPU time.
    Nanoseconds,
    /// Events, such as cycles or faults.
    Events,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Its name, if known.
    pub name: Option<String>,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its event.
    pub event: EventId,
    /// Its time on the recording's clock.
    pub at_ns: u64,
    /// Its CPU.
    pub cpu: u32,
    /// Its process.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// Its stack.
    pub stack: StackId,
    /// Its weight in the event's unit.
    pub weight: u64,
    /// The event's address; zero if it has none.
    pub address: u64,
    /// A tracepoint's data: its offset in [`Recording::raw`] and its length. For a probe with registers: the mask of registers (`PERF_REG_*`), then
    /// each register, eight bytes each.
    pub raw: (u32, u32),
}

/// A switch-in or a switch-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its time on the recording's clock.
    pub at_ns: u64,
    /// Its CPU.
    pub cpu: u32,
    /// Its process; 0 for idle.
    pub pid: u32,
    /// The thread; 0 for idle.
    pub tid: u32,
    /// In or out.
    pub turn: Turn,
    /// The process and thread that ran before or runs next. Known only if whole CPUs were recorded.
    pub other: Option<(u32, u32)>,
}

/// The kind of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The thread got a CPU.
    In,
    /// The thread went to sleep.
    Slept,
    /// The thread lost the CPU while it was runnable.
    Preempted,
}

/// A thread started or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its time on the recording's clock.
    pub at_ns: u64,
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its parent process. `None` if that ended.
    pub made_by: Option<u32>,
}

/// A new mapping, of a file or of anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its time; zero if it existed before the recording.
    pub at_ns: u64,
    /// Its process.
    pub pid: u32,
    /// Its first address.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// The mapped file.
    pub module: ModuleId,
}

/// The events that a recording lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Records that were not read in time.
    pub records: u64,
    /// Samples that the kernel or the hardware lost.
    pub samples: u64,
    /// How often the kernel paused sampling, because it took too much time.
    pub throttled: u64,
    /// Invalid samples, for example without a time.
    pub odd: u64,
    /// Samples whose stack is cut off.
    pub cut_off: u64,
}
