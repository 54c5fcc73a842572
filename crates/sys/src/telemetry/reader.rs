//! `TelemetryReader`: reads a session's page while the server runs.
//! The reader reads the file and does not map it, because truncating a mapped file would kill the reader.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::layout::head;
use super::owner::State;
use super::prometheus::prometheus;
use super::sequence;
use super::snapshot::{Odd, Snapshot};
use crate::IS_LINUX;
use crate::errno::Errno;
use crate::shared_page::{self, PAGE_BYTES_MAX};

/// The prefix of page names.
pub(super) const PREFIX: &str = "evenkeel-rt.";

/// The maximum number of entries of a folder to examine. The next value is the maximum number of pages to find.
const ENTRIES_MAX: usize = 4096;
const SESSIONS_MAX: usize = 256;

/// The maximum number of attempts to copy. The writer needs a fraction of a microsecond for an entry, but may lose its CPU meanwhile.
const TRIES: u32 = 40;
/// The first attempts follow one another directly. The later attempts follow after a pause.
const TRIES_AT_ONCE: u32 = 4;
const PAUSE: Duration = Duration::from_millis(2);

/// Why a page could not be created or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The kernel refused the file.
    #[error("the page of telemetry {}: {errno}", path.display())]
    Kernel {
        /// The path of the file.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// The session's name is empty or too long.
    #[error("a session's name has 1 to 64 bytes, and this one has {0}")]
    Name(usize),
    /// The file is not a valid page.
    #[error("the page of telemetry {}: {odd}", path.display())]
    Odd {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with the page.
        odd: Odd,
    },
    /// An entry was half-written at each attempt, because its writer was stopped or killed meanwhile.
    #[error("the page of telemetry {} stays half-written: its server was stopped or killed in the middle of a tick", path.display())]
    HalfWritten {
        /// The path of the file.
        path: PathBuf,
    },
    /// Only Linux has such pages.
    #[error("telemetry pages need Linux: leave telemetry out on this system")]
    Unsupported,
    /// There is no folder for the page.
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
    /// Opens a page, without following a symbolic link and without waiting.
    ///
    /// # Errors
    /// If the page does not exist, is not a regular file, is too long for a page, or this user may not read it.
    pub fn open(path: &Path) -> Result<TelemetryReader, PageError> {
        if !IS_LINUX {
            return Err(PageError::Unsupported);
        }
        let file = shared_page::open(path).map_err(|errno| PageError::Kernel { path: path.to_owned(), errno })?;
        Ok(TelemetryReader { file, path: path.to_owned() })
    }

    /// The page's current contents, all from one moment.
    ///
    /// # Errors
    /// If the file is not a valid page, or stays half-written for a tenth of a second.
    pub fn read(&self) -> Result<Snapshot, PageError> {
        for turn in 0..TRIES {
            // Each read is a system call with all its barriers, so the three reads happen in this order.
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

    /// The page's current contents as text for Prometheus.
    ///
    /// # Errors
    /// The same errors as [`TelemetryReader::read`].
    pub fn prometheus(&self) -> Result<String, PageError> {
        Ok(prometheus(&[self.read()?]))
    }

    /// Whether the page's server still exists.
    ///
    /// # Errors
    /// The same as for [`TelemetryReader::read`], except for a half-written page; or the kernel's error for the process.
    pub fn state(&self) -> Result<State, PageError> {
        let page = Snapshot::parse(&self.bytes()?);
        let owner = match page {
            Ok(page) => page.owner,
            // The page is torn between two entries. The words of the owner never change, so use those words.
            Err(Odd::Sum(_)) => return self.state_of_torn(),
            Err(odd) => return Err(PageError::Odd { path: self.path.clone(), odd }),
        };
        owner.state(&self.file).map_err(|errno| self.refused(errno))
    }

    /// The user that the file belongs to.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn user(&self) -> Result<u32, PageError> {
        shared_page::user_of(&self.file).map_err(|errno| self.refused(errno))
    }

    fn state_of_torn(&self) -> Result<State, PageError> {
        let is_locked = shared_page::is_locked(&self.file).map_err(|errno| self.refused(errno))?;
        Ok(if is_locked { State::Live } else { State::Gone })
    }

    fn bytes(&self) -> Result<Vec<u8>, PageError> {
        let mut bytes = vec![0; PAGE_BYTES_MAX];
        let mut length = 0;
        // If the file grows meanwhile, the copy ends at the end of the buffer.
        while length < bytes.len() {
            match shared_page::read_at(&self.file, &mut bytes[length..], length as u64) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.refused(Errno::from(&error))),
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// A word of the header. 0 if it cannot be read; in that case the read of the whole page reports the error.
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        match shared_page::read_at(&self.file, &mut word, at as u64 * 8) {
            Ok(8) => u64::from_ne_bytes(word),
            _ => 0,
        }
    }

    fn refused(&self, errno: Errno) -> PageError {
        PageError::Kernel { path: self.path.clone(), errno }
    }
}

/// A session whose page was found.
///
/// ```
/// use evenkeel_sys::telemetry::{PageError, Session, State, folders, prometheus, sessions};
///
/// let mut pages = Vec::new();
/// for folder in folders() {
///     for Session { reader, path, state } in sessions(&folder).unwrap_or_default() {
///         match reader.read() {
///             Ok(page) if state == State::Live => pages.push(page),
///             Ok(_) => println!("{} was left behind by user {}", path.display(), reader.user()?),
///             Err(error @ PageError::HalfWritten { .. }) => println!("{error}, {:?}", reader.state()?),
///             Err(error) => println!("{error}"),
///         }
///     }
/// }
/// print!("{}", prometheus(&pages));
/// # Ok::<(), PageError>(())
/// ```
#[derive(Debug)]
pub struct Session {
    /// The session's page.
    pub reader: TelemetryReader,
    /// The path of the page.
    pub path: PathBuf,
    /// Whether the page's server still exists.
    pub state: State,
}

/// The default folders of pages: /dev/shm, then the user's runtime folder.
pub fn folders() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    std::iter::once(PathBuf::from("/dev/shm")).chain(own).collect()
}

/// The valid pages in a folder, by name, up to 256. Other files with names of pages are left out.
///
/// # Errors
/// The kernel's error while it lists the folder; `EOPNOTSUPP` on systems other than Linux.
pub fn sessions(folder: &Path) -> Result<Vec<Session>, Errno> {
    if !IS_LINUX {
        return Err(Errno::OPNOTSUPP);
    }
    let found = session_paths(folder)?.into_iter().filter_map(|path| {
        let reader = TelemetryReader::open(&path).ok()?;
        let state = reader.state().ok()?;
        Some(Session { reader, path, state })
    });
    Ok(found.collect())
}

/// The files with names of pages in a folder, in order, up to 256.
///
/// # Errors
/// The kernel's error.
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
