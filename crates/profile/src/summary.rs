//! Summaries of a recording: functions, CPUs, threads, and code without names.

use std::collections::{BTreeMap, HashMap};

use crate::fold::thread_name;
use crate::names::Names;
use crate::recording::{Event, Recording, Sample};
use crate::stack::FrameId;
use crate::tree::{Kind, NameId, ROOT, Tree, clean};

/// A function of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name of the function, without the suffix for its kind.
    pub name: String,
    /// The kind of code.
    pub kind: Kind,
    /// The weight of the function's own code, including inlined functions.
    pub own: u64,
    /// The weight of the function with its callees. A stack that contains the function several times counts once.
    pub with: u64,
    /// The inlined function with most weight.
    pub inlined: Option<(String, u64)>,
}

/// A tree's functions by weight. Inlined functions count for the function that contains them.
pub fn functions(tree: &Tree) -> Vec<Function> {
    let kinds: Vec<(Kind, &str)> = (0..tree.name_count()).map(|name| Kind::parse(tree.text(name as NameId))).collect();
    let is_inlined = |name: NameId| kinds[name as usize].0 == Kind::Inlined;
    // The function that contains each node's code. An inlined frame without a known container counts for itself.
    let mut owners: Vec<NameId> = vec![0; tree.nodes().len()];
    let mut own: HashMap<NameId, u64> = HashMap::new();
    let mut inlined: HashMap<(NameId, NameId), u64> = HashMap::new();
    for (at, node) in tree.nodes().iter().enumerate().skip(1) {
        let below = owners[node.parent as usize];
        let owner = if is_inlined(node.name) && node.parent != ROOT { below } else { node.name };
        owners[at] = owner;
        if node.own > 0 {
            add(own.entry(owner).or_default(), node.own);
            if owner != node.name {
                add(inlined.entry((owner, node.name)).or_default(), node.own);
            }
        }
    }
    let mut most: HashMap<NameId, (u64, NameId)> = HashMap::new();
    for ((owner, name), weight) in inlined {
        let best = most.entry(owner).or_insert((weight, name));
        if (weight, std::cmp::Reverse(name)) > (best.0, std::cmp::Reverse(best.1)) {
            *best = (weight, name);
        }
    }
    let with = tree.by_name();
    let mut functions: Vec<(NameId, Function)> = (1..tree.name_count() as NameId)
        .filter(|name| with[*name as usize].1 > 0 && (!is_inlined(*name) || own.contains_key(name)))
        .map(|name| {
            let (kind, bare) = kinds[name as usize];
            let inlined = most.get(&name).map(|(weight, inner)| (kinds[*inner as usize].1.to_owned(), *weight));
            let own = own.get(&name).copied().unwrap_or(0);
            (name, Function { name: bare.to_owned(), kind, own, with: with[name as usize].1, inlined })
        })
        .collect();
    functions.sort_by(|(a_name, a), (b_name, b)| (b.own, b.with, a_name).cmp(&(a.own, a.with, b_name)));
    functions.into_iter().map(|(_, function)| function).collect()
}

/// The samples of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The number of the CPU.
    pub cpu: u32,
    /// The number of samples.
    pub samples: u64,
    /// The weight of the samples.
    pub weight: u64,
    /// The weight of the idle thread's samples, which no other sum includes.
    pub idle: u64,
    /// The thread with most weight, and its weight.
    pub thread: (String, u64),
    /// The function with most weight, and its weight.
    pub function: (String, u64),
}

/// Whether a sample shows that a CPU was idle: it is a sample of running code, and the idle thread ran.
pub fn is_idle(recording: &Recording, sample: &Sample) -> bool {
    let event = recording.events.get(usize::from(sample.event));
    sample.pid == 0 && sample.tid == 0 && event.is_some_and(Event::is_on_cpu)
}

/// Sums samples by CPU. `idle` are samples of the idle thread, which do not count as work.
pub fn cpus<'a>(
    recording: &Recording,
    names: &Names,
    samples: impl Iterator<Item = &'a Sample>,
    idle: impl Iterator<Item = &'a Sample>,
) -> Vec<Cpu> {
    #[derive(Default)]
    struct Sums {
        samples: u64,
        weight: u64,
        idle: u64,
        threads: BTreeMap<u32, u64>,
        frames: BTreeMap<FrameId, u64>,
    }
    let mut by_cpu: BTreeMap<u32, Sums> = BTreeMap::new();
    for sample in samples {
        let sums = by_cpu.entry(sample.cpu).or_default();
        sums.samples += 1;
        add(&mut sums.weight, sample.weight);
        add(sums.threads.entry(sample.tid).or_default(), sample.weight);
        add(sums.frames.entry(recording.stacks.top(sample.stack).0).or_default(), sample.weight);
    }
    idle.for_each(|sample| add(&mut by_cpu.entry(sample.cpu).or_default().idle, sample.weight));
    by_cpu
        .into_iter()
        .map(|(cpu, sums)| Cpu {
            cpu,
            samples: sums.samples,
            weight: sums.weight,
            idle: sums.idle,
            thread: most(sums.threads.into_iter().map(|(tid, weight)| (thread_name(recording, tid), weight))),
            function: most(sums.frames.into_iter().map(|(frame, weight)| (leaf_name(names, frame), weight))),
        })
        .collect()
}

