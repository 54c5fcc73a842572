//! A CPU that is offline until this is dropped, for the tests that take one away from a meter.

use std::fs;

pub(crate) struct Offline(String);

impl Offline {
    /// None where it may not be taken: without root, or where the kernel keeps it.
    pub(crate) fn take(cpu: usize) -> Option<Offline> {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        fs::write(&path, "0").ok()?;
        Some(Offline(path))
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "1");
    }
}
