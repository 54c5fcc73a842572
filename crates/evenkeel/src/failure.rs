//! `Failure`: why a command has no answer, with its exit code and, if possible, a hint.

use std::fmt::Display;
use std::io;

use anyhow::anyhow;
use evenkeel_change::{PutBack, Transaction};
use evenkeel_hostfs::user_file::UserFileError;
use evenkeel_sys::Errno;
use serde::Serialize;

use crate::exit::{self, Exit};

/// The result of a command: its exit code, or a failure.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Why a command has no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// The failed action, with the place and the reason. The message is `begins`, followed by this text.
    pub(crate) error: anyhow::Error,
    /// The beginning of the message: "failed to ", or nothing if the error is a sentence.
    pub(crate) begins: &'static str,
    /// Advice on what to do.
    pub(crate) hint: Option<String>,
    /// The changes that evenkeel made to the machine before the failure; `None` if it made no changes.
    pub(crate) aftermath: Option<Box<Aftermath>>,
}

/// The changes before the failure, and their undo. In JSON these fields are next to `error`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Aftermath {
    pub(crate) transaction: Transaction,
    pub(crate) put_back: PutBack,
}

impl Failure {
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Failure {
        Failure { exit, error: error.into(), begins: "failed to ", hint: None, aftermath: None }
    }

    /// A failure from the attempted action and the cause, both as text.
    pub(crate) fn text(exit: Exit, tried: impl Display, cause: impl Display) -> Failure {
        Failure::new(exit, anyhow!("{tried}: {cause}"))
    }

    /// A failure for arguments that the program does not accept, as one sentence.
    pub(crate) fn wrong_use(sentence: String) -> Failure {
        Failure { begins: "", ..Failure::new(exit::WRONG_USE, anyhow!(sentence)) }
    }

    /// A failure of an operation on a file.
    /// If access was denied, the exit code is [`exit::NOT_ALLOWED`]; for other errors it is `otherwise`.
    pub(crate) fn io(otherwise: Exit, tried: impl Display, error: &io::Error) -> Failure {
        let errno = Errno::from(error);
        Failure::text(exit_of(errno, otherwise), tried, errno)
    }

    /// A failure to read a file that the user named.
    pub(crate) fn user_file(tried: impl Display, error: &UserFileError) -> Failure {
        match error.is_denial() {
            true => Failure::text(exit::NOT_ALLOWED, tried, error).hint(MAY_READ),
            false => Failure::text(exit::WRONG_USE, tried, error),
        }
    }

    /// Adds a hint, unless the failure already has one.
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Failure {
        if self.hint.is_some() { self } else { self.hint(hint) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// A failure to print an answer after a change of the machine.
    /// The exit code must not claim that nothing was changed.
    pub(crate) fn after_a_change(self, undo: impl Display) -> Failure {
        Failure { exit: exit::NOT_UNDONE, ..self }.hint(format!("the change is made all the same; undo it: {undo}"))
    }

    /// The whole message on one line.
    pub(crate) fn message(&self) -> String {
        format!("{}{:#}", self.begins, self.error)
    }
}

/// The hint for a file that this user may not read, but another user may.
pub(crate) const MAY_READ: &str = "run it with sudo, or as a user who may read it";

/// Returns [`exit::NOT_ALLOWED`] if the error means denied access, and otherwise `otherwise`.
pub(crate) fn exit_of(errno: Errno, otherwise: Exit) -> Exit {
    if errno.is_denial() { exit::NOT_ALLOWED } else { otherwise }
}
