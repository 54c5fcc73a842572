//! `Source`: a recording, or folded stacks that another program wrote.

use std::path::Path;

use evenkeel_profile::fold::{self, Folded, WeightedStack};
use evenkeel_profile::graph::Quantity;
use evenkeel_profile::tree::Tree;

use super::input::{self, Opened};
use super::pick::{By, Pick, Picked};
use crate::exit;
use crate::failure::Failure;

/// The contents of a recording file.
pub(crate) enum Source {
    /// A recording.
    Recording(Box<Opened>),
    /// Folded stacks with their weights.
    Folded(Tree),
}

/// Reads a file, which may be a recording or folded stacks.
pub(crate) fn open(file: &Path) -> Result<Source, Failure> {
    let tried = || format!("read {}", file.display());
    let mut is_folded = false;
    let check_head = |head: &[u8]| {
        is_folded = Folded::is_likely(head);
        if is_folded { Ok(()) } else { evenkeel_profile::input::check_head(head) }
    };
    let whole = input::whole(file, &input::tried(file), check_head)?;
    if !is_folded {
        return Ok(Source::Recording(Box::new(input::opened_of(file, &whole, &mut |_| {})?)));
    }
    let folded = Folded::parse(&String::from_utf8_lossy(&whole.bytes))
        .map_err(|error| Failure::text(exit::WRONG_USE, tried(), error))?;
    Ok(Source::Folded(Tree::from(&folded)))
}

impl Source {
    /// The selected stacks, and the unit of their weights.
    pub(crate) fn tree(&self, pick: &Pick, by: By, file: &Path) -> Result<(Tree, Quantity), Failure> {
        match self {
            Source::Recording(opened) => {
                let picked = pick.select(&opened.recording)?;
                Ok((tree(opened, &picked, by), picked.quantity))
            }
            Source::Folded(tree) if pick.is_all() => Ok((tree.clone(), Quantity::Samples)),
            Source::Folded(_) => {
                let why = "folded stacks have no threads, CPUs, events or times";
                Err(Failure::text(exit::WRONG_USE, format_args!("select a part of {}", file.display()), why)
                    .hint("use a recording (perf.data) instead"))
            }
        }
    }
}

/// The stacks of the selected samples.
pub(crate) fn tree(opened: &Opened, picked: &Picked<'_>, by: By) -> Tree {
    let seen = picked.samples.iter().map(|sample| WeightedStack::sample(sample));
    fold::tree(&opened.recording, &opened.names, by.base(), seen)
}
