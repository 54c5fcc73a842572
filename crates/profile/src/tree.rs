//! `Tree`: stacks added up as a tree of functions, each name kept once. Folded text, graphs and tables are all made of it, so that no two
//! of them can disagree, and none has to take lines of text apart.

use std::collections::HashMap;

use evenkeel_hostfs::characters;
use rustc_hash::FxHashMap;

/// Stacks deeper than this end in [`MORE`]: recursion without an end has as many frames as it is given.
pub const DEPTH_MAX: u32 = 1024;
/// Names longer than this, in characters, are shortened in their middle.
pub const NAME_MAX: usize = 400;
/// Stands for what was left out.
pub const MORE: &str = "…";

/// Number of a node: its place in a tree. A node comes after its parent.
pub type NodeId = u32;
/// Number of a name.
pub type NameId = u32;

/// The node that all others are below; it has no name.
pub const ROOT: NodeId = 0;

/// A function, as it was called by what is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// What called it.
    pub parent: NodeId,
    /// Its name.
    pub name: NameId,
    /// How many are below it; 0 is the root.
    pub depth: u32,
    /// What was seen in itself, without what it called.
    pub own: u64,
}

/// Stacks, added up.
#[derive(Clone, Debug)]
pub struct Tree {
    names: Vec<String>,
    numbers: HashMap<String, NameId>,
    nodes: Vec<Node>,
    /// Their numbers are given in the order in which they come, so nobody chooses those that fall on one place.
    children: FxHashMap<(NodeId, NameId), NodeId>,
}

impl Default for Tree {
    fn default() -> Tree {
        let root = Node { parent: ROOT, name: 0, depth: 0, own: 0 };
        let numbers = HashMap::from([(String::new(), 0)]);
        Tree { names: vec![String::new()], numbers, nodes: vec![root], children: FxHashMap::default() }
    }
}

impl Tree {
    /// The number of a name, which is made fit for a line first: see [`clean`].
    pub fn name(&mut self, name: &str) -> NameId {
        self.marked_name(name, "")
    }

    /// The same with a mark at its end that no shortening takes away.
    pub(crate) fn marked_name(&mut self, name: &str, mark: &str) -> NameId {
        let name = clean(name) + mark;
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = self.names.len() as NameId;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// The node of this name above `parent`, made if it is not there.
    pub fn child(&mut self, parent: NodeId, name: NameId) -> NodeId {
        let below = self.nodes[parent as usize];
        let name = if below.depth + 1 < DEPTH_MAX { name } else { self.marked_name(MORE, "") };
        if below.depth >= DEPTH_MAX {
            return parent;
        }
        let next = self.nodes.len() as NodeId;
        let child = *self.children.entry((parent, name)).or_insert(next);
        if child == next {
            self.nodes.push(Node { parent, name, depth: below.depth + 1, own: 0 });
        }
        child
    }

    /// The same without the lowest names of each stack, so many: what stands at their base.
    pub fn above(&self, levels: u32) -> Tree {
        let mut tree = Tree { names: self.names.clone(), numbers: self.numbers.clone(), ..Tree::default() };
        let mut now = vec![ROOT; self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate().skip(1) {
            if node.depth > levels {
                now[id] = tree.child(now[node.parent as usize], node.name);
            }
            tree.add(now[id], node.own);
        }
        tree
    }

    /// Adds to what was seen in a node itself.
    pub fn add(&mut self, node: NodeId, weight: u64) {
        let own = &mut self.nodes[node as usize].own;
        *own = own.saturating_add(weight);
    }

    /// Adds to a stack that is written from the outermost function on, with `;` between.
    pub fn add_line(&mut self, stack: &str, weight: u64) {
        let mut node = ROOT;
        for name in stack.split(';') {
            let name = self.name(name);
            node = self.child(node, name);
        }
        self.add(node, weight);
    }

    /// All nodes; the first is the root.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A name's text.
    pub fn text(&self, name: NameId) -> &str {
        self.names.get(name as usize).map_or("", String::as_str)
    }

    /// How many names there are.
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    /// What was seen in each node and in all that it called, by node.
    pub fn totals(&self) -> Vec<u64> {
        self.summed(self.nodes.iter().map(|node| node.own).collect())
    }

    /// Adds to each node what is above it.
    pub(crate) fn summed(&self, mut weights: Vec<u64>) -> Vec<u64> {
        for (at, node) in self.nodes.iter().enumerate().skip(1).rev() {
            let parent = node.parent as usize;
            weights[parent] = weights[parent].saturating_add(weights[at]);
        }
        weights
    }

    /// The same nodes with other weights.
    pub(crate) fn with_own(&self, own: &[u64]) -> Tree {
        let mut tree = self.clone();
        tree.nodes.iter_mut().zip(own).for_each(|(node, own)| node.own = *own);
        tree
    }

    /// All weights together.
    pub fn total(&self) -> u64 {
        self.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.own))
    }

