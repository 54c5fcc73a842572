//! `Recording`: a recording from any source: samples with stacks, switches, threads and files.
//! Function names come later, from [`Names`](crate::names::Names).

use std::collections::BTreeMap;

use crate::stack::{Frame, Hint, ModuleId, Modules, StackId, Stacks};

/// A recording.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The recorded machine.
    pub machine: Machine,
    /// The events of samples.
    pub events: Vec<Event>,
    /// The threads by number. A reused number has the last name.
    pub threads: BTreeMap<u32, Thread>,
    /// The files with code.
    pub modules: Modules,
    /// Each stack, stored once.
    pub stacks: Stacks,
    /// The samples, sorted by time.
    pub samples: Vec<Sample>,
    /// The switches, sorted by time.
    pub switches: Vec<Switch>,
    /// The mappings, sorted by time. They identify addresses of data, such as the address of a page fault.
    pub mappings: Vec<Mapping>,
    /// Threads that started or ended, sorted by time.
    pub lives: Vec<Life>,
    /// The raw data of tracepoints and probes: see [`Sample::raw`].
    pub raw: Vec<u8>,
    /// Events that were lost.
    pub lost: Lost,
    /// The clock of the recording's times, as a `clockid_t` of clock_gettime(2).
    /// None means the kernel's own clock, which programs can't read.
    pub clock: Option<i32>,
    /// The first and the last time of the recording, on its own clock.
    pub span: Span,
    /// Caveats, for example that the end of the file is missing.
    pub caveats: Vec<RecordingCaveat>,
}

/// A caveat of a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingCaveat {
    /// The end of the file is missing.
    #[error("the end of the file is missing: {why}")]
    EndMissing {
        /// The reason.
        why: String,
    },
    /// The recording program was killed.
    #[error("perf was stopped before it finished the file, so names of events, machine and build IDs are missing")]
    Unfinished,
    /// The recording has more new processes than the reader keeps mappings for.
    #[error("too many processes were created: mappings of later ones are unknown, and their code has no names")]
    TooManyProcesses,
    /// The input has lines that are not from `perf script`.
    #[error("{count} unreadable lines were skipped, the first is line {first}")]
    BadLines {
        /// The number of lines.
        count: u64,
        /// The number of the first unreadable line. Lines count from 1.
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
    /// The start of the span.
    pub start_ns: u64,
    /// The end of the span.
    pub end_ns: u64,
}

impl Span {
    /// The length of the span.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Whether this time lies in the span.
    pub fn contains(&self, at_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at_ns)
    }
}

/// The machine of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The host name.
    pub host: Option<String>,
    /// The kernel release, as in `uname -r`.
    pub kernel: Option<String>,
    /// The architecture, as in `uname -m`.
    pub architecture: Option<String>,
    /// The number of online CPUs.
    pub cpus: Option<u32>,
    /// The command that made the recording.
    pub command: Vec<String>,
    /// The address of the kernel's code (`_text`), if known. The address changes at each boot.
    pub kernel_text: Option<u64>,
}

/// The number of an event: its index in [`Recording::events`].
pub type EventId = u16;

/// A sampled event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The name of the event in perf: `cpu-clock`, `context-switches`, `sched:sched_waking`.
    pub name: String,
    /// The unit of weights.
    pub unit: Unit,
}

impl Event {
    /// Whether the event's samples show what ran on a CPU (clocks and counters).
    /// If false, the samples show single events (switches, faults).
    pub fn is_on_cpu(&self) -> bool {
        const ON_CPU: &[&str] = &["cycles", "instructions", "ref-cycles", "cpu-cycles", "cpu", "cpu_core", "cpu_atom"];
        self.is_clock() || ON_CPU.contains(&self.name_alone())
    }

    /// Whether the event is a clock of a CPU or of a thread: its weights are nanoseconds.
    pub(crate) fn is_clock(&self) -> bool {
        matches!(self.name_alone(), "cpu-clock" | "task-clock")
    }

    /// The name without perf's modifiers, such as the parts after `cpu-clock` in `cpu-clock:pppH` and `cpu-clock/freq=99/`.
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

/// The process and the name of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The process of the thread.
    pub pid: u32,
    /// The name of the thread, if known.
    pub name: Option<String>,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The event that was sampled.
    pub event: EventId,
    /// The time of the sample on the recording's clock.
    pub at_ns: u64,
    /// The CPU of the sample.
    pub cpu: u32,
    /// The process of the sample.
    pub pid: u32,
    /// The thread of the sample.
    pub tid: u32,
    /// The stack of the sample.
    pub stack: StackId,
    /// The weight of the sample in the event's unit.
    pub weight: u64,
    /// The address of the event. Zero if the event has no address.
    pub address: u64,
    /// The offset in [`Recording::raw`] and the length of the raw data.
    /// A tracepoint's data is as the kernel wrote it.
    /// A probe with registers has the mask of registers (`PERF_REG_*`), and then eight bytes for each register.
    pub raw: (u32, u32),
}

/// A switch-in or a switch-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The time of the switch on the recording's clock.
    pub at_ns: u64,
    /// The CPU of the switch.
    pub cpu: u32,
    /// The process of the thread. 0 for idle.
    pub pid: u32,
    /// The thread. 0 for idle.
    pub tid: u32,
    /// Whether the thread got or lost the CPU, and why.
    pub turn: Turn,
    /// The process and thread that ran before or that runs next. None unless whole CPUs were recorded.
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
    /// The time on the recording's clock.
    pub at_ns: u64,
    /// The process of the thread.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The process that created the thread. `None` if this is the end of the thread.
    pub made_by: Option<u32>,
}

/// A new mapping, of a file or of anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The time of the mapping. Zero if the mapping existed before the recording.
    pub at_ns: u64,
    /// The process of the mapping.
    pub pid: u32,
    /// The first address of the mapping.
    pub start: u64,
    /// The address after the last address.
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
    /// How often the kernel paused sampling, because sampling took too much time.
    pub throttled: u64,
    /// Invalid samples, for example without a time.
    pub odd: u64,
    /// Samples whose stack is cut off.
    pub cut_off: u64,
}
