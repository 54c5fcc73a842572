//! `StateError`: why evenkeel cannot use a journal or a register.

use std::path::Path;

use evenkeel_sys::Errno;

use crate::loss::{Loss, listed};
use crate::sizes::{MAX_JOURNAL_BYTES, MAX_RECORD_BYTES};

/// The error for a journal that cannot be opened, read or extended.
/// The message continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The kernel refused.
    #[error("{doing} {path}: {errno}")]
    Io {
        /// The action.
        doing: &'static str,
        /// The path.
        path: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// A record could not be added, usually because the disk is full.
    #[error("add to {path}: {errno}")]
    Add {
        /// The file.
        path: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// Another user could change the content of the state directory.
    #[error("trust the state directory {path}: {why}")]
    Unsafe {
        /// The directory, or the file in it.
        path: String,
        /// Why the directory or file is unsafe, and what to do.
        why: String,
    },
    /// Another evenkeel holds the lock.
    #[error("lock {path}: another evenkeel ({holder}) is changing this host; wait until it ends, or stop it")]
    Busy {
        /// The lock.
        path: String,
        /// The holder of the lock, if the lock file names it.
        holder: String,
    },
    /// The journal has changes of a captured machine, and the root is a real machine.
    #[error(
        "use this journal: it has changes of a captured machine, and this one never had those values; name the capture \
            with --host, or another journal with --state DIR"
    )]
    Rehearsal,
    /// The journal has changes of a real machine, and the root is a captured machine.
    #[error("use this journal for a captured machine: it has changes of a real one; name another with --state DIR")]
    NoRehearsal,
    /// The journal lost records, or a part of it is unreadable.
    #[error(
        "read the journal {path}: {}. Nothing was changed. `evenkeel revert` restores what the remaining records \
            describe; \"undo\" in each line is the shell command that undoes it. Then move the journal and \
            journal.last-record away",
        listed(losses)
    )]
    Damaged {
        /// The journal.
        path: String,
        /// The missing and unreadable parts.
        losses: Vec<Loss>,
    },
    /// The register of the journals that hold a setting can't be read.
    #[error("read the register {path}: {why}. If no other journal holds the setting, remove it, then try again")]
    Register {
        /// The register.
        path: String,
        /// The error.
        why: String,
    },
    /// A setting does not have the value that we set, and the register no longer has our change.
    #[error(
        "restore {before:?} in {path}: it is {found:?}, which this journal did not set, and no register in \
            /run/evenkeel still has the change. Nothing was written. If {before:?} is right, write it yourself, then \
            revert again"
    )]
    UnexpectedValue {
        /// The file of the setting.
        path: String,
        /// The value that our journal found before its change.
        before: String,
        /// The value in force.
        found: String,
    },
    /// evenkeel cannot add any more records.
    #[error("add to the journal {path}: {why}")]
    Unwritable {
        /// The journal.
        path: String,
        /// Why evenkeel cannot add a record, and what to do.
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
        /// The format number.
        format: String,
    },
    /// The journal has reached its maximum size.
    #[error(
        "add to the journal {path}: it may not exceed {MAX_JOURNAL_BYTES} bytes, and all its changes are still in \
            force; revert some with `evenkeel revert`"
    )]
    Full {
        /// The journal.
        path: String,
    },
    /// A record would be too long.
    #[error(
        "add to the journal: the record would have {len_bytes} bytes, and the limit is {MAX_RECORD_BYTES}; change \
            less at once"
    )]
    TooLong {
        /// The length of the record, in bytes.
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
