//! `Source`: what graphs are made of: a recording, or stacks that somebody else folded.

use std::path::Path;

use evenkeel_profile::fold::{self, Folded, Seen};
use evenkeel_profile::graph::Quantity;
use evenkeel_profile::tree::Tree;

use super::input::{self, Opened};
use super::pick::{By, Pick, Picked};
use crate::exit;
use crate::failure::Failure;

/// What a file holds.
pub(crate) enum Source {
    /// A recording.
    Recording(Box<Opened>),
    /// Stacks and their weights, and nothing else.
    Folded(Tree),
}

/// Reads a recording or folded text, whichever a file is.
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
    /// Its stacks as far as they were asked for, by what stands at their base, and what they count.
    pub(crate) fn tree(&self, pick: &Pick, by: By, file: &Path) -> Result<(Tree, Quantity), Failure> {
        match self {
            Source::Recording(opened) => {
                let picked = pick.of(&opened.recording)?;
                Ok((tree(opened, &picked, by), picked.quantity))
            }
            Source::Folded(tree) if pick.is_all() => Ok((tree.clone(), Quantity::Samples)),
            Source::Folded(_) => {
                let why = "it holds stacks and their weights alone";
                Err(Failure::text(exit::WRONG_USE, format_args!("narrow {}", file.display()), why)
                    .hint("threads, CPUs, events and times are told by a recording: a perf.data file"))
            }
        }
    }
}

/// The stacks of what was picked.
pub(crate) fn tree(opened: &Opened, picked: &Picked<'_>, by: By) -> Tree {
    let seen = picked.samples.iter().map(|sample| Seen::sample(sample));
    fold::tree(&opened.recording, &opened.names, by.base(), seen)
}
