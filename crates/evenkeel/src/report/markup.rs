//! Parts of report pages that are not built from blocks yet.

use evenkeel_trial::Outcome;
use maud::Markup;

pub(super) use crate::view::html::{download, framed, key};
pub(super) use crate::view::sentence;
use crate::view::{Text, html};

/// A verdict: its word, and a sign.
pub(super) fn word(verdict: Outcome) -> Markup {
    html::badge(Some(verdict), &verdict.to_string())
}

/// A text by evenkeel itself, with commands between backticks.
pub(super) fn prose(text: &str) -> Markup {
    html::text(&Text::prose(text))
}
