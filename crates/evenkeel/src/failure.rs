//! `Failure`: why a command has no answer, with the exit code that says so and, where there is one, what to do about it.

use std::fmt::Display;
use std::io;

use anyhow::anyhow;
use evenkeel_change::{PutBack, Transaction};
use evenkeel_hostfs::user_file::UserFileError;
use evenkeel_sys::Errno;
use serde::Serialize;

use crate::exit::{self, Exit};

/// The result of a command: an outcome, or the reason for a failure.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Why a command has no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The outcome that the shell sees.
    pub(crate) exit: Exit,
    /// What failed, with where and why; reads well after `begins`.
    pub(crate) error: anyhow::Error,
    /// What the message begins with: "failed to ", or nothing where the error is a sentence.
    pub(crate) begins: &'static str,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// What became of the machine until then, where something did.
    pub(crate) aftermath: Option<Box<Aftermath>>,
}

/// What a change did before it failed; in JSON its fields are next to `error`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Aftermath {
    pub(crate) transaction: Transaction,
    pub(crate) put_back: PutBack,
}

impl Failure {
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Failure {
        Failure { exit, error: error.into(), begins: "failed to ", hint: None, aftermath: None }
    }

    /// A failure, as what was tried and a cause in words.
    pub(crate) fn text(exit: Exit, tried: impl Display, cause: impl Display) -> Failure {
        Failure::new(exit, anyhow!("{tried}: {cause}"))
    }

    /// Arguments that the program does not take, in a sentence.
    pub(crate) fn wrong_use(sentence: String) -> Failure {
        Failure { begins: "", ..Failure::new(exit::WRONG_USE, anyhow!(sentence)) }
    }

    /// What the kernel said to something done to a file: a denial asks for more rights, anything else is `otherwise`.
    pub(crate) fn io(otherwise: Exit, tried: impl Display, error: &io::Error) -> Failure {
        let errno = Errno::from(error);
        Failure::text(exit_of(errno, otherwise), tried, errno)
    }

    /// Of a file that the user named and that can't be read.
    pub(crate) fn user_file(tried: impl Display, error: &UserFileError) -> Failure {
        Failure::text(if error.is_denial() { exit::NOT_ALLOWED } else { exit::WRONG_USE }, tried, error)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Of an answer that could not be printed after the machine was changed: the exit code must not say that nothing was.
    pub(crate) fn after_a_change(self, undo: impl Display) -> Failure {
        Failure { exit: exit::NOT_UNDONE, ..self }.hint(format!("the change is made all the same; undo it: {undo}"))
    }

    /// The whole message on one line.
    pub(crate) fn message(&self) -> String {
        format!("{}{:#}", self.begins, self.error)
    }
}

/// [`exit::NOT_ALLOWED`] for a denial, else `otherwise`.
pub(crate) fn exit_of(errno: Errno, otherwise: Exit) -> Exit {
    if errno.is_denial() { exit::NOT_ALLOWED } else { otherwise }
}
