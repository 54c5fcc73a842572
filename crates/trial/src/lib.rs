//! Honest A/B trials of settings on a real server.
//!
//! A [`Design`] is fixed, with its seed and its rules for dropping windows, before anything is measured. [`run`] takes the
//! two arms in turns, pair by pair in an order drawn from the seed: it switches the host (by a [`Switch`], journalled, so
//! that a killed trial is put back by `evenkeel revert`), lets it settle, and asks the [`Workload`] for one window. Each
//! window gives one number; the machine's own conditions are noted beside it. The [`Record`] that comes out has
//! everything that was seen, and [`Record::report`] judges it.

mod arm;
mod conditions;
mod design;
mod engaged;
mod error;
mod metric;
mod report;
mod rules;
mod run;
pub mod saved;
pub mod source;
mod switch;
pub mod workload;

pub use arm::{Arm, ArmName, Level};
pub use conditions::{Conditions, Snapshot, Watch};
pub use design::Design;
pub use error::TrialError;
pub use metric::Metric;
pub use report::{ArmReport, Effect, Outcome, Report, Titles};
pub use rules::{DropReason, Rules};
pub use run::{Dropped, Ended, Progress, Record, Trial, Window, run};
pub use switch::Switch;
pub use workload::{Sample, Workload};
