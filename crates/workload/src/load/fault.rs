//! `Fault`: why a load did not go on.

use evenkeel_sys::Errno;

/// Why a load did not go on: what the server did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A connection could not be made, or was refused at the greeting.
    #[error("no connection: {why}")]
    Connect {
        /// What went wrong.
        why: String,
    },
    /// It ended a connection that had work to do.
    #[error("it closed a connection")]
    Closed,
    /// It keeps its connections open and says nothing.
    #[error("it has not answered a request for {seconds} s")]
    Silent {
        /// How long, in seconds.
        seconds: u64,
    },
    /// What it said is no answer.
    #[error("{why}")]
    Odd {
        /// What, in words.
        why: String,
    },
    /// The kernel refused something.
    #[error("{why}")]
    Io {
        /// What it said.
        why: String,
    },
    /// Nothing was asked within a window.
    #[error("no request fell due within the window: set a higher rate or a longer window")]
    Idle,
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Fault {
        use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset => Fault::Closed,
            _ => Fault::Io { why: error.to_string() },
        }
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault::Io { why: errno.to_string() }
    }
}
