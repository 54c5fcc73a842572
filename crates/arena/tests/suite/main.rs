//! Tests the arena from outside: its dependencies, and its two programs on loopback. Nothing is timed here; `tests/live/` does that.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests: a panic is how a test says that it can't go on"
)]

mod headless;
mod loopback;
#[path = "../program/mod.rs"]
mod program;
