//! The tests of the crate on captured, made-up and live hosts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: a panic is how a test fails")]

mod captured;
mod ledger;
mod live;
mod made_up;
mod metrics;
mod rates;
mod recorder;
mod store;
