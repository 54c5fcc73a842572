//! `Folded`: samples summed by stack, such as `outer;inner 123`. Flame graphs are drawn from this.

use std::collections::{BTreeMap, HashMap};

use crate::names::Names;
use crate::recording::{Recording, Sample};
use crate::stack::{Frame, FrameId, StackId};
use crate::tree::{NameId, NodeId, ROOT, Tree};

/// Weights by stack. A stack is its functions, outermost first, joined by `;`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// The weight of each stack.
    pub lines: BTreeMap<String, u64>,
}

/// What to show below the outermost function of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// The name of the thread.
    #[default]
    Thread,
    /// The name of the process's first thread, then the name of the thread.
    Process,
    /// The CPU, then the name of the thread.
    Cpu,
    /// Nothing below the outermost function.
    Nothing,
}

/// A stack with a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedStack {
    /// The process of the stack.
    pub pid: u32,
    /// The thread of the stack.
    pub tid: u32,
    /// The CPU on which the stack was recorded.
    pub cpu: u32,
    /// The stack, if known.
    pub stack: Option<StackId>,
    /// A label on top of the stack in brackets, such as a reason.
    pub on_top: Option<&'static str>,
    /// The weight of the stack.
    pub weight: u64,
}

impl WeightedStack {
    /// Makes a weighted stack of a sample, with the sample's own weight.
    pub fn sample(sample: &Sample) -> WeightedStack {
        let Sample { pid, tid, cpu, stack, weight, .. } = *sample;
        WeightedStack { pid, tid, cpu, stack: Some(stack), on_top: None, weight }
    }
}

/// Why a line of folded text could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, in line {line}")]
pub struct FoldedError {
    /// What is wrong with the line.
    pub what: String,
    /// The line's number, from 1.
    pub line: usize,
}

impl Base {
    /// The number of names that this base puts below a stack.
    pub fn levels(self) -> u32 {
        match self {
            Base::Thread => 1,
            Base::Process | Base::Cpu => 2,
            Base::Nothing => 0,
        }
    }
}

