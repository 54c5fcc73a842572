//! `Tree`: stacks summed as a tree of functions, with each name stored once.
//! Folded text, graphs and tables all derive from the tree. So they agree, and none of them has to parse text.

use std::collections::HashMap;

use evenkeel_hostfs::characters;
use rustc_hash::FxHashMap;

/// The maximum depth of a stack. A deeper stack ends in [`MORE`], because endless recursion would fill the tree.
pub const DEPTH_MAX: u32 = 1024;
/// The maximum length of a name in characters. A longer name is shortened in the middle.
pub const NAME_MAX: usize = 400;
/// The name of a frame that stands for left-out frames.
pub const MORE: &str = "…";

/// The index of a node in its tree. A node has a larger index than its parent.
pub type NodeId = u32;
/// Number of a name.
pub type NameId = u32;

/// The root, which has no name.
pub const ROOT: NodeId = 0;

/// A function with one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node of the caller.
    pub parent: NodeId,
    /// The name of the function.
    pub name: NameId,
    /// The depth of the node. The root has depth 0.
    pub depth: u32,
    /// The weight of the function itself, without its callees.
    pub own: u64,
}

/// Stacks, summed.
#[derive(Clone, Debug)]
pub struct Tree {
    names: Vec<String>,
    numbers: HashMap<String, NameId>,
    nodes: Vec<Node>,
    /// The nodes by parent and name.
    /// The numbers in the key are assigned in order of arrival, so a hostile file cannot choose keys that collide.
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
    /// The number of a name, after [`clean`].
    pub fn name(&mut self, name: &str) -> NameId {
        self.marked_name(name, "")
    }

    /// The number of a name with a mark at its end. Shortening keeps the mark.
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

    /// The child of `parent` with this name, created if missing.
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

    /// The tree without the outermost `levels` names of each stack.
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

    /// Adds to a node's own weight.
    pub fn add(&mut self, node: NodeId, weight: u64) {
        let own = &mut self.nodes[node as usize].own;
        *own = own.saturating_add(weight);
    }

    /// Adds to the weight of a stack, which is given as its functions, outermost first, joined by `;`.
    pub fn add_line(&mut self, stack: &str, weight: u64) {
        let mut node = ROOT;
        for name in stack.split(';') {
            let name = self.name(name);
            node = self.child(node, name);
        }
        self.add(node, weight);
    }

    /// All nodes, the root first.
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

    /// The weight of each node with all its callees.
    pub fn totals(&self) -> Vec<u64> {
        self.summed(self.nodes.iter().map(|node| node.own).collect())
    }

    /// Adds to each node the weights of its descendants.
    pub(crate) fn summed(&self, mut weights: Vec<u64>) -> Vec<u64> {
        for (at, node) in self.nodes.iter().enumerate().skip(1).rev() {
            let parent = node.parent as usize;
            weights[parent] = weights[parent].saturating_add(weights[at]);
        }
        weights
    }

    /// The same nodes with these own weights.
    pub(crate) fn with_own(&self, own: &[u64]) -> Tree {
        let mut tree = self.clone();
        tree.nodes.iter_mut().zip(own).for_each(|(node, own)| node.own = *own);
        tree
    }

    /// The total weight.
    pub fn total(&self) -> u64 {
        self.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.own))
    }

    /// All nodes except the root, depth first, siblings sorted by name.
    pub fn ordered(&self) -> Vec<NodeId> {
        let mut by_parent: Vec<NodeId> = (1..self.nodes.len() as NodeId).collect();
        let of = |id: NodeId| self.nodes[id as usize];
        // Push in reverse order, so that the nodes are popped in order.
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

    /// A node's names, outermost first.
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

    /// A node's stack as folded text.
    pub fn line(&self, node: NodeId) -> String {
        let names: Vec<&str> = self.path(node).into_iter().map(|name| self.text(name)).collect();
        names.join(";")
    }

    /// For each name, its own weight and its weight including callees. Recursion counts once.
    pub fn by_name(&self) -> Vec<(u64, u64)> {
        let totals = self.totals();
        let mut sums = vec![(0_u64, 0_u64); self.names.len()];
        // How often each name is on the path to the current node.
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

/// The kind of a frame, from its name's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A program's function.
    User,
    /// A kernel function (`_[k]`).
    Kernel,
    /// A function that is inlined into the function below (`_[i]`).
    Inlined,
    /// Code that was generated at run time (`_[j]`).
    Jit,
    /// Not a function.
    /// The name may be a file without known function names (`[libc.so.6]`) or the reason why a thread had no CPU (`[futex]`).
    /// `…` means frames that were left out.
    Unnamed,
}

impl Kind {
    /// The kind of a name, and the name without its mark.
    pub fn parse(name: &str) -> (Kind, &str) {
        let marks = [("_[k]", Kind::Kernel), ("_[i]", Kind::Inlined), ("_[j]", Kind::Jit)];
        let marked = marks.into_iter().find_map(|(mark, kind)| name.strip_suffix(mark).map(|name| (kind, name)));
        let (kind, bare) = marked.unwrap_or((Kind::User, name));
        let is_bare = (bare.starts_with('[') && bare.ends_with(']')) || bare == MORE;
        if is_bare && kind != Kind::Kernel { (Kind::Unnamed, bare) } else { (kind, bare) }
    }

    /// The kind as a word.
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

/// A name that is safe in folded text and on pages.
/// The name has no separators, control characters or bidirectional overrides, and is at most [`NAME_MAX`] long.
pub fn clean(name: &str) -> String {
    let name = name.trim();
    if name.is_empty() {
        return "[unknown]".to_owned();
    }
    let is_odd = |letter: char| {
        letter == ';' || characters::acts(letter) || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
    };
    let fit = |letter: char| if is_odd(letter) { ':' } else { letter };
    // Readers of folded text treat a line that begins with `# ` as a comment.
    let mut name = name;
    while let Some(rest) = name.strip_prefix("# ") {
        name = rest.trim_start();
    }
    // The number of bytes is an upper bound of the number of characters, and quick to check.
    if name.len() <= NAME_MAX || name.chars().count() <= NAME_MAX {
        return name.chars().map(fit).collect();
    }
    // Keep both ends: the end has the function, and the beginning has its namespace.
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
    fn a_recursive_function_is_counted_once() {
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
    fn kinds_are_known_by_their_marks() {
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
            assert_eq!(Kind::parse(name), (kind, bare), "{name}");
        }
    }
}
