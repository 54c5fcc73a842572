//! Tests of the crate through its public interface, on simulated servers.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

mod mock;
mod search;
mod search_budget;
mod search_guide;
mod search_host;
mod search_lost;
