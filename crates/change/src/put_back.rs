//! `PutBack`: the outcome of each file and command in the restore of a transaction.

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
    /// Whether the machine has rebooted since the transaction.
    /// Then the kernel has lost the values, and evenkeel wrote nothing.
    pub ended_by_reboot: bool,
    /// Each file that evenkeel still had to restore, the last change first.
    pub files: Vec<FileUndo>,
    /// The configuration files and commands that made the transaction persist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub persisted: Vec<PersistedUndo>,
    /// Whether everything is restored.
    pub all_undone: bool,
    /// Why the journal could not record the restore.
    /// The values are restored all the same, and another `revert` checks them again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
}

/// The outcome of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileUndo {
    /// The knob that changed the file, directly or as a side effect.
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
    /// The file already had the original value.
    AsBefore,
    /// evenkeel wrote the file, and it has the original value.
    Restored {
        /// The value before the restore.
        found: String,
    },
    /// evenkeel wrote the file, and it has the original value, but another owner had changed it since.
    Foreign {
        /// The other owner's value, which is lost now.
        found: String,
    },
    /// Another journal has changed the file since. The value stays, and that journal now restores `before`.
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
    /// Another owner had changed the file since, so evenkeel removed only its own part.
    Foreign,
    /// The command that undoes the change ran.
    Ran,
    /// The root is not a running machine. Run the command on the machine once it runs.
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