impl Folded {
    /// Sums the weights of the wanted samples by stack.
    pub fn from_samples<'a>(
        recording: &Recording,
        names: &Names,
        base: Base,
        samples: impl Iterator<Item = &'a Sample>,
    ) -> Folded {
        Folded::from(&tree(recording, names, base, samples.map(WeightedStack::sample)))
    }

    /// Sums these stacks with their given weights.
    pub fn weighted<'a>(
        recording: &Recording,
        names: &Names,
        base: Base,
        samples: impl Iterator<Item = (&'a Sample, u64)>,
    ) -> Folded {
        let seen = samples.map(|(sample, weight)| WeightedStack { weight, ..WeightedStack::sample(sample) });
        Folded::from(&tree(recording, names, base, seen))
    }

    /// Whether a file with this head is folded text: the first line that is not a comment ends in a number.
    /// No other known format has such a line.
    pub fn is_likely(head: &[u8]) -> bool {
        let head = String::from_utf8_lossy(head);
        let mut lines = head.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let number = lines.next().and_then(|line| line.rsplit_once(' ')).map(|(_, number)| number);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Reads folded text of this program, `stackcollapse-perf.pl` and inferno. Skips empty lines and lines that begin with `# `.
    ///
    /// # Errors
    /// If a line does not end in a whole number.
    pub fn parse(text: &str) -> Result<Folded, FoldedError> {
        let mut tree = Tree::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with("# ") {
                continue;
            }
            let malformed = |what: &str| FoldedError { what: what.to_owned(), line: at + 1 };
            let (stack, weight) =
                line.rsplit_once(' ').ok_or_else(|| malformed("a stack and a number after a space are expected"))?;
            let weight = weight.parse().map_err(|_| malformed("a stack does not end in a whole number"))?;
            tree.add_line(stack, weight);
        }
        Ok(Folded::from(&tree))
    }

    /// Adds to the weight of a stack.
    pub fn add(&mut self, line: String, weight: u64) {
        let sum = self.lines.entry(line).or_default();
        *sum = sum.saturating_add(weight);
    }

    /// The total weight.
    pub fn total(&self) -> u64 {
        self.lines.values().fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

impl From<&Tree> for Folded {
    fn from(tree: &Tree) -> Folded {
        let mut folded = Folded::default();
        for node in tree.ordered() {
            let own = tree.nodes()[node as usize].own;
            if own > 0 {
                folded.add(tree.line(node), own);
            }
        }
        folded
    }
}

impl From<&Folded> for Tree {
    fn from(folded: &Folded) -> Tree {
        let mut tree = Tree::default();
        folded.lines.iter().for_each(|(line, weight)| tree.add_line(line, *weight));
        tree
    }
}

/// The key of the first sum, before names are looked up: two numbers for the base, the stack, and the label on top.
type Key = (u32, u32, Option<StackId>, Option<&'static str>);

/// Builds the tree of the stacks. Each stack's names are looked up once, however many samples it has.
pub fn tree(recording: &Recording, names: &Names, base: Base, seen: impl Iterator<Item = WeightedStack>) -> Tree {
    let mut sums: HashMap<Key, u64> = HashMap::new();
    for seen in seen {
        let (first, second) = match base {
            Base::Thread => (0, seen.tid),
            Base::Process => (seen.pid, seen.tid),
            Base::Cpu => (seen.cpu, seen.tid),
            Base::Nothing => (0, 0),
        };
        let sum = sums.entry((first, second, seen.stack, seen.on_top)).or_default();
        *sum = sum.saturating_add(seen.weight);
    }
    // Sort, so that the same recording always gives the same tree.
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable();
    let mut grower = Grower {
        recording,
        names,
        tree: Tree::default(),
        by_frame: vec![None; recording.stacks.frames().len()],
        by_stack: vec![(NodeId::MAX, ROOT); recording.stacks.count()],
    };
    for ((first, second, stack, on_top), weight) in sums {
        let base = grower.base(base, first, second);
        let mut node = stack.map_or(base, |stack| grower.stack(base, stack));
        if let Some(on_top) = on_top {
            let name = grower.tree.name(&format!("[{on_top}]"));
            node = grower.tree.child(node, name);
        }
        grower.tree.add(node, weight);
    }
    grower.tree
}

/// Adds stacks to a tree.
struct Grower<'a> {
    recording: &'a Recording,
    names: &'a Names,
    tree: Tree,
    /// The names of each frame, outermost first. They are computed on demand.
    by_frame: Vec<Option<Vec<NameId>>>,
    /// The node of each stack, valid for the current base, because the sums are sorted by base.
    by_stack: Vec<(NodeId, NodeId)>,
}

impl Grower<'_> {
    fn base(&mut self, base: Base, first: u32, tid: u32) -> NodeId {
        let below = match base {
            Base::Nothing => return ROOT,
            Base::Thread => None,
            Base::Process => Some(thread_name(self.recording, first)),
            Base::Cpu => Some(format!("CPU {first}")),
        };
        let thread = thread_name(self.recording, tid);
        below.into_iter().chain([thread]).fold(ROOT, |node, label| {
            let name = self.tree.name(&label);
            self.tree.child(node, name)
        })
    }

    /// The node of a stack above a base.
    fn stack(&mut self, base: NodeId, stack: StackId) -> NodeId {
        let mut above: Vec<(StackId, FrameId)> = Vec::new();
        let mut next = Some(stack);
        let mut node = base;
        while let Some(at) = next {
            let (known_base, known) = self.by_stack[at.place()];
            if known_base == base {
                node = known;
                break;
            }
            let (frame, below) = self.recording.stacks.top(at);
            above.push((at, frame));
            next = below;
        }
        for (at, frame) in above.into_iter().rev() {
            node = self.frame(node, frame);
            self.by_stack[at.place()] = (base, node);
        }
        node
    }

    fn frame(&mut self, below: NodeId, frame: FrameId) -> NodeId {
        let names = match self.by_frame[frame.place()].take() {
            Some(names) => names,
            None => self.names_of(frame),
        };
        let node = names.iter().fold(below, |node, name| self.tree.child(node, *name));
        self.by_frame[frame.place()] = Some(names);
        node
    }

    fn names_of(&mut self, frame: FrameId) -> Vec<NameId> {
        let named = self.names.get(frame);
        let mark = mark_of(self.recording, self.names, frame);
        if named.functions.is_empty() {
            return vec![self.tree.marked_name(&named.in_place, mark)];
        }
        let marked = |function: &crate::names::Function| if function.is_inlined { "_[i]" } else { mark };
        named.functions.iter().map(|function| self.tree.marked_name(&function.name, marked(function))).collect()
    }
}

