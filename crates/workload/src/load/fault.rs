//! `Fault`: why a load stopped.

use evenkeel_sys::Errno;

/// Why a load stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A connection could not be made, or was refused at the greeting.
    #[error("no connection: {why}")]
    Connect {
        /// What went wrong.
        why: String,
    },
    /// The server closed a connection that was in use.
    #[error("it closed a connection")]
    Closed,
    /// The server keeps its connections open but does not answer.
    #[error("it has not answered a request for {seconds} s")]
    Silent {
        /// How long no request was answered, in seconds.
        seconds: u64,
    },
    /// The server's answer is invalid.
    #[error("{why}")]
    Odd {
        /// The answer as text.
        why: String,
    },
    /// The kernel's error.
    #[error("{why}")]
    Io {
        /// The error as text.
        why: String,
    },
    /// No request was made within a window.
    #[error("no request was due within the window: set a higher rate or a longer window")]
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
