//! `HostWriter`: the only way to write to a host.
//! The writer accepts only paths below /proc and /sys, so a path from a file or the user can reach nothing else.

use std::sync::{Arc, Mutex};

use evenkeel_sys::Errno;
use evenkeel_sys::dma_latency::{self, DmaLatency};
use rustix::fs::{Mode, OFlags};

use crate::capture::{Capture, lock};
use crate::fake_kernel;
use crate::refusal::Why;

/// Writes to the live machine or to a captured machine.
#[derive(Clone, Debug)]
pub struct HostWriter {
    target: Target,
}

#[derive(Clone, Debug)]
enum Target {
    Live,
    Captured(Arc<Mutex<Capture>>),
    Nothing,
}

/// This root is read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write to a mounted root: it is read-only; write to the live machine or to a capture")]
pub struct ReadOnlyHost;

/// A write that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write {value:?} to {path}: {errno}")]
pub struct WriteError {
    /// The path.
    pub path: String,
    /// The text that was written, without its newline.
    pub value: String,
    /// The kernel's error.
    pub errno: Errno,
}

impl HostWriter {
    pub(crate) fn live() -> HostWriter {
        HostWriter { target: Target::Live }
    }

    pub(crate) fn captured(capture: Arc<Mutex<Capture>>) -> HostWriter {
        HostWriter { target: Target::Captured(capture) }
    }

    /// A writer for a root without a running kernel, such as an image. It refuses every write with `EROFS`.
    pub fn on_nothing() -> HostWriter {
        HostWriter { target: Target::Nothing }
    }

    /// Writes `value` and a newline to the file at `path` in one `write(2)`, as the kernel requires.
    ///
    /// A write without an error may still have no effect, so read the value back.
    ///
    /// # Errors
    /// The kernel's error. `EINVAL` for a path outside /proc and /sys, or for a value of more than one line.
    pub fn write(&self, path: &str, value: &str) -> Result<(), WriteError> {
        let refused = |errno| WriteError { path: path.to_owned(), value: value.to_owned(), errno };
        if !is_kernel_path(path) || value.contains(['\n', '\0']) {
            return Err(refused(Errno::INVAL));
        }
        match &self.target {
            Target::Live => live_write(path, value),
            Target::Captured(capture) => fake_kernel::write(&mut lock(capture), path, value),
            Target::Nothing => Err(Errno::ROFS),
        }
        .map_err(refused)
    }

    /// Holds the idle exit latency of every CPU at or below `us`.
    /// The limit ends when the returned value is dropped or this process ends, even by a crash.
    ///
    /// # Errors
    /// The kernel's error. The call needs root, and an idle driver in the kernel.
    pub fn hold_dma_latency_us(&self, us: i32) -> Result<HeldLatency, WriteError> {
        let refused = |errno| WriteError { path: dma_latency::DEVICE.to_owned(), value: us.to_string(), errno };
        match &self.target {
            Target::Live => match DmaLatency::hold_us(us) {
                Ok(held) => Ok(HeldLatency { held: Some(held), us }),
                Err(errno) => Err(refused(errno)),
            },
            Target::Captured(capture) => match lock(capture).entries("/sys/devices/system/cpu/cpuidle") {
                Ok(_) => Ok(HeldLatency { held: None, us }),
                Err(Why::Errno(errno)) => Err(refused(errno)),
                Err(Why::NotCaptured | Why::OtherNetwork) => Err(refused(Errno::NOENT)),
            },
            Target::Nothing => Err(refused(Errno::ROFS)),
        }
    }
}

/// A limit on idle exit latency, which ends when this value is dropped.
#[derive(Debug)]
pub struct HeldLatency {
    /// None on a captured host.
    held: Option<DmaLatency>,
    us: i32,
}

impl HeldLatency {
    /// The active limit, in microseconds: the smallest limit that any process holds.
    ///
    /// # Errors
    /// The kernel's error for the read.
    pub fn in_force_us(&mut self) -> Result<i32, Errno> {
        self.held.as_mut().map_or(Ok(self.us), DmaLatency::in_force_us)
    }
}

fn is_kernel_path(path: &str) -> bool {
    (path.starts_with("/proc/") || path.starts_with("/sys/"))
        && !path.contains('\0')
        && path.split('/').skip(1).all(|part| !part.is_empty() && part != "." && part != "..")
}

fn live_write(path: &str, value: &str) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    let line = format!("{value}\n");
    // Use one call: the kernel parses each write(2) separately, so the rest of a short write would be a second, wrong value.
    let written = rustix::io::write(&file, line.as_bytes())?;
    if written < value.len() { Err(Errno::IO) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    #[test]
    fn only_the_kernels_paths_are_written() {
        let live = Root::live().writer().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("file");
        std::fs::write(&outside, "before").unwrap();
        let climbing = format!("/proc/../{}", outside.display());
        for path in [outside.to_str().unwrap(), &climbing, "/sys/", "/proc//x", "/proc/./x", "/proc/x\0y", "proc/x"] {
            assert_eq!(live.write(path, "1").unwrap_err().errno, Errno::INVAL, "{path:?}");
        }
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "before");
    }

    #[test]
    fn a_value_is_one_line() {
        let live = Root::live().writer().unwrap();
        assert_eq!(live.write("/proc/sys/vm/swappiness", "60\n60").unwrap_err().errno, Errno::INVAL);
    }

    #[test]
    fn refusals_name_path_value_and_errno() {
        let error = Root::live().writer().unwrap().write("/proc/version", "x").unwrap_err();
        assert!(error.to_string().starts_with("write \"x\" to /proc/version: "), "{error}");
    }
}
