//! What is read out of recordings, live or of files, where no timing decides. What needs a quiet CPU is in `tests/live`.

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
