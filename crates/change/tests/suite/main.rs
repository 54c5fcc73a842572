//! Tests of the crate through its public interface.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

mod this_machine;
