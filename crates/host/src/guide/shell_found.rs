//! The results of the commands of a line, and the content of the line that follows from them.

use super::line::{Ask, Content, Skip};
use crate::finding::shown;

/// Why a word has no value.
const EXPANDED: &str = "only a shell could expand it, and evenkeel runs nothing";
/// The maximum number of settings that a reason names.
const NAMED_MAX: usize = 3;

/// The result of one command.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    Asks(Vec<Ask>),
    Skip(Skip),
    /// A command that changes no setting, and whose name may also begin a sentence.
    Quiet,
    Unclear(String),
    /// An unknown command, by its name.
    Stranger(String),
}

/// Why the settings of a branch, a function or a handler do not count: they apply at the end of the service.
pub(super) fn taken_back(asks: &[Ask], by: &str) -> String {
    let named: Vec<String> = asks.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = if asks.len() > NAMED_MAX { ", …" } else { "" };
    format!("it reverts the setting: it has {}{more} for `{by}`", named.join(", "))
}

pub(super) fn unclear() -> Found {
    Found::Unclear(EXPANDED.to_owned())
}

/// The content of one part of a line.
pub(super) fn found(content: Content) -> Found {
    match content {
        Content::Settings(asks) => Found::Asks(asks),
        Content::NotASetting(skip) => Found::Skip(skip),
        Content::NotUnderstood(why) => Found::Unclear(why),
    }
}

/// The combined content of all commands of a line.
#[derive(Default)]
pub(super) struct All {
    pub(super) asks: Vec<Ask>,
    unclear: Vec<String>,
    skip: Option<Skip>,
    strangers: Vec<String>,
}

impl All {
    pub(super) fn add(&mut self, found: Found) {
        match found {
            Found::Asks(found) => self.asks.extend(found),
            Found::Skip(why) => self.skip = Some(why),
            Found::Quiet => {}
            Found::Unclear(why) if self.unclear.contains(&why) => {}
            Found::Unclear(why) => self.unclear.push(why),
            Found::Stranger(name) => {
                let why = format!("evenkeel does not know the command {}", shown(&name));
                if !self.strangers.contains(&why) {
                    self.strangers.push(why);
                }
            }
        }
    }

    /// If only a shell could expand something in the line, gives the line's arithmetic as the reason.
    pub(super) fn blame_arithmetic(&mut self) {
        for why in self.unclear.iter_mut().filter(|why| *why == EXPANDED) {
            *why = "evenkeel does not compute $((…))".to_owned();
        }
    }

    /// The content of the line. `None` if all commands are unknown.
    pub(super) fn content(mut self) -> Option<Content> {
        if self.asks.is_empty() && self.unclear.is_empty() && self.skip.is_none() {
            return None;
        }
        self.unclear.extend(self.strangers);
        match (self.asks.is_empty(), self.unclear.is_empty(), self.skip) {
            (false, _, _) => {
                self.asks.extend(self.unclear.into_iter().map(Ask::not_understood));
                Some(Content::settings(self.asks))
            }
            (true, true, Some(skip)) => Some(Content::NotASetting(skip)),
            (true, ..) => Some(Content::not(self.unclear.join("; "))),
        }
    }
}
