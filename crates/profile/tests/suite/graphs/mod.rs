//! Tests the drawings of recordings: golden files of formats that other programs read, and names that may break a format.
//! Also opens pages in a real browser.

mod browser;
mod forms;
mod hostile;
mod schema;
mod small;
mod timeline;
