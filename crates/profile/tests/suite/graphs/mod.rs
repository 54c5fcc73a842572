//! Tests drawings of recordings: goldens of the formats that other programs read, names that would break them, and pages in a real browser.

mod browser;
mod forms;
mod hostile;
mod schema;
mod small;
mod timeline;