    /// All nodes but the root, each after what called it and beside its siblings in the order of their names.
    pub fn ordered(&self) -> Vec<NodeId> {
        let mut by_parent: Vec<NodeId> = (1..self.nodes.len() as NodeId).collect();
        let of = |id: NodeId| self.nodes[id as usize];
        // The last sibling first: that is how they come off a pile in order.
        by_parent.sort_unstable_by(|a, b| {
            let (a, b) = (of(*a), of(*b));
            a.parent.cmp(&b.parent).then_with(|| self.text(b.name).cmp(self.text(a.name)))
        });
        let mut first = vec![0_usize; self.nodes.len() + 1];
        for id in &by_parent {
            first[of(*id).parent as usize + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let children = |id: NodeId| &by_parent[first[id as usize]..first[id as usize + 1]];
        let mut ordered = Vec::with_capacity(by_parent.len());
        let mut pile: Vec<NodeId> = children(ROOT).to_vec();
        while let Some(id) = pile.pop() {
            ordered.push(id);
            pile.extend_from_slice(children(id));
        }
        ordered
    }

    /// A node's names from the outermost on.
    pub fn path(&self, node: NodeId) -> Vec<NameId> {
        let mut path = Vec::new();
        let mut at = node;
        while at != ROOT {
            let node = self.nodes[at as usize];
            path.push(node.name);
            at = node.parent;
        }
        path.reverse();
        path
    }

    /// A node's stack as a line has it.
    pub fn line(&self, node: NodeId) -> String {
        let names: Vec<&str> = self.path(node).into_iter().map(|name| self.text(name)).collect();
        names.join(";")
    }

    /// What was seen in each name itself, and in it or what it called, by name. One that calls itself is counted once.
    pub fn by_name(&self) -> Vec<(u64, u64)> {
        let totals = self.totals();
        let mut sums = vec![(0_u64, 0_u64); self.names.len()];
        // How often each name is on the path to the node that is looked at.
        let mut on_path = vec![0_u32; self.names.len()];
        let mut path: Vec<NameId> = Vec::new();
        for id in self.ordered() {
            let node = self.nodes[id as usize];
            for gone in path.drain(node.depth as usize - 1..) {
                on_path[gone as usize] -= 1;
            }
            let sum = &mut sums[node.name as usize];
            sum.0 = sum.0.saturating_add(node.own);
            if on_path[node.name as usize] == 0 {
                sum.1 = sum.1.saturating_add(totals[id as usize]);
            }
            on_path[node.name as usize] += 1;
            path.push(node.name);
        }
        sums
    }
}

/// What a frame is, as its name's mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A program's function.
    User,
    /// The kernel's (`_[k]`).
    Kernel,
    /// Put into the one below it by the compiler (`_[i]`).
    Inlined,
    /// Made while the program ran (`_[j]`).
    Jit,
    /// No function: a file whose functions nobody knows, or a reason.
    Unnamed,
}

impl Kind {
    /// Of a name, and the name without its mark.
    pub fn of(name: &str) -> (Kind, &str) {
        let marks = [("_[k]", Kind::Kernel), ("_[i]", Kind::Inlined), ("_[j]", Kind::Jit)];
        let marked = marks.into_iter().find_map(|(mark, kind)| name.strip_suffix(mark).map(|name| (kind, name)));
        let (kind, bare) = marked.unwrap_or((Kind::User, name));
        let is_bare = (bare.starts_with('[') && bare.ends_with(']')) || bare == MORE;
        if is_bare && kind != Kind::Kernel { (Kind::Unnamed, bare) } else { (kind, bare) }
    }

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::User => "user",
            Kind::Kernel => "kernel",
            Kind::Inlined => "inlined",
            Kind::Jit => "jit",
            Kind::Unnamed => "unnamed",
        }
    }
}

