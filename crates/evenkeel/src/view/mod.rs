//! One model of a page. A report is converted to blocks once, and the terminal, HTML and Markdown show the same blocks. So none of them
//! lacks anything by accident. JSON is not made here: it comes from the report itself.

mod block;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

pub(crate) use block::{Block, Column, Span, Text, Timeline, Verdict, sentence};
