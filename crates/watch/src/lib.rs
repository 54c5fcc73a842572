//! Watches a host and its servers, with one sample per second. This crate changes nothing on the host.
//!
//! [`Collector`] reads a [`Sample`]: the raw counters of one moment.
//! [`Model::from_samples`] is a pure function of two samples, and describes what happened between them.
//! Everything that is shown comes from a model, whether its samples are live or stored.
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
