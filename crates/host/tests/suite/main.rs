//! Tests of the crate through its public interface: captured hosts, and this machine compared with what other tools report.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

mod advice;
mod agree;
mod agree_fields;
mod agree_network;
mod errata;
mod facts;
mod fields;
mod guests;
mod instances;
mod knobs;
mod mutations;
mod tools;
