//! Tests of the crate through its public interface: scripted servers on loopback, and small programs.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

mod command;
#[path = "../common/mod.rs"]
mod common;
mod load;
mod presets;
