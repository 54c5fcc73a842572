//! `Folded`: samples added up by their stacks, as flame graphs want them: `outer;inner 123`.

use std::collections::{BTreeMap, HashMap};

use crate::names::{Named, Names};
use crate::recording::{Recording, Sample};
use crate::stack::StackId;

/// Weights by stack, each written from the outermost function on, with `;` between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// By stack.
    pub lines: BTreeMap<String, u64>,
}

/// What stands below the outermost function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// The name of the thread.
    #[default]
    Thread,
    /// The name of the process's first thread, then the thread's.
    Process,
    /// The CPU, then the name of the thread.
    Cpu,
    /// Nothing.
    Nothing,
}

impl Folded {
    /// Of those samples that `is_wanted`.
    pub fn of<'a>(
        recording: &Recording,
        names: &Names,
        base: Base,
        samples: impl Iterator<Item = &'a Sample>,
    ) -> Folded {
        Folded::weighted(recording, names, base, samples.map(|sample| (sample, sample.weight)))
    }

    /// The same with weights of the caller's.
    pub fn weighted<'a>(
        recording: &Recording,
        names: &Names,
        base: Base,
        samples: impl Iterator<Item = (&'a Sample, u64)>,
    ) -> Folded {
        let mut sums: HashMap<(String, StackId), u64> = HashMap::new();
        for (sample, weight) in samples {
            let sum = sums.entry((base.of(recording, sample), sample.stack)).or_default();
            *sum = sum.saturating_add(weight);
        }
        let mut folded = Folded::default();
        for ((base, stack), weight) in sums {
            folded.add(line(recording, names, &base, stack), weight);
        }
        folded
    }

    /// Adds to a stack's weight.
    pub fn add(&mut self, line: String, weight: u64) {
        let sum = self.lines.entry(line).or_default();
        *sum = sum.saturating_add(weight);
    }

    /// All weights together.
    pub fn total(&self) -> u64 {
        self.lines.values().fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

impl Base {
    /// The line of a stack of a thread, which of none is its base alone.
    pub(crate) fn line(recording: &Recording, names: &Names, tid: u32, stack: Option<StackId>) -> String {
        let base = Base::name(recording, tid);
        stack.map_or_else(|| base.clone(), |stack| line(recording, names, &base, stack))
    }

    fn name(recording: &Recording, tid: u32) -> String {
        let thread = recording.threads.get(&tid).and_then(|thread| thread.name.as_deref());
        thread.map_or_else(|| format!("thread {tid}"), clean)
    }

    fn of(self, recording: &Recording, sample: &Sample) -> String {
        let name = |tid: u32| Base::name(recording, tid);
        match self {
            Base::Thread => name(sample.tid),
            Base::Process => format!("{};{}", name(sample.pid), name(sample.tid)),
            Base::Cpu => format!("CPU {};{}", sample.cpu, name(sample.tid)),
            Base::Nothing => String::new(),
        }
    }
}

fn line(recording: &Recording, names: &Names, base: &str, stack: StackId) -> String {
    let frames: Vec<&Named> = recording.stacks.innermost_first(stack).map(|frame| names.get(frame)).collect();
    let mut line = base.to_owned();
    for named in frames.iter().rev() {
        let mark = if named.is_kernel { "_[k]" } else { "" };
        let functions = named
            .functions
            .iter()
            .map(|function| (clean(&function.name), if function.is_inlined { "_[i]" } else { mark }));
        let in_place = named.functions.is_empty().then(|| (clean(&named.in_place), mark));
        for (name, mark) in functions.chain(in_place) {
            if !line.is_empty() {
                line.push(';');
            }
            line.push_str(&name);
            line.push_str(mark);
        }
    }
    line
}

/// A name that can stand in a line: without what parts it.
fn clean(name: &str) -> String {
    name.chars().map(|letter| if letter == ';' || letter.is_control() { ':' } else { letter }).collect()
}
