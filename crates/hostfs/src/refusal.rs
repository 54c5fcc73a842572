//! Why a reading of a host failed.

use std::fmt;

use evenkeel_sys::Errno;

/// A reading that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The path.
    pub path: String,
    /// The reason.
    pub why: Why,
}

/// The reason of a failed reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The kernel's error.
    Errno(Errno),
    /// The capture does not contain this path, because it was never read.
    NotCaptured,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::Errno(errno) => write!(f, "read {}: {errno}", self.path),
            Why::NotCaptured => write!(f, "read {}: not in the capture", self.path),
        }
    }
}

impl std::error::Error for Refusal {}
