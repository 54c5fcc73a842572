//! `TelemetryReader`: reads a session's page while the server goes on. The file is read, not mapped: whoever cuts a mapped file short kills
//! who looks at it.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::layout::head;
use super::owner::State;
use super::prometheus::prometheus;
use super::sequence;
use super::snapshot::{Odd, Snapshot};
use crate::errno::Errno;
use crate::shared_page::{self, PAGE_BYTES_MAX};

/// What names of pages begin with.
pub(super) const PREFIX: &str = "evenkeel-rt.";

/// Entries of a folder that are looked at, and pages that are found, at the most.
const ENTRIES_MAX: usize = 4096;
const SESSIONS_MAX: usize = 256;

/// Copies that are tried. A tick's entry takes a fraction of a microsecond; the writer may lose its CPU in the middle of it.
const TRIES: u32 = 40;
/// The first tries come right after one another, the others after a pause.
const TRIES_AT_ONCE: u32 = 4;
const PAUSE: Duration = Duration::from_millis(2);

/// Why a page could not be made or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The kernel refused.
    #[error("the page of telemetry {}: {errno}", path.display())]
    Kernel {
        /// Which file.
        path: PathBuf,
        /// What it said.
        errno: Errno,
    },
    /// The session's name is none or too long.
    #[error("a session's name has 1 to 64 bytes, and this one has {0}")]
    Name(usize),
    /// The file is no page, or not a sound one.
    #[error("the page of telemetry {}: {odd}", path.display())]
    Odd {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        odd: Odd,
    },
    /// An entry was being written each time: its writer was stopped or killed in the middle of it.
    #[error("the page of telemetry {} stays half-written: its server was stopped or killed in the middle of a tick", path.display())]
    HalfWritten {
        /// Which file.
        path: PathBuf,
    },
    /// There is no folder to put it in.
    #[error("no folder for a page of telemetry: {0}; name one that this user can write to, best on a tmpfs")]
    NoFolder(String),
}

/// A page to read.
#[derive(Debug)]
pub struct TelemetryReader {
    file: File,
    path: PathBuf,
}

impl TelemetryReader {
    /// Opens a page: through no symbolic link, and without waiting.
    ///
    /// # Errors
    /// If it is not there, no ordinary file, too long for a page, or this user may not read it.
    pub fn open(path: &Path) -> Result<TelemetryReader, PageError> {
        let file = shared_page::open(path).map_err(|errno| PageError::Kernel { path: path.to_owned(), errno })?;
        Ok(TelemetryReader { file, path: path.to_owned() })
    }

    /// What it says now, all of one moment.
    ///
    /// # Errors
    /// If it is no sound page; or if it stays half-written for a tenth of a second.
    pub fn read(&self) -> Result<Snapshot, PageError> {
        for turn in 0..TRIES {
            // Each look is a system call of its own, with all its barriers, so that the three are in this order.
            let copied = sequence::copied(|| self.word(head::DONE), || self.bytes(), || self.word(head::BEGUN));
            if let Some(bytes) = copied {
                return Snapshot::parse(&bytes?).map_err(|odd| PageError::Odd { path: self.path.clone(), odd });
            }
            if turn >= TRIES_AT_ONCE {
                std::thread::sleep(PAUSE);
            }
        }
        Err(PageError::HalfWritten { path: self.path.clone() })
    }

    /// What it says now, as text for Prometheus.
    ///
    /// # Errors
    /// As [`TelemetryReader::read`].
    pub fn prometheus(&self) -> Result<String, PageError> {
        Ok(prometheus(&[self.read()?]))
    }

    /// Whether its server is there.
    ///
    /// # Errors
    /// As [`TelemetryReader::read`], a half-written page excepted; or what the kernel said of the process.
    pub fn state(&self) -> Result<State, PageError> {
        let page = Snapshot::parse(&self.bytes()?);
        let owner = match page {
            Ok(page) => page.owner,
            // Torn between two entries: the owner's words never change.
            Err(Odd::Sum(_)) => return self.state_of_torn(),
            Err(odd) => return Err(PageError::Odd { path: self.path.clone(), odd }),
        };
        owner.state(&self.file).map_err(|errno| self.refused(errno))
    }

    /// The user that the file belongs to.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn user(&self) -> Result<u32, PageError> {
        self.file.metadata().map(|found| found.uid()).map_err(|error| self.refused(Errno::from(&error)))
    }

    fn state_of_torn(&self) -> Result<State, PageError> {
        let is_locked = shared_page::is_locked(&self.file).map_err(|errno| self.refused(errno))?;
        Ok(if is_locked { State::Live } else { State::Gone })
    }

    fn bytes(&self) -> Result<Vec<u8>, PageError> {
        let mut bytes = vec![0; PAGE_BYTES_MAX];
        let mut length = 0;
        // A file that grows under our eyes ends where the buffer does.
        while length < bytes.len() {
            match self.file.read_at(&mut bytes[length..], length as u64) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.refused(Errno::from(&error))),
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// A word of the head; 0 if it cannot be read, which reading the whole page then reports.
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        let _ = self.file.read_exact_at(&mut word, at as u64 * 8);
        u64::from_ne_bytes(word)
    }

    fn refused(&self, errno: Errno) -> PageError {
        PageError::Kernel { path: self.path.clone(), errno }
    }
}

/// A session whose page was found.
#[derive(Debug)]
pub struct Session {
    /// Its page.
    pub reader: TelemetryReader,
    /// Where that is.
    pub path: PathBuf,
    /// Whether its server is there.
    pub state: State,
}

/// Where pages are put by those who name no folder: /dev/shm, then the user's own folder for what lives as long as a login.
pub fn folders() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    std::iter::once(PathBuf::from("/dev/shm")).chain(own).collect()
}

/// The sound pages in a folder, by name; up to 256. What is called like one and is none is left out.
///
/// # Errors
/// What the kernel said of the folder.
pub fn sessions(folder: &Path) -> Result<Vec<Session>, Errno> {
    let found = session_paths(folder)?.into_iter().filter_map(|path| {
        let reader = TelemetryReader::open(&path).ok()?;
        let state = reader.state().ok()?;
        Some(Session { reader, path, state })
    });
    Ok(found.collect())
}

/// What is called like a page in a folder, in order of names; up to 256.
///
/// # Errors
/// What the kernel said of the folder.
pub(super) fn session_paths(folder: &Path) -> Result<Vec<PathBuf>, Errno> {
    let entries = std::fs::read_dir(folder).map_err(|error| Errno::from(&error))?;
    let named = entries.take(ENTRIES_MAX).flatten().filter(|entry| {
        entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
    });
    let mut paths: Vec<PathBuf> = named.map(|entry| entry.path()).take(SESSIONS_MAX).collect();
    paths.sort();
    Ok(paths)
}
