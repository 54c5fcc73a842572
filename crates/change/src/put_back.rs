//! `PutBack`: the outcome of each file and command when a transaction is restored.

use serde::Serialize;

use crate::state_error::StateError;

/// The outcome of restoring one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PutBack {
    /// The transaction's number.
    pub id: u64,
    /// Its purpose.
    pub title: String,
    /// Whether the machine has rebooted since. Then the kernel has lost the values, and nothing was written.
    pub ended_by_reboot: bool,
    /// Each file that still had to be restored, the last change first.
    pub files: Vec<FileUndo>,
    /// Configuration files and commands that made it persist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub persisted: Vec<PersistedUndo>,
    /// Whether everything is restored.
    pub all_undone: bool,
    /// Why the journal could not record the restore, if it failed to. The values are restored all the same. Another `revert` checks them
    /// again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
}

/// The outcome of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileUndo {
    /// The knob that changed it, itself or as a side effect.
    pub knob: String,
    /// The knob's place.
    pub place: String,
    /// The file.
    pub path: String,
    /// The original value.
    pub before: String,
    /// The outcome.
    #[serde(flatten)]
    pub undo: Undo,
}

/// The outcome of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum Undo {
    /// It already had the original value.
    AsBefore,
    /// It was written and has the original value.
    Restored {
        /// The value before the restore.
        found: String,
    },
    /// It was written and has the original value, but another owner had changed it since.
    Foreign {
        /// Their value, which is lost now.
        found: String,
    },
    /// Another journal has changed it since. The value stays, and that journal now has `before` to restore.
    PassedOn {
        /// The value in force.
        found: String,
        /// The next journal's state directory.
        to: String,
    },
    /// The file no longer exists, so there is nothing to restore.
    Gone {
        /// In words, with the path.
        why: String,
    },
    /// It was not restored.
    Failed {
        /// In words, with the path.
        why: String,
    },
}

impl FileUndo {
    /// Whether nothing is left to restore.
    pub fn is_undone(&self) -> bool {
        !matches!(self.undo, Undo::Failed { .. })
    }
}

impl PutBack {
    pub(crate) fn new(id: u64, title: String) -> PutBack {
        PutBack {
            id,
            title,
            ended_by_reboot: false,
            files: Vec::new(),
            persisted: Vec::new(),
            all_undone: true,
            unrecorded: None,
        }
    }

    /// Whether everything already had its original value.
    pub fn changed_nothing(&self) -> bool {
        self.files.iter().all(|file| file.undo == Undo::AsBefore)
            && self.persisted.iter().all(|kept| kept.undo == PersistedOutcome::AsBefore)
    }

    pub(crate) fn note(&mut self, recorded: Result<(), StateError>) {
        if let (Err(error), None) = (recorded, &self.unrecorded) {
            self.unrecorded = Some(error.to_string());
        }
    }
}

/// The outcome of one configuration file or command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PersistedUndo {
    /// The file, or the command.
    pub what: String,
    /// The outcome.
    #[serde(flatten)]
    pub undo: PersistedOutcome,
}

/// The outcome of one configuration file or command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum PersistedOutcome {
    /// It was already restored.
    AsBefore,
    /// It is restored.
    Restored,
    /// Another owner had changed it since; evenkeel removed only its own part.
    Foreign,
    /// The command that undoes it ran.
    Ran,
    /// The root is not a running machine. Run the command there once it runs.
    ToRun,
    /// It was not restored.
    Failed {
        /// In words.
        why: String,
    },
}

impl PersistedUndo {
    /// Whether nothing is left to restore.
    pub fn is_undone(&self) -> bool {
        !matches!(self.undo, PersistedOutcome::Failed { .. })
    }
}
