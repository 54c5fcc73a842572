//! `Failure`: why a transaction failed.

use std::fmt;

use evenkeel_host::Step;
use evenkeel_hostfs::TreeError;
use evenkeel_sys::Errno;
use serde::Serialize;

use crate::outcome::StepError;
use crate::place::Target;
use crate::state_error::StateError;

/// What stopped a plan.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A value could not be set.
    #[error(transparent)]
    Step(#[from] Box<StepFailure>),
    /// The journal could not be extended, for example because the disk is full.
    /// The host write that the record describes did not happen.
    #[error(transparent)]
    Journal(#[from] StateError),
    /// A configuration file could not be changed.
    #[error("change {path}: {why}")]
    File {
        /// The file.
        path: String,
        /// The reason, in words.
        why: String,
    },
    /// A command failed.
    #[error("run {command}: {why}")]
    Command {
        /// The command, as a shell would read it.
        command: String,
        /// The command's exit status and last output.
        why: String,
    },
    /// The files of the root are not accessible.
    #[error("{0}")]
    Root(String),
    /// The process that should undo the change later could not be started.
    #[error("start the watchdog that reverts the change: {0}")]
    Arm(String),
}

impl From<TreeError> for Failure {
    fn from(error: TreeError) -> Failure {
        let is_permission = matches!(error.errno, Errno::ACCESS | Errno::PERM);
        let why = if is_permission { format!("{}; run it as root", error.why) } else { error.why };
        Failure::File { path: error.path, why }
    }
}

/// A value that could not be set. The message continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepFailure {
    /// The step's index in its plan, from 0.
    pub step: usize,
    /// The knob's id.
    pub knob: String,
    /// The place.
    pub place: String,
    /// The file that evenkeel tried to write.
    pub path: String,
    /// The value wanted.
    pub wanted: String,
    /// What went wrong.
    #[serde(flatten)]
    pub error: StepError,
}

impl StepFailure {
    /// `wanted` is the value to write. In a trial it differs from the value in the step.
    pub(crate) fn new(index: usize, step: &Step, wanted: &str, error: StepError) -> Box<StepFailure> {
        Box::new(StepFailure {
            step: index,
            knob: step.knob.clone(),
            place: step.place.clone(),
            path: Target::from_step(step).map(|target| target.path.to_owned()).unwrap_or_default(),
            wanted: wanted.to_owned(),
            error,
        })
    }
}

impl fmt::Display for StepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StepFailure { knob, path, wanted, .. } = self;
        write!(f, "set {knob} to {wanted:?}: ")?;
        match &self.error {
            StepError::Refused { errno } => write!(f, "the kernel refused the write to {path}: {errno}"),
            StepError::Blocked { by, errno } => write!(f, "{path}: {errno}: {by}"),
            StepError::DidNotTake { found, read_from } => {
                write!(f, "the kernel accepted the write to {path}, but {read_from} reads {found:?}")
            }
            StepError::Unreadable { why } | StepError::NotPutBack { why } => f.write_str(why),
        }
    }
}
