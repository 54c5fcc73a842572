//! What is drawn of recordings: goldens of the forms that other programs read, names that would break them, and pages in a real browser.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]

mod browser;
mod forms;
mod hostile;
mod schema;
mod small;
mod timeline;
