//! One model of a page. A report is made into blocks once, and the terminal, HTML and Markdown each draw the same blocks, so that none of
//! them can contain more than another by accident. JSON does not pass through here: it comes from the report itself.

mod block;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

pub(crate) use block::{Block, Column, Span, Text, Timeline, Verdict, sentence};
