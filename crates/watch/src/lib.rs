//! Shows each second what a host and the servers on it do. This crate only reads.
//!
//! [`Collector`] reads a [`Sample`]: the raw counters of one moment. [`Model::from_samples`] is a pure function of two of them: what happened
//! between. Everything that is shown comes from a model, whether its samples are live or stored.
#![forbid(unsafe_code)]

mod collect;
pub mod ledger;
mod locked;
pub mod metrics;
pub mod model;
pub mod recorder;
pub mod sample;
pub mod store;

pub use collect::{Collector, CollectorOptions, INTERVAL_MAX, INTERVAL_MIN, ServerOptions};
pub use evenkeel_measure::meters::rates::{Kind, Measured, Unknown};
pub use model::Model;
pub use sample::Sample;
