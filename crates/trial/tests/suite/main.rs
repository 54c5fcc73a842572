//! Tests of the crate through its public interface: simulated servers, scripted servers on loopback, and small programs that are started.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

mod command;
#[path = "../common/mod.rs"]
mod common;
mod load;
mod mock;
mod presets;
mod search;
mod search_budget;
mod search_host;
mod search_lost;
