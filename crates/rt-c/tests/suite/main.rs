//! Tests the C library as shipped: its header and C# binding, and programs in C, C++ and C# that use and misuse it.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]

mod bindings;
mod engines;
mod programs;

use std::path::{Path, PathBuf};

/// A file of this crate.
fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
