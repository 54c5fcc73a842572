//! The only crate that changes a host: [`apply`], [`verify`], [`revert`], [`history`], and [`Session`] for trials.
//!
//! A [`Plan`](evenkeel_host::Plan) is applied as one transaction.
//! The data that undoes a write is on disk, checksummed and synced, before the write.
//! If evenkeel is killed in between, [`revert`] restores everything from the journal.
//! A person can do it with a shell too, since each record holds the command that undoes it.
//! A write that the kernel accepts without effect is a failure:
//! every value is read back from the file that shows the value in force.
//!
//! The journal is one text file in the [`State`] directory with one record per line: eight hexadecimal digits
//! of CRC-32 (as in gzip) over what follows the space, then one JSON object with `"format": 3`.
//! Records are numbered, appended and never changed.
//! A missing record is noticed, and the other records can still be reverted.

mod ancestors;
mod apply;
mod arguments;
mod blocked;
mod claims;
mod command;
mod compact;
mod confirm;
mod deadline;
mod edit;
mod effects;
mod exclusive_pair;
mod failure;
mod history;
mod holders;
mod image_state;
mod intend;
mod job;
mod journal;
mod log;
mod loss;
mod outcome;
mod outside;
mod owner;
pub mod persist;
mod persist_exec;
mod persist_plan;
mod place;
mod plan_file;
mod process_cpus;
mod put_back;
mod record;
mod register;
mod remains;
pub mod render;
mod renumber;
mod revert;
mod scan;
mod server;
mod service_name;
mod session;
mod shell;
mod sizes;
mod state;
mod state_dir;
mod state_error;
mod undo;
mod undo_text;
mod verify;
mod why;

#[cfg(test)]
mod tests;

pub use apply::{ApplyError, HalfWay, apply, carry_out};
pub use blocked::{Blocker, Capability};
pub use confirm::{ConfirmError, confirm, expire};
pub use deadline::{is_waiting, overdue, unconfirmed};
pub use failure::{Failure, StepFailure};
pub use history::{PersistedReport, Status, StepReport, Transaction, history};
pub use image_state::IMAGE_DIR;
pub use job::{Job, OnFailure};
pub use journal::JOURNAL;
pub use log::Log;
pub use loss::Loss;
pub use outcome::{Kind, Outcome, SideEffect, StepError};
pub use owner::{BootsPart, Owner};
pub use persist_exec::{before_and_after, is_in_place};
pub use persist_plan::{Cannot, Carried, Content, Lasting, PersistPlan, PersistedCommand, PersistedFile};
pub use plan_file::{MAX_PLAN_BYTES, PlanFile, PlanFileError, PlannedStep};
pub use process_cpus::{ProcessCpus, ProcessCpusError};
pub use put_back::{FileUndo, PersistedOutcome, PersistedUndo, PutBack, Undo};
pub use record::{OwnedStep, Until};
pub use remains::Remains;
pub use revert::{RevertError, RevertReport, Which, revert};
pub use service_name::{ServiceName, ServiceNameError};
pub use session::{Session, SessionError};
pub use state::State;
pub use state_error::StateError;
pub use verify::{Drift, Pending, UnderWay, Verification, WaitsFor, interrupted, verify};
