//! Fixtures shared by the tests and live checks of evenkeel's crates. Every crate may use it as a dev-dependency; no product code may.
//!
//! There are two kinds of tests, in different folders:
//!
//! - **Tests** are in `src/` and in `tests/suite/` of each crate. They give the same result on any machine at any load: pure code, captured
//!   hosts, simulated servers and clocks, the real kernel if no timing decides. `make test` runs them.
//! - **Live checks** are in `tests/live/` of each crate. They measure, and need a quiet CPU. `make live` runs them one at a time, checks
//!   how fit the machine is, and lists those that it could not judge.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "fixtures of tests: a panic is how a test fails")]

pub mod browser;
pub mod cgroup;
pub mod fitness;
pub mod host_lock;
pub mod live;
pub mod lost;
pub mod mutate;
pub mod noise;
pub mod offline;
pub mod relay;
pub mod skip;
pub mod wait;

pub use host_lock::HostLock;
pub use skip::{needs_root, skipped};
pub use wait::{wait_for, wait_until};
