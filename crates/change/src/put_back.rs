//! `PutBack`: what became of each file and command when a transaction was put back.

use serde::Serialize;

use crate::state_error::StateError;

/// What became of one transaction that was to be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PutBack {
    /// The transaction's number.
    pub id: u64,
    /// What it was for.
    pub title: String,
    /// Whether the machine was restarted since: then the kernel has forgotten the values, and nothing was written.
    pub ended_by_reboot: bool,
    /// Each file that was still to be put back, the last change first.
    pub files: Vec<FileUndo>,
    /// Configuration files and commands that made it outlive a boot.
    #[serde(rename = "kept", skip_serializing_if = "Vec::is_empty")]
    pub persisted: Vec<PersistedUndo>,
    /// Whether nothing is left to put back.
    pub all_undone: bool,
    /// Why the journal could not be told of it, if so. The values are back all the same; another `revert` will look again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<String>,
}

/// What became of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileUndo {
    /// The knob that changed it, itself or as a side effect.
    pub knob: String,
    /// The knob's place.
    pub place: String,
    /// The file.
    pub path: String,
    /// The value it had before.
    pub before: String,
    /// What was done.
    #[serde(flatten)]
    pub undo: Undo,
}

/// What was done about one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum Undo {
    /// It had the value from before already.
    AsBefore,
    /// It was written and reads as before.
    Restored {
        /// The value that it had.
        found: String,
    },
    /// It was written and reads as before; but somebody else had changed it since we did.
    Foreign {
        /// Their value, which is gone now.
        found: String,
    },
    /// Another journal changed it since. It stays as it is, and the next journal now has `before` to put back.
    PassedOn {
        /// The value in force.
        found: String,
        /// The next journal's state directory.
        to: String,
    },
    /// It is no more: there is nothing left to put back.
    Gone {
        /// In words, with the path.
        why: String,
    },
    /// It is not as before.
    Failed {
        /// In words, with the path.
        why: String,
    },
}

impl FileUndo {
    /// Whether nothing is left to put back.
    pub fn is_undone(&self) -> bool {
        !matches!(self.undo, Undo::Failed { .. })
    }
}

impl PutBack {
    pub(crate) fn of(id: u64, title: String) -> PutBack {
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

    /// Whether everything was as before already.
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

/// What became of one configuration file that was to be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersistedUndo {
    /// The file, or the command.
    pub what: String,
    /// What was done.
    #[serde(flatten)]
    pub undo: PersistedOutcome,
}

/// What was done about one configuration file or command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum PersistedOutcome {
    /// It was as before already.
    AsBefore,
    /// It is as before again.
    Restored,
    /// Somebody had changed it since we did: only what was ours was taken out.
    Foreign,
    /// The command that undoes it ran.
    Ran,
    /// The root is no running machine: the command has to run there once it is one.
    ToRun,
    /// It is not as before.
    Failed {
        /// In words.
        why: String,
    },
}

impl PersistedUndo {
    /// Whether nothing is left to put back.
    pub fn is_undone(&self) -> bool {
        !matches!(self.undo, PersistedOutcome::Failed { .. })
    }
}
