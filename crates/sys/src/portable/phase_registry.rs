//! The registry of sessions that tick on this host. Only Linux has this registry, so no session can join it here.

use std::path::Path;

use crate::Errno;
use crate::phase_slot::Slot;

/// The maximum number of sessions that a scan finds.
pub const SLOTS_MAX: usize = 256;

/// A slot. No value of this type exists on this system.
#[derive(Debug)]
pub enum SlotWriter {}

impl SlotWriter {
    /// Creates none.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn create(_: &Path) -> Result<SlotWriter, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Publishes the session's ticks.
    pub fn publish(&mut self, _: &Slot) {
        match *self {}
    }

    /// A number that no other session in the folder has.
    pub fn id(&self) -> u64 {
        match *self {}
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        match *self {}
    }
}

/// Reads slots. No value of this type exists on this system.
#[derive(Debug)]
pub enum Scanner {}

impl Scanner {
    /// Opens nothing.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn open(_: &Path) -> Result<Scanner, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Reads nothing.
    ///
    /// # Errors
    /// None: no value of this type exists.
    pub fn scan(&mut self, _: impl FnMut(u64, Slot) -> bool) -> Result<(), Errno> {
        match *self {}
    }
}

/// The lock of a folder. A program cannot take it on this system.
#[derive(Debug)]
pub enum FolderLock {}

impl FolderLock {
    /// Locks nothing.
    pub fn take(_: &Path) -> Option<FolderLock> {
        None
    }
}

/// Not known.
pub fn time_namespace() -> u64 {
    0
}
