//! `Pair`: two trees that are merged into one tree, to see what grew and what shrank.

use crate::tree::{NodeId, ROOT, Tree};

/// Whether to compare two recordings without scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Totals {
    /// Both recordings are scaled to the same total, so shares are compared.
    Equal,
    /// Both recordings are compared without scaling.
    Raw,
}

/// Two merged trees.
#[derive(Clone, Debug)]
pub struct Pair {
    /// All stacks of both recordings, with the weights of the second recording.
    pub tree: Tree,
    /// The own weight of each node in the first recording, after scaling.
    pub before: Vec<u64>,
    /// The factor by which the weights of the first recording are multiplied.
    pub scale: f64,
}

/// How a function changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The name of the function.
    pub name: String,
    /// The function's weight in the first recording, after scaling: without and with its callees.
    pub before: (u64, u64),
    /// The same weights in the second recording.
    pub after: (u64, u64),
}

impl Pair {
    /// Merges the two trees.
    pub fn new(before: &Tree, after: &Tree, totals: Totals) -> Pair {
        let scale = match (totals, before.total(), after.total()) {
            (Totals::Equal, old @ 1.., new @ 1..) => new as f64 / old as f64,
            _ => 1.0,
        };
        let mut tree = after.clone();
        let mut same: Vec<NodeId> = Vec::with_capacity(before.nodes().len());
        let mut weights = vec![0_u64; tree.nodes().len()];
        for (at, node) in before.nodes().iter().enumerate() {
            let here = if at == 0 {
                ROOT
            } else {
                // The parent of a node has a smaller index, so its place in the merged tree is known.
                let parent = same[node.parent as usize];
                let name = tree.name(before.text(node.name));
                tree.child(parent, name)
            };
            same.push(here);
            weights.resize(tree.nodes().len(), 0);
            let weight = &mut weights[here as usize];
            *weight = weight.saturating_add(scaled(node.own, scale));
        }
        Pair { tree, before: weights, scale }
    }

    /// The weights of each function in both recordings. Functions whose own weight changed most come first.
    /// If the own weights changed equally, the weight with callees decides.
    pub fn changed(&self) -> Vec<Changed> {
        let after = self.tree.by_name();
        let before = self.old().by_name();
        let names = 1..self.tree.name_count();
        let mut changed: Vec<Changed> = names
            .map(|name| Changed {
                name: self.tree.text(name as u32).to_owned(),
                before: before[name],
                after: after[name],
            })
            .filter(|changed| changed.before.1 != 0 || changed.after.1 != 0)
            .collect();
        let by_size = |one: &Changed| (one.own_change().unsigned_abs(), one.change().unsigned_abs());
        changed.sort_by(|a, b| by_size(b).cmp(&by_size(a)).then_with(|| a.name.cmp(&b.name)));
        changed
    }

    /// The larger of the two totals.
    pub fn whole(&self) -> u64 {
        self.before.iter().fold(0_u64, |sum, own| sum.saturating_add(*own)).max(self.tree.total())
    }

    /// The merged tree with the weights of the first recording.
    pub fn old(&self) -> Tree {
        self.tree.with_own(&self.before)
    }
}

impl Changed {
    /// The growth of the function's own weight.
    pub fn own_change(&self) -> i128 {
        i128::from(self.after.0) - i128::from(self.before.0)
    }

    /// The growth of the function's weight including its callees.
    pub fn change(&self) -> i128 {
        i128::from(self.after.1) - i128::from(self.before.1)
    }
}

fn scaled(weight: u64, scale: f64) -> u64 {
    if scale == 1.0 { weight } else { (weight as f64 * scale).round() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Folded;

    fn tree(text: &str) -> Tree {
        Tree::from(&Folded::parse(text).unwrap())
    }

    #[test]
    fn shares_are_compared_unless_asked_otherwise() {
        let (before, after) = (tree("main;a 10\nmain;b 10"), tree("main;a 10\nmain;c 30"));
        let seen = |totals| Pair::new(&before, &after, totals).changed();
        let of = |name: &str, before, after| Changed { name: name.to_owned(), before, after };
        let main = |old, new| of("main", (0, old), (0, new));
        let row = |name, old, new| of(name, (old, old), (new, new));
        assert_eq!(seen(Totals::Equal), [row("c", 0, 30), row("b", 20, 0), row("a", 20, 10), main(40, 40)]);
        assert_eq!(seen(Totals::Raw), [row("c", 0, 30), row("b", 10, 0), main(20, 40), row("a", 10, 10)]);
    }

    #[test]
    fn a_missing_side_is_not_a_division_by_zero() {
        let (nothing, something) = (Tree::default(), tree("a 1"));
        assert_eq!(Pair::new(&nothing, &something, Totals::Equal).scale, 1.0);
        assert_eq!(Pair::new(&something, &nothing, Totals::Equal).changed().len(), 1);
    }
}
