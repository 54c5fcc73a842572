//! The options that select a part of a recording: by event, thread, process, CPU and time.

use std::collections::BTreeSet;

use evenkeel_profile::fold::{Base, thread_name};
use evenkeel_profile::graph::Quantity;
use evenkeel_profile::recording::{EventId, Recording, Sample, Span, Unit};
use evenkeel_profile::summary::is_idle;
use serde::Serialize;

use crate::exit;
use crate::failure::Failure;

/// The maximum number of existing names that an error lists.
const NAMES_MAX: usize = 8;
const NS_PER_S: f64 = 1e9;

/// Selects a part of a recording.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Pick {
    /// Only samples of this event [default: the first clock or cycles event]
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Only threads with these names
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    thread: Vec<String>,
    /// Only these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Only these CPUs
    #[arg(long, value_name = "CPU,…", value_delimiter = ',')]
    cpu: Vec<u32>,
    /// Start S seconds after the beginning of the recording
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    from: Option<f64>,
    /// Stop S seconds after the beginning of the recording
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    to: Option<f64>,
}

/// The base of each stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum By {
    /// The thread's name
    #[default]
    Thread,
    /// The process's name, then the thread's
    Process,
    /// The CPU, then the thread's name
    Cpu,
    /// The outermost function
    Nothing,
}

impl By {
    pub(crate) fn base(self) -> Base {
        match self {
            By::Thread => Base::Thread,
            By::Process => Base::Process,
            By::Cpu => Base::Cpu,
            By::Nothing => Base::Nothing,
        }
    }
}

/// The selected part.
#[derive(Debug)]
pub(crate) struct Picked<'a> {
    /// The samples.
    pub(crate) samples: Vec<&'a Sample>,
    /// The samples of the idle thread, which the selection leaves out. Empty if the options name the idle thread.
    pub(crate) idle: Vec<&'a Sample>,
    /// The event of the samples.
    pub(crate) event: String,
    /// The unit of the samples' weights.
    pub(crate) quantity: Quantity,
    /// The selected time.
    pub(crate) span: Span,
}

impl Pick {
    /// Whether no option limits the selection.
    pub(crate) fn is_all(&self) -> bool {
        let Pick { event, thread, pid, cpu, from, to } = self;
        event.is_none() && thread.is_empty() && pid.is_empty() && cpu.is_empty() && from.is_none() && to.is_none()
    }

