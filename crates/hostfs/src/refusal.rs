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
    /// The path is a network setting, and this process is in another network namespace than the mounted host.
    /// The kernel would show the setting of this process's namespace.
    OtherNetwork,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Errno(errno) => write!(f, "{errno}"),
            Why::NotCaptured => f.write_str("not in the capture"),
            Why::OtherNetwork => f.write_str(
                "that of this container's own network, not of the host's: start it with --network=host (hostNetwork: true)",
            ),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read {}: {}", self.path, self.why)
    }
}

impl std::error::Error for Refusal {}
