//! One model of a page.
//! evenkeel converts a report to blocks once, and the terminal, HTML and Markdown show the same blocks.
//! So none of the three lacks anything by accident. JSON does not use blocks: it comes from the report itself.

mod block;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

pub(crate) use block::{Block, Column, Span, Text, Timeline, Verdict, sentence};