/// The samples of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPart {
    /// The process of the thread.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The name of the thread.
    pub name: String,
    /// The number of samples.
    pub samples: u64,
    /// The weight of the samples.
    pub weight: u64,
}

/// Sums samples by thread, the thread with most weight first.
pub fn threads<'a>(recording: &Recording, samples: impl Iterator<Item = &'a Sample>) -> Vec<ThreadPart> {
    let mut by_thread: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for sample in samples {
        let sums = by_thread.entry((sample.pid, sample.tid)).or_default();
        sums.0 += 1;
        add(&mut sums.1, sample.weight);
    }
    let mut parts: Vec<ThreadPart> = by_thread
        .into_iter()
        .map(|((pid, tid), (samples, weight))| ThreadPart {
            pid,
            tid,
            name: thread_name(recording, tid),
            samples,
            weight,
        })
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.weight));
    parts
}

/// The weight of code without names, by the text that is shown instead of a name.
pub fn unnamed(tree: &Tree) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for node in tree.nodes().iter().skip(1).filter(|node| node.own > 0) {
        let (_, bare) = Kind::parse(tree.text(node.name));
        if bare.starts_with('[') && bare.ends_with(']') {
            add(sums.entry(bare).or_default(), node.own);
        }
    }
    let mut sums: Vec<(String, u64)> = sums.into_iter().map(|(name, weight)| (name.to_owned(), weight)).collect();
    sums.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    sums
}

fn leaf_name(names: &Names, frame: FrameId) -> String {
    let named = names.get(frame);
    clean(named.functions.first().map_or(named.in_place.as_str(), |function| &function.name))
}

fn most(parts: impl Iterator<Item = (String, u64)>) -> (String, u64) {
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    parts.for_each(|(name, weight)| add(by_name.entry(name).or_default(), weight));
    by_name.into_iter().max_by_key(|(_, weight)| *weight).unwrap_or_default()
}

fn add(sum: &mut u64, weight: u64) {
    *sum = sum.saturating_add(weight);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Folded;
    use crate::recording::Unit;
    use crate::stack::{Frame, Hint};

    #[test]
    fn the_idle_thread_does_no_work() {
        let mut recording = Recording::default();
        for name in ["cpu-clock:pppH", "context-switches"] {
            recording.events.push(Event { name: name.to_owned(), unit: Unit::Nanoseconds });
        }
        let stack = recording.stacks.intern([Frame::Hint(Hint::NotAsked)]);
        let sample = |event, cpu, tid, weight| {
            let raw = (0, 0);
            Sample { event, at_ns: 1, cpu, pid: tid, tid, stack, weight, address: 0, raw }
        };
        let samples = [sample(0, 0, 0, 60), sample(0, 0, 7, 30), sample(0, 0, 7, 5), sample(0, 1, 0, 90)];
        let (idle, busy): (Vec<&Sample>, Vec<&Sample>) = samples.iter().partition(|sample| is_idle(&recording, sample));
        let names = Names::resolve(&recording, |_| Vec::new());
        let cpus = cpus(&recording, &names, busy.into_iter(), idle.into_iter());
        let rows: Vec<_> =
            cpus.iter().map(|cpu| (cpu.cpu, cpu.samples, cpu.weight, cpu.idle, &*cpu.thread.0)).collect();
        assert_eq!(rows, [(0, 2, 35, 60, "thread 7"), (1, 0, 0, 90, "")]);
        assert!(!is_idle(&recording, &sample(1, 0, 0, 1)), "the idle thread switches to a thread that works");
    }

    #[test]
    fn inlined_code_counts_for_the_containing_function() {
        let text = "main;update;hash_[i] 6\nmain;update;hash_[i];mix_[i] 2\nmain;update 2\nmain;read_[k] 5\nmain;[libc.so.6] 1";
        let tree = Tree::from(&Folded::parse(text).unwrap());
        let rows: Vec<_> = functions(&tree).into_iter().map(|one| (one.name, one.own, one.with, one.inlined)).collect();
        let row = |name: &str, own, with, inlined: Option<(&str, u64)>| {
            (name.to_owned(), own, with, inlined.map(|(name, weight)| (name.to_owned(), weight)))
        };
        let expected = [
            row("update", 10, 10, Some(("hash", 6))),
            row("read", 5, 5, None),
            row("[libc.so.6]", 1, 1, None),
            row("main", 0, 16, None),
        ];
        assert_eq!(rows, expected);
        assert_eq!(unnamed(&tree), [("[libc.so.6]".to_owned(), 1)]);
    }
}
