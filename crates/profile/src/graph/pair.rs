//! `Pair`: two trees laid over each other, to see what grew and what shrank.

use crate::tree::{NodeId, ROOT, Tree};

/// Whether two recordings are compared as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Totals {
    /// As if both had seen equally much: shares are compared.
    Equal,
    /// As they are.
    Raw,
}

/// Two trees over each other.
#[derive(Clone, Debug)]
pub struct Pair {
    /// All stacks of both, with the weights of the one after.
    pub tree: Tree,
    /// What was seen before in each node itself, brought to the same total where that was asked for.
    pub before: Vec<u64>,
    /// What the weights from before were multiplied by.
    pub scale: f64,
}

/// How a function changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// What was seen in it before, itself and with what it called, after scaling.
    pub before: (u64, u64),
    /// The same after.
    pub after: (u64, u64),
}

impl Pair {
    /// Lays `after` over `before`.
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
                // Its parent came before it.
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

    /// What each function comes to in both: those first whose own weight changed most, then those that changed with what they call.
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

    /// The larger of both wholes.
    pub fn whole(&self) -> u64 {
        self.before.iter().fold(0_u64, |sum, own| sum.saturating_add(*own)).max(self.tree.total())
    }

    /// The same nodes with the weights from before.
    pub fn old(&self) -> Tree {
        self.tree.with_own(&self.before)
    }
}

impl Changed {
    /// How much more was seen in it itself.
    pub fn own_change(&self) -> i128 {
        i128::from(self.after.0) - i128::from(self.before.0)
    }

    /// How much more was seen in it and what it called.
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