/// The suffix that marks a frame's names: kernel code, or code generated at run time.
pub(crate) fn mark_of(recording: &Recording, names: &Names, frame: FrameId) -> &'static str {
    if names.get(frame).is_kernel {
        return "_[k]";
    }
    // If the recording has the frame's name, `perf script` gives the map file as the module of code generated at run time.
    let is_map = |name: &str| name.starts_with("perf-") && name.ends_with(".map") || name.starts_with("jitted-");
    match recording.stacks.frames().get(frame.place()) {
        Some(Frame::Anonymous { .. }) => "_[j]",
        Some(Frame::Named { module: Some(module), .. })
            if recording.modules.get(*module).is_some_and(|module| is_map(module.name())) =>
        {
            "_[j]"
        }
        _ => "",
    }
}

/// A thread's display name.
pub fn thread_name(recording: &Recording, tid: u32) -> String {
    let name = recording.threads.get(&tid).and_then(|thread| thread.name.as_deref());
    match name {
        Some(name) => crate::tree::clean(name),
        // The idle thread has no name record.
        None if tid == 0 => "swapper".to_owned(),
        None => format!("thread {tid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_text_is_read_and_a_wrong_line_is_reported_with_its_number() {
        let folded = Folded::parse("# a remark\n\nmain;f 3\nmain;f 4\r\nmain;[u8: 8];x y 5\n").unwrap();
        let lines: Vec<_> = folded.lines.iter().map(|(line, weight)| (line.as_str(), *weight)).collect();
        assert_eq!(lines, [("main;[u8: 8];x y", 5), ("main;f", 7)]);
        let table = [
            ("main;f", "a stack and a number after a space are expected, in line 1"),
            ("a 1\nmain;f x", "a stack does not end in a whole number, in line 2"),
            ("a -1", "a stack does not end in a whole number, in line 1"),
            ("a 99999999999999999999999", "a stack does not end in a whole number, in line 1"),
        ];
        for (text, expected) in table {
            assert_eq!(Folded::parse(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn folded_text_is_not_taken_for_a_recording() {
        let table: [(&[u8], bool); 6] = [
            (b"# remark\nmain;f 3\n", true),
            (b"main 3", true),
            (b"PERFILE2\x68\0\0\0", false),
            (b"# ========\n# captured on\nswapper     0 [000]   1.2:   250000 cpu-clock:pppH: \n", false),
            (b"", false),
            (b"\n\n", false),
        ];
        for (head, expected) in table {
            assert_eq!(Folded::is_likely(head), expected, "{}", String::from_utf8_lossy(head));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_is_read_is_written_the_same(text in "\\PC*( [0-9]{1,4})?\n?\\PC* [0-9]{1,20}") {
            if let Ok(folded) = Folded::parse(&text) {
                let written: String = folded.lines.iter().map(|(line, weight)| format!("{line} {weight}\n")).collect();
                proptest::prop_assert_eq!(Folded::parse(&written).unwrap(), folded);
            }
        }
    }
}