    /// The selected samples.
    pub(crate) fn select<'a>(&self, recording: &'a Recording) -> Result<Picked<'a>, Failure> {
        let event = self.event(recording)?;
        let span = self.span(recording.span);
        self.check(recording)?;
        let is_wanted = |sample: &&Sample| {
            sample.event == event
                && span.contains(sample.at_ns)
                && self.is_of(recording, sample.pid, sample.tid, sample.cpu)
        };
        let wanted = recording.samples.iter().filter(is_wanted);
        let names_threads = !self.thread.is_empty() || !self.pid.is_empty();
        let (idle, samples) = wanted.partition(|sample| !names_threads && is_idle(recording, sample));
        let known = recording.events.get(usize::from(event));
        let name = known.map_or_else(|| "samples".to_owned(), |event| event.name.clone());
        let quantity = match known.map(|event| event.unit) {
            Some(Unit::Nanoseconds) => Quantity::CpuTime,
            Some(Unit::Events) => Quantity::Other(name.clone()),
            None => Quantity::Samples,
        };
        Ok(Picked { samples, idle, event: name, quantity, span })
    }

    /// Whether the options select this combination of process, thread and CPU.
    pub(crate) fn is_of(&self, recording: &Recording, pid: u32, tid: u32, cpu: u32) -> bool {
        (self.cpu.is_empty() || self.cpu.contains(&cpu)) && self.is_of_thread(recording, pid, tid)
    }

    /// Whether the options select this process and thread.
    pub(crate) fn is_of_thread(&self, recording: &Recording, pid: u32, tid: u32) -> bool {
        (self.pid.is_empty() || self.pid.contains(&pid))
            && (self.thread.is_empty() || self.thread.contains(&thread_name(recording, tid)))
    }

    /// The selected time.
    pub(crate) fn span(&self, whole: Span) -> Span {
        let at = |seconds: f64| whole.start_ns.saturating_add((seconds * NS_PER_S) as u64);
        let start_ns = self.from.map_or(whole.start_ns, at);
        Span { start_ns, end_ns: self.to.map_or(whole.end_ns, at).clamp(start_ns, whole.end_ns.max(start_ns)) }
    }

    fn event(&self, recording: &Recording) -> Result<EventId, Failure> {
        let mut counts = vec![0_u64; recording.events.len()];
        for sample in &recording.samples {
            if let Some(count) = counts.get_mut(usize::from(sample.event)) {
                *count += 1;
            }
        }
        let place = |is: &dyn Fn(usize, &evenkeel_profile::recording::Event) -> bool| {
            recording.events.iter().enumerate().position(|(at, event)| is(at, event))
        };
        let found = match &self.event {
            Some(name) => {
                let same = |event: &evenkeel_profile::recording::Event| {
                    event.name == *name || event.name.split(':').next() == Some(name)
                };
                let found = place(&|_, event| event.name == *name).or_else(|| place(&|_, event| same(event)));
                let names = recording.events.iter().map(|event| event.name.clone());
                Some(found.ok_or_else(|| absent("event", name, names.collect()))?)
            }
            None => place(&|at, event| counts[at] > 0 && event.is_on_cpu())
                .or_else(|| place(&|at, _| counts[at] > 0))
                .or_else(|| place(&|_, event| event.is_on_cpu())),
        };
        Ok(found.unwrap_or(0) as EventId)
    }

    /// Refuses a name that does not occur in the recording.
    /// Otherwise the page would be empty, as if the thread were idle.
    fn check(&self, recording: &Recording) -> Result<(), Failure> {
        let samples = || recording.samples.iter();
        if let Some(name) = self.thread.iter().find(|name| {
            !recording.threads.keys().any(|tid| thread_name(recording, *tid) == **name)
                && !samples().any(|sample| thread_name(recording, sample.tid) == **name)
        }) {
            let parts = evenkeel_profile::summary::threads(recording, samples());
            return Err(absent("thread", name, parts.into_iter().map(|part| part.name).collect()));
        }
        if let Some(pid) = self.pid.iter().find(|pid| !samples().any(|sample| sample.pid == **pid)) {
            let parts = evenkeel_profile::summary::threads(recording, samples());
            return Err(absent(
                "process",
                &pid.to_string(),
                parts.into_iter().map(|part| part.pid.to_string()).collect(),
            ));
        }
        if let Some(cpu) = self.cpu.iter().find(|cpu| !samples().any(|sample| sample.cpu == **cpu)) {
            let cpus: BTreeSet<u32> = samples().map(|sample| sample.cpu).collect();
            return Err(absent("CPU", &cpu.to_string(), cpus.into_iter().map(|cpu| cpu.to_string()).collect()));
        }
        Ok(())
    }
}

/// Refuses a process that does not occur in the recording.
pub(crate) fn check_processes(recording: &Recording, pids: &[u32]) -> Result<(), Failure> {
    let there: BTreeSet<u32> = recording.threads.values().map(|thread| thread.pid).collect();
    match pids.iter().find(|pid| !there.contains(pid)) {
        None => Ok(()),
        Some(pid) => Err(absent("process", &pid.to_string(), there.iter().map(u32::to_string).collect())),
    }
}

fn absent(what: &str, name: &str, names: Vec<String>) -> Failure {
    let mut listed: Vec<String> = Vec::new();
    for name in names {
        if !listed.contains(&name) && listed.len() <= NAMES_MAX {
            listed.push(name);
        }
    }
    let more = if listed.len() > NAMES_MAX { ", …" } else { "" };
    listed.truncate(NAMES_MAX);
    let there = if listed.is_empty() {
        "the recording has none".to_owned()
    } else {
        format!("the recording has {}{more}", listed.join(", "))
    };
    Failure::text(exit::WRONG_USE, "select a part of the recording", format!("{what} {name:?} is not in it; {there}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = crate::times::seconds(text).filter(|seconds| (0.0..=1e9).contains(seconds));
    seconds.ok_or_else(|| "expected the time since the beginning of the recording, for example 1.5 or 500ms".to_owned())
}
