//! `Recording`: what was seen of a machine for a while, whoever recorded it: samples with their stacks, switches, the threads and files that
//! they are of. It is data; names of functions come later, from [`Names`](crate::names::Names).

use std::collections::BTreeMap;

use crate::stack::{Frame, Hint, ModuleId, Modules, StackId, Stacks};

/// A recording.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The machine that it was made on.
    pub machine: Machine,
    /// The events that samples are of.
    pub events: Vec<Event>,
    /// The threads, by their number. One that another one took over is told by its last name.
    pub threads: BTreeMap<u32, Thread>,
    /// The files that code was in.
    pub modules: Modules,
    /// Every stack that was seen, once.
    pub stacks: Stacks,
    /// In the order of time.
    pub samples: Vec<Sample>,
    /// In the order of time.
    pub switches: Vec<Switch>,
    /// What was mapped where, in the order of time: an address of data, such as a page fault's, is told by it.
    pub mappings: Vec<Mapping>,
    /// Which threads began and ended meanwhile, in the order of time.
    pub lives: Vec<Life>,
    /// What samples of tracepoints and of places in programs carry: see [`Sample::raw`].
    pub raw: Vec<u8>,
    /// What is missing.
    pub lost: Lost,
    /// The clock of all its times, as clock_gettime(2) numbers it; none for the kernel's own, which no program can read.
    pub clock: Option<i32>,
    /// The first and the last moment of which something is told, on the recording's clock.
    pub span: Span,
    /// What to doubt of it, such as that its file ends too early.
    pub doubts: Vec<RecordingCaveat>,
}

/// Why a recording is not all that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingCaveat {
    /// Its file ends too early.
    #[error("its end is missing, and was not read: {why}")]
    EndMissing {
        /// What is wrong there.
        why: String,
    },
    /// The program that recorded was killed.
    #[error("perf did not come to its end: what it writes last is missing")]
    Unfinished,
    /// More processes were made than whose maps are kept.
    #[error(
        "so many processes were made that what later ones have from their parents is not told: their code has no names"
    )]
    TooManyProcesses,
    /// Lines that are none of `perf script`.
    #[error("lines that could not be read were passed over: {count}, the first is line {first}")]
    BadLines {
        /// How many.
        count: u64,
        /// The first of them, from 1.
        first: usize,
    },
}

impl Recording {
    /// Forgets the stacks of all samples but those that `is_wanted`: who asks of a few threads need not find names for all others.
    pub fn keep_stacks(&mut self, is_wanted: impl Fn(&Sample) -> bool) {
        let wanted = self.samples.iter().filter(|sample| is_wanted(sample)).map(|sample| sample.stack);
        let (mut stacks, became) = self.stacks.only(wanted);
        let not_asked = stacks.of([Frame::Hint(Hint::NotAsked)]);
        for sample in &mut self.samples {
            let kept = if is_wanted(sample) { became.get(&sample.stack).copied() } else { None };
            sample.stack = kept.unwrap_or(not_asked);
        }
        self.stacks = stacks;
    }
}

/// From one moment up to another, in nanoseconds of the recording's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub start_ns: u64,
    /// Up to here.
    pub end_ns: u64,
}

impl Span {
    /// How long.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Whether a moment lies in it.
    pub fn contains(&self, at_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at_ns)
    }
}

/// Where a recording was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub host: Option<String>,
    /// Its kernel, as `uname -r` has it.
    pub kernel: Option<String>,
    /// Its architecture, as `uname -m` has it.
    pub architecture: Option<String>,
    /// How many CPUs are online.
    pub cpus: Option<u32>,
    /// The command that made the recording.
    pub command: Vec<String>,
    /// Where its kernel's code began (`_text`), where that was told: it is another place after each boot.
    pub kernel_text: Option<u64>,
}

/// Number of an event of a recording: its place in [`Recording::events`].
pub type EventId = u16;

/// What samples are taken of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name as perf has it: `cpu-clock`, `context-switches`, `sched:sched_waking`.
    pub name: String,
    /// What a sample's weight counts.
    pub unit: Unit,
}

impl Event {
    /// Whether its samples say what ran on a CPU: a clock's or a counter's do, a switch's or a fault's say what happened.
    pub fn is_on_cpu(&self) -> bool {
        const ON_CPU: &[&str] = &["cycles", "instructions", "ref-cycles", "cpu-cycles", "cpu", "cpu_core", "cpu_atom"];
        self.is_clock() || ON_CPU.contains(&self.name_alone())
    }

    /// Whether it is a clock of a CPU or of a thread: its weights are nanoseconds.
    pub(crate) fn is_clock(&self) -> bool {
        matches!(self.name_alone(), "cpu-clock" | "task-clock")
    }

    /// Without what perf writes behind it: `cpu-clock:pppH`, `cpu-clock/freq=99/`.
    fn name_alone(&self) -> &str {
        self.name.split([':', '/']).next().unwrap_or(&self.name)
    }
}

/// What a weight counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds of a CPU.
    Nanoseconds,
    /// Events, such as cycles or faults.
    Events,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Its name, if it was told.
    pub name: Option<String>,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Of which event.
    pub event: EventId,
    /// When, on the recording's clock.
    pub at_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// Of which process.
    pub pid: u32,
    /// Of which thread.
    pub tid: u32,
    /// Where it was.
    pub stack: StackId,
    /// How much it stands for, in the event's unit.
    pub weight: u64,
    /// The address that the event is about; zero where it has none.
    pub address: u64,
    /// A tracepoint's own bytes: where in [`Recording::raw`], and how many. Of a place in a program that was asked for registers: which those
    /// are (`PERF_REG_*`, one bit each), then each in that order, eight bytes all.
    pub raw: (u32, u32),
}

/// A thread was given a CPU, or gave it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When, on the recording's clock.
    pub at_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// Its process; 0 of the idle one.
    pub pid: u32,
    /// The thread; 0 is the idle one.
    pub tid: u32,
    /// Which of the two.
    pub turn: Turn,
    /// The process and thread that ran before it, or runs after it; told only where whole CPUs were watched.
    pub other: Option<(u32, u32)>,
}

/// What happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It was given a CPU.
    In,
    /// It went to sleep.
    Slept,
    /// It lost the CPU while it still had something to do.
    Preempted,
}

/// A thread began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// When, on the recording's clock.
    pub at_ns: u64,
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The process of the one that made it; none where it ended.
    pub made_by: Option<u32>,
}

/// A file, or memory of none, was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// When; zero for those that were there before.
    pub at_ns: u64,
    /// Into which process.
    pub pid: u32,
    /// From where.
    pub start: u64,
    /// Up to where.
    pub end: u64,
    /// What.
    pub module: ModuleId,
}

/// What a recording lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Records that nobody read in time.
    pub records: u64,
    /// Samples that the kernel or the hardware lost.
    pub samples: u64,
    /// How often the kernel stopped sampling for a while, because it took too much.
    pub throttled: u64,
    /// Records of samples that could not be used, because they lack a time or say what can't be.
    pub odd: u64,
    /// Samples whose stack goes on beyond what could be followed of it.
    pub cut_off: u64,
}
