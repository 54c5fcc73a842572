//! `LogFile`: the file of a running session or search.
//! The file has a line of JSON for the head, and one line for each record.
//! If the process is killed, at most the last line is incomplete. That line is removed before the file is continued.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use evenkeel_hostfs::user_file;
use evenkeel_sys::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::InvalidLine;

/// Why a log can't be written or read. The message continues a sentence that begins with "failed to".
#[derive(Debug, thiserror::Error)]
pub enum LogFileError {
    /// The kernel refused an access to the file.
    #[error("{doing} {path}: {why}")]
    Io {
        /// What evenkeel tried to do.
        doing: &'static str,
        /// The path.
        path: String,
        /// The kernel's error, or a description of the file.
        why: String,
    },
    /// The file is not a log of evenkeel.
    #[error("read the {what} {path}: line {line}: {why}")]
    Unreadable {
        /// The expected kind of log.
        what: &'static str,
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// Why the line is invalid.
        why: String,
    },
}

impl LogFileError {
    pub(crate) fn io(doing: &'static str, path: &Path, error: &io::Error) -> LogFileError {
        LogFileError::refused(doing, path, words(error))
    }

    pub(crate) fn refused(doing: &'static str, path: &Path, why: impl ToString) -> LogFileError {
        LogFileError::Io { doing, path: path.display().to_string(), why: why.to_string() }
    }

    pub(crate) fn unreadable(what: &'static str, path: &Path, InvalidLine { line, why }: InvalidLine) -> LogFileError {
        LogFileError::Unreadable { what, path: path.display().to_string(), line, why }
    }
}

/// The text of an error. Errors of the kernel have the form that evenkeel always prints, other errors have their own words.
pub(crate) fn words(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |_| Errno::from(error).to_string())
}

/// How to treat a file that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfThere {
    /// Do not write, unless the file is empty.
    Refuse,
    /// Replace the file, including its mode.
    Replace,
}

/// A log to which evenkeel adds records.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Creates a file that only this user can read. `None` if a file exists there that must not be replaced.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub(crate) fn create(path: &Path, if_there: IfThere) -> io::Result<Option<LogFile>> {
        let mut options = OpenOptions::new();
        match if_there {
            // Open to append, because the path may be a terminal or a pipe.
            IfThere::Refuse => options.create(true).append(true),
            // Remove an existing file first. Other users may be able to read the old file, and new content would keep its mode.
            IfThere::Replace => match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => options.create_new(true).append(true),
            },
        };
        let file = options.mode(0o600).open(path)?;
        let is_empty = !file.metadata().is_ok_and(|metadata| metadata.len() > 0);
        Ok(is_empty.then(|| LogFile { path: path.to_owned(), file }))
    }

    /// Opens an existing file to continue it. It must be a regular file.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub(crate) fn open(path: &Path) -> io::Result<LogFile> {
        Ok(LogFile { path: path.to_owned(), file: user_file::open_to_append(path)? })
    }

    /// Truncates the file to this many bytes.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub(crate) fn cut(&self, whole_bytes: u64) -> io::Result<()> {
        self.file.set_len(whole_bytes)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a record, and returns its text.
    /// The file is not synced, because a sync would disturb the measurement.
    /// If the process is killed, nothing is lost even without a sync.
    ///
    /// # Errors
    /// Returns the kernel's error. The file may then end with a part of the line.
    pub(crate) fn add(&mut self, record: &impl Serialize) -> io::Result<String> {
        let line = serde_json::to_string(record)? + "\n";
        self.file.write_all(line.as_bytes())?;
        Ok(line)
    }

    /// Writes the log to the disk.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // A terminal or a pipe can't be synced.
            Err(error) if Errno::from(&error) != Errno::INVAL => Err(error),
            _ => Ok(()),
        }
    }
}

/// The parts of a log: its head, the length of its complete lines in bytes, and its records with their line numbers.
pub(crate) struct Lines<'b, H> {
    pub(crate) head: H,
    pub(crate) whole_bytes: u64,
    pub(crate) records: Vec<(usize, &'b [u8])>,
}

/// Parses a log whose head has one of these formats.
/// Any bytes give either a log or an error with its line. An incomplete last line is left out.
///
/// # Errors
/// Returns the first invalid line, and why it is invalid.
pub(crate) fn lines<'b, H: DeserializeOwned>(bytes: &'b [u8], formats: &[u64]) -> Result<Lines<'b, H>, InvalidLine> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: u64,
    }
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = bytes[..whole].split(|byte| *byte == b'\n').enumerate().map(|(at, line)| (at + 1, line));
    let mut lines = lines.filter(|(_, line)| !line.is_empty());
    let Some((at, first)) = lines.next() else {
        let why = if bytes.is_empty() { "it is empty" } else { "it has no whole line" };
        return Err(InvalidLine::new(1, why));
    };
    let Format { format } = serde_json::from_slice(first).map_err(|error| InvalidLine::json(at, &error))?;
    if !formats.contains(&format) {
        let why = format_args!("format {format} is not known to this evenkeel; use the one that wrote it");
        return Err(InvalidLine::new(at, why));
    }
    let head = serde_json::from_slice(first).map_err(|error| InvalidLine::json(at, &error))?;
    Ok(Lines { head, whole_bytes: whole as u64, records: lines.collect() })
}
