//! `StateError`: why a journal, or the register beside it, can't be had.

use std::path::Path;

use evenkeel_sys::Errno;

use crate::loss::{Loss, listed};
use crate::sizes::{MAX_JOURNAL_BYTES, MAX_RECORD_BYTES};

/// The journal can't be had, read or added to. Reads well after "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The kernel refused.
    #[error("{doing} {path}: {errno}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: String,
        /// What the kernel said.
        errno: Errno,
    },
    /// A record could not be added: most often the disk is full.
    #[error("add to {path}: {errno}")]
    Add {
        /// The file.
        path: String,
        /// What the kernel said.
        errno: Errno,
    },
    /// Somebody else could change what is written there.
    #[error("trust the state directory {path}: {why}")]
    Unsafe {
        /// The directory or the file in it.
        path: String,
        /// Why not, and what to do.
        why: String,
    },
    /// Another evenkeel holds the lock.
    #[error("lock {path}: another evenkeel ({holder}) is changing this host; wait until it ends, or stop it")]
    Busy {
        /// The lock.
        path: String,
        /// Who holds it, as far as the file tells.
        holder: String,
    },
    /// The journal lost something, or a part of it can't be read.
    #[error(
        "read the journal {path}: {}. Nothing was changed. `evenkeel revert` restores what the remaining records \
            describe; \"undo\" in each line is the shell command that undoes it. Then move the journal and \
            journal.last-record away",
        listed(losses)
    )]
    Damaged {
        /// The journal.
        path: String,
        /// What is missing, or can't be read.
        losses: Vec<Loss>,
    },
    /// The register of the journals that hold a setting can't be read.
    #[error("read the register {path}: {why}. If no other journal holds the setting, remove it, then try again")]
    Register {
        /// The register.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A setting is not as we left it, and the register does not have our change of it any more.
    #[error(
        "restore {before:?} in {path}: it is {found:?}, which this journal did not set, and no register in \
            /run/evenkeel still has the change. Nothing was written. If {before:?} is right, write it yourself, then \
            revert again"
    )]
    Doubt {
        /// The file of the setting.
        path: String,
        /// What our journal found before its change.
        before: String,
        /// What is in force.
        found: String,
    },
    /// No record can be added any more.
    #[error("add to the journal {path}: {why}")]
    Unwritable {
        /// The journal.
        path: String,
        /// Why not, and what to do.
        why: String,
    },
    /// A newer evenkeel wrote the journal.
    #[error(
        "read the journal {path}: byte {offset}: this evenkeel does not know format {format}; use the version \
            that wrote it"
    )]
    UnknownFormat {
        /// The journal.
        path: String,
        /// Where the line starts.
        offset: u64,
        /// The number that it gives.
        format: String,
    },
    /// The journal is as long as it may be.
    #[error(
        "add to the journal {path}: it may not exceed {MAX_JOURNAL_BYTES} bytes, and all its changes are still in \
            force; revert some with `evenkeel revert`"
    )]
    Full {
        /// The journal.
        path: String,
    },
    /// A record would be longer than it may be.
    #[error(
        "add to the journal: the record would have {len_bytes} bytes, and the limit is {MAX_RECORD_BYTES}; change \
            less at once"
    )]
    TooLong {
        /// How long it would be.
        len_bytes: usize,
    },
}

impl StateError {
    pub(crate) fn io(doing: &'static str, path: &Path, errno: impl Into<Errno>) -> StateError {
        StateError::Io { doing, path: path.display().to_string(), errno: errno.into() }
    }

    pub(crate) fn add(path: &Path, errno: Errno) -> StateError {
        StateError::Add { path: path.display().to_string(), errno }
    }
}
