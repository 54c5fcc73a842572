//! `HostLock` lets only one test at a time use this host.
//! Tests that change a setting of the host and live checks that measure it would disturb each other, even from two checkouts.

use std::fs::File;

/// Holds the host until it is dropped.
#[derive(Debug)]
pub struct HostLock {
    _file: File,
}

impl HostLock {
    /// Waits until no other test holds the host.
    ///
    /// # Panics
    /// If the lock file in the folder for temporary files cannot be made.
    pub fn take() -> HostLock {
        let path = std::env::temp_dir().join("evenkeel-tests-of-this-host.lock");
        // A user must be able to lock a file that another user created. Opening it for reading is enough for that.
        let file = File::open(&path).or_else(|_| File::create(&path)).unwrap();
        file.lock().unwrap();
        HostLock { _file: file }
    }
}
