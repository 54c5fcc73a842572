//! Judges the shares: shape, cause and caveats.

use std::collections::BTreeSet;

use super::{Cause, Cpu, FULL, IDLE, Imbalance, ImbalanceCaveat, Shape, Source, Thread};
use crate::recording::Recording;

/// If one thread does at least this share of a CPU's work, the thread is the cause.
const ALONE: f64 = 0.85;
/// If interrupts are at least this share of a CPU's work, interrupts are the cause.
const INTERRUPTED: f64 = 0.5;
/// A recording that is shorter than this gets a caveat.
const SHORT_NS: u64 = 2_000_000_000;
/// If at least this share of the time is unknown, the result gets a caveat.
const UNKNOWN_MIN: f64 = 0.01;

impl Imbalance {
    /// Sets shape, cause and caveats. `longest` is the thread with the most time on all CPUs together.
    pub(super) fn judge(&mut self, recording: &Recording, longest: Option<Thread>) {
        let is_counted = self.source == Source::Counter;
        self.shape = if is_counted { Shape::Unknown } else { shape(self.cpus.iter().map(|cpu| cpu.busy_share)) };
        let part = |part: usize| shape(self.cpus.iter().filter_map(|cpu| cpu.parts.get(part).copied()));
        let parts = self.cpus.iter().map(|cpu| cpu.parts.len()).max().unwrap_or(0);
        if !is_counted {
            self.uneven_parts = (0..parts).filter(|at| part(*at) == Shape::Uneven).count();
        }
        let always = longest.filter(|thread| thread.share.is_some_and(|share| share >= FULL));
        if let (Shape::Even, Some(thread)) = (self.shape, always) {
            self.shape = Shape::OneThread;
            self.cause = Some(Cause::OneThread);
            self.thread = Some(thread);
        } else if self.shape != Shape::Even {
            self.why();
        }
        self.caveats = self.caveats(recording);
    }

    fn why(&mut self) {
        let Some(cpu) = self.cpus.iter().find(|cpu| Some(cpu.cpu) == self.busiest) else { return };
        let Some(first) = cpu.threads.first() else { return };
        let interrupts = self.filled.as_ref().and_then(|filled| Some(filled.softirq_share? + filled.irq_share?));
        if interrupts.is_some_and(|share| share >= INTERRUPTED) {
            self.cause = Some(Cause::Interrupts);
        } else if first.work_share >= ALONE {
            self.cause = Some(Cause::OneThread);
            self.thread = Some(first.clone());
        } else {
            self.cause = Some(placed(cpu, &self.full_cpus()));
        }
    }

    /// The CPUs that were full. If no CPU was full, the busiest CPU.
    pub fn full_cpus(&self) -> BTreeSet<u32> {
        let full = self.cpus.iter().filter(|cpu| self.source != Source::Counter && cpu.busy_share >= FULL);
        let full: BTreeSet<u32> = full.map(|cpu| cpu.cpu).collect();
        if full.is_empty() { self.busiest.into_iter().collect() } else { full }
    }

    fn caveats(&self, recording: &Recording) -> Vec<ImbalanceCaveat> {
        let is_whole = recording.switches.iter().any(|switch| switch.other.is_some())
            || recording.samples.iter().any(|sample| sample.tid == 0);
        let is_close = |cpu: &Cpu| {
            let error = cpu.error_share.unwrap_or(0.0).max(cpu.unknown_share);
            [FULL, IDLE].iter().any(|limit| error > 0.0 && (cpu.busy_share - limit).abs() <= error)
        };
        let is_silent = |cpu: &Cpu| cpu.unknown_share >= 1.0;
        let lost = &recording.lost;
        let has_clock = recording.events.iter().any(|event| matches!(event.name.as_str(), "cpu-clock" | "task-clock"));
        let filled = self.filled.as_ref();
        let table = [
            (ImbalanceCaveat::SomeOnly, !is_whole),
            (ImbalanceCaveat::Short, self.length_ns < SHORT_NS),
            (
                ImbalanceCaveat::Lost,
                lost.records + lost.samples > 0
                    || self.cpus.iter().any(|cpu| cpu.unknown_share > UNKNOWN_MIN && !is_silent(cpu)),
            ),
            (ImbalanceCaveat::Close, self.cpus.iter().any(|cpu| !is_silent(cpu) && is_close(cpu))),
            (ImbalanceCaveat::InterruptsUnseen, filled.is_some() && has_clock),
            (ImbalanceCaveat::KernelUnnamed, filled.is_some_and(|filled| filled.softirq_share.is_none())),
            (ImbalanceCaveat::NoStacks, filled.is_none()),
            (ImbalanceCaveat::SilentCpus, self.cpus.iter().any(is_silent)),
        ];
        table.into_iter().filter(|(_, is_so)| *is_so).map(|(caveat, _)| caveat).collect()
    }
}

fn shape(shares: impl Iterator<Item = f64>) -> Shape {
    let (mut any, mut has_full, mut has_idle) = (false, false, false);
    for share in shares {
        any = true;
        has_full |= share >= FULL;
        has_idle |= share <= IDLE;
    }
    match (any, has_full, has_idle) {
        (false, ..) => Shape::Unknown,
        (true, false, _) => Shape::Even,
        (true, true, true) => Shape::Uneven,
        (true, true, false) => Shape::Full,
    }
}

/// Why a full CPU with several threads is busy: whether most of their work could run on a CPU that is not full.
fn placed(cpu: &Cpu, full: &BTreeSet<u32>) -> Cause {
    let (mut pinned, mut free, mut unknown) = (0.0, 0.0, 0.0);
    for thread in &cpu.threads {
        let is_elsewhere = |cpus: &[u32]| cpus.iter().any(|cpu| !full.contains(cpu));
        match &thread.may_run_on_cpus {
            Some(cpus) if is_elsewhere(cpus) => free += thread.work_share,
            Some(_) => pinned += thread.work_share,
            None if is_elsewhere(&thread.seen_on_cpus) => free += thread.work_share,
            None => unknown += thread.work_share,
        }
    }
    if pinned >= free && pinned >= unknown && pinned > 0.0 {
        Cause::Pinned
    } else if free >= unknown {
        Cause::Together
    } else {
        Cause::Several
    }
}
