//! The only crate that changes a host: [`apply`], [`verify`], [`revert`], [`history`], and [`Session`] for trials.
//!
//! A [`Plan`](evenkeel_host::Plan) is applied as one transaction. What undoes a write is on disk, checksummed and synced,
//! before the write: whoever kills us in between leaves a journal from which [`revert`] puts everything back, or a person
//! does with a shell, since each record holds the command that undoes it. What the kernel takes without an error but
//! does not bring about is a failure too: every value is read back from the file that tells what is in force.
//!
//! The journal is one text file in the [`State`] directory, a record a line: eight hexadecimal digits of CRC-32 (that of
//! gzip) over what follows the space, then one JSON object with `"format": 3`. Records are numbered, added and never changed; one that is missing
//! is noticed, and what the others tell is put back all the same.

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
pub use log::Log;
pub use loss::Loss;
pub use outcome::{Kind, Outcome, SideEffect, StepError};
pub use owner::{BootsPart, Owner};
pub use persist_exec::{before_and_after, is_in_place};
pub use persist_plan::{Cannot, Carried, Content, Lasting, PersistPlan, PersistedCommand, PersistedFile};
pub use plan_file::{MAX_PLAN_BYTES, PlanFile, PlanFileError, PlannedStep};
pub use put_back::{FileUndo, PersistedOutcome, PersistedUndo, PutBack, Undo};
pub use record::{OwnedStep, Until};
pub use remains::Remains;
pub use revert::{RevertError, RevertReport, Which, revert};
pub use service_name::{ServiceName, ServiceNameError};
pub use session::{Session, SessionError};
pub use state::State;
pub use state_error::StateError;
pub use verify::{Drift, Pending, Verification, WaitsFor, interrupted, verify};
