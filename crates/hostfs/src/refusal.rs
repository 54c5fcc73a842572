//! Why a look at a host gave nothing.

use std::fmt;

use evenkeel_sys::Errno;

/// A look that gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was looked at.
    pub path: String,
    /// Why it gave nothing.
    pub why: Why,
}

/// Why a look gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The kernel said so.
    Errno(Errno),
    /// The capture does not hold this path: whoever took it never looked.
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
