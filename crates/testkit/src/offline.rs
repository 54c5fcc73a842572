//! A CPU that is offline until this is dropped, for tests in which a meter loses a CPU.

use std::fs;

/// A CPU that comes back online when this is dropped.
#[derive(Debug)]
pub struct Offline(String);

impl Offline {
    /// Takes the CPU offline. `None` if that is not possible: without root, or if the kernel refuses.
    pub fn take(cpu: usize) -> Option<Offline> {
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