/// A name that can stand in a line and in a page: without what parts names, without letters that no page may hold or that turn the order of
/// others round, and not longer than [`NAME_MAX`].
pub fn clean(name: &str) -> String {
    let name = name.trim();
    if name.is_empty() {
        return "[unknown]".to_owned();
    }
    let is_odd = |letter: char| {
        letter == ';' || characters::acts(letter) || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
    };
    let fit = |letter: char| if is_odd(letter) { ':' } else { letter };
    // A line that begins so is a remark to those who read such lines.
    let mut name = name;
    while let Some(rest) = name.strip_prefix("# ") {
        name = rest.trim_start();
    }
    // A count of bytes is never less than one of letters, and is quick.
    if name.len() <= NAME_MAX || name.chars().count() <= NAME_MAX {
        return name.chars().map(fit).collect();
    }
    // The end tells what is called, the beginning whose it is.
    let end = NAME_MAX / 3;
    let begin = NAME_MAX - end - 1;
    let tail: Vec<char> = name.chars().rev().take(end).map(fit).collect();
    name.chars().take(begin).map(fit).chain(MORE.chars()).chain(tail.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(lines: &[(&str, u64)]) -> Tree {
        let mut tree = Tree::default();
        lines.iter().for_each(|(line, weight)| tree.add_line(line, *weight));
        tree
    }

    #[test]
    fn one_that_calls_itself_is_counted_once() {
        let tree = tree(&[("main;f;g;f", 3), ("main;f", 2), ("main;g", 5), ("main", 1)]);
        let by_name = tree.by_name();
        let mut seen: Vec<_> = (1..tree.name_count()).map(|name| (tree.text(name as NameId), by_name[name])).collect();
        seen.sort_unstable();
        assert_eq!(seen, [("f", (5, 5)), ("g", (5, 8)), ("main", (1, 11))]);
        assert_eq!(tree.total(), 11);
        let lines: Vec<String> = tree.ordered().into_iter().map(|node| tree.line(node)).collect();
        assert_eq!(lines, ["main", "main;f", "main;f;g", "main;f;g;f", "main;g"]);
    }

    #[test]
    fn depth_and_names_are_bounded() {
        let deep = vec!["f"; 10_000].join(";");
        let tree = tree(&[(&deep, 7), (&(deep.clone() + ";g"), 5)]);
        assert_eq!(tree.nodes().len(), DEPTH_MAX as usize + 1);
        let last = tree.nodes().last().unwrap();
        assert_eq!((tree.text(last.name), last.own, last.depth), (MORE, 12, DEPTH_MAX));
        let long = format!("begin{}end", "é".repeat(1_000_000));
        let short = clean(&long);
        assert_eq!(short.chars().count(), NAME_MAX);
        assert!(short.starts_with("beginé") && short.contains(MORE) && short.ends_with("éend"), "{short}");
    }

    #[test]
    fn names_are_made_fit_for_a_line() {
        let table = [
            ("plain", "plain"),
            ("  [u8; 8]\n", "[u8: 8]"),
            ("a\u{1b}[31mb\0", "a:[31mb:"),
            ("", "[unknown]"),
            (" ", "[unknown]"),
            ("# remark", "remark"),
            ("#hash", "#hash"),
            ("\u{202e}gpj.exe\u{ffff}", ":gpj.exe:"),
            ("a\u{9b}2J\u{200f}\u{61c}\u{2069}\u{2028}b", "a:2J::::b"),
            ("<img src=x>", "<img src=x>"),
        ];
        for (name, expected) in table {
            assert_eq!(clean(name), expected, "{name:?}");
        }
    }

    #[test]
    fn kinds_are_told_by_their_marks() {
        let table = [
            ("read_[k]", Kind::Kernel, "read"),
            ("next_[i]", Kind::Inlined, "next"),
            ("Main.run_[j]", Kind::Jit, "Main.run"),
            ("main", Kind::User, "main"),
            ("[libc.so.6]", Kind::Unnamed, "[libc.so.6]"),
            ("[kernel]_[k]", Kind::Kernel, "[kernel]"),
            ("[unknown]_[j]", Kind::Unnamed, "[unknown]"),
            (MORE, Kind::Unnamed, MORE),
        ];
        for (name, kind, bare) in table {
            assert_eq!(Kind::of(name), (kind, bare), "{name}");
        }
    }
}
