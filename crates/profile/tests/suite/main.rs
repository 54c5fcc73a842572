//! Tests the contents of live and stored recordings, as far as the contents do not depend on timing. `tests/live` needs a quiet CPU.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: a panic is how a test fails")]

mod compressed;
mod convert;
mod files;
mod graphs;
mod names;
mod perf;
mod probe;
mod programs;
mod recorder;
mod unwind;
