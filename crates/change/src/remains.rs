//! `Remains`: an open journal, for a process that must undo its changes even if somebody removes the folder.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

use evenkeel_sys::Errno;
use rustix::fs::OFlags;

use crate::journal::{JOURNAL, JournalFile};
use crate::outside::Real;
use crate::state::State;
use crate::state_dir::StateDir;
use crate::state_error::StateError;

/// An open journal. It stays readable even if its files are removed or moved.
pub struct Remains {
    dir: StateDir,
    file: File,
}

impl Remains {
    /// Opens the journal in `dir`.
    ///
    /// # Errors
    /// If others may write to the directory, or the directory has no readable journal.
    pub fn hold(dir: &Path) -> Result<Remains, StateError> {
        let dir = StateDir::open(dir)?;
        let file = dir.file(JOURNAL, OFlags::RDONLY)?;
        Ok(Remains { dir, file })
    }

    /// Opens the journal only for a restore. Nothing can be appended to it, as on a read-only disk.
    ///
    /// # Errors
    /// If the journal can't be read.
    pub fn open(&self) -> Result<State, StateError> {
        let again = |file: &File| -> std::io::Result<File> {
            let mut file = file.try_clone()?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        let failed = |error: std::io::Error| StateError::io("read", &self.dir.path.join(JOURNAL), Errno::from(&error));
        let file = JournalFile::ReadOnly(again(&self.file).map_err(failed)?, Errno::NOENT);
        let dir = StateDir { dir: self.dir.dir.try_clone().map_err(failed)?, path: self.dir.path.clone() };
        State::with(dir, None, Ok(file), Box::new(Real))
    }
}
