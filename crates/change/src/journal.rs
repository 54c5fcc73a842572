//! The journal's file. Records are appended and synced, never changed.
//! A torn record after a crash is moved to another file, not deleted.
//!
//! The file is created together with its first record. So a file without a complete record was truncated.
//! A note next to the journal has the number of the last record, and is written after the record is synced.
//! If the journal ends with a smaller number, the journal was truncated too.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use evenkeel_sys::Errno;
use rustix::fs::{AtFlags, OFlags};

use crate::outside::Outside;
use crate::record::{Event, encode};
use crate::scan::Scan;
use crate::sizes::MAX_RECORD_BYTES;
use crate::state_dir::StateDir;
use crate::state_error::StateError;

/// The maximum number of torn ends that evenkeel keeps. Each torn end needs a crash in the middle of a write.
const MAX_TORN_FILES: u32 = 1000;

/// The name of a journal in its folder.
pub const JOURNAL: &str = "journal";

/// A new journal, before it replaces the old one.
const DRAFT: &str = "journal.draft";

/// The number of the last record.
pub(crate) const NOTE: &str = "journal.last-record";

/// The length of the note in bytes.
/// The length is the same for any number, so evenkeel overwrites the note and never truncates it.
const NOTE_BYTES: usize = 21;

const CHUNK_BYTES: u64 = 1 << 16;

pub(crate) const RUN_OUT: &str = "it has no record numbers left; move the file away once everything is reverted";

pub(crate) struct Journal {
    pub(crate) dir: StateDir,
    pub(crate) path: PathBuf,
    file: JournalFile,
    /// Where the last whole record ends, in bytes.
    end: u64,
    /// How many bytes of an incomplete record a crash left after `end`.
    torn: u64,
    /// Whether a failed write may have left bytes after `end` that evenkeel could not cut off.
    dirty: bool,
    /// The number of the last record.
    last: u64,
    note: Option<File>,
}

/// The file of a journal.
pub(crate) enum JournalFile {
    /// The file does not exist yet; the first record creates it.
    None,
    Open(File),
    /// The file can only be read, because opening it for writing failed with this error.
    ReadOnly(File, Errno),
}

impl JournalFile {
    pub(crate) fn file(&self) -> Option<&File> {
        match self {
            JournalFile::None => None,
            JournalFile::Open(file) | JournalFile::ReadOnly(file, _) => Some(file),
        }
    }
}

/// The number of the last record, from the note next to the journal.
/// Read the note before the journal, because the journal may grow meanwhile.
pub(crate) fn noted(dir: &StateDir) -> Option<u64> {
    let mut text = String::new();
    let file = dir.file(NOTE, OFlags::RDONLY).ok()?;
    file.take(NOTE_BYTES as u64).read_to_string(&mut text).ok()?;
    text.strip_suffix('\n')?.trim_start().parse().ok()
}

impl Journal {
    pub(crate) fn new(dir: StateDir, file: JournalFile, path: PathBuf, scan: &Scan) -> Journal {
        // Replace an empty file: older programs created an empty file before they had a record.
        let file = match file {
            JournalFile::Open(_) if scan.end == 0 && scan.torn == 0 && scan.last == 0 => JournalFile::None,
            file => file,
        };
        Journal { dir, path, file, end: scan.end, torn: scan.torn, dirty: false, last: scan.last, note: None }
    }

    pub(crate) fn unwritable(&self, why: String) -> StateError {
        StateError::Unwritable { path: self.path.display().to_string(), why }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.file, JournalFile::None)
    }

    /// Appends a record and returns its length. The journal may not exceed `most_bytes`.
    /// The record is on disk when `append` returns.
    pub(crate) fn append(
        &mut self,
        out: &mut dyn Outside,
        at_ns: u64,
        event: &Event,
        most_bytes: u64,
    ) -> Result<u64, StateError> {
        let seq = self.last.checked_add(1).ok_or_else(|| self.unwritable(RUN_OUT.to_owned()))?;
        let line = encode(seq, at_ns, event).map_err(|error| self.unwritable(error.to_string()))?;
        let length = line.len() as u64;
        if line.len() > MAX_RECORD_BYTES {
            return Err(StateError::TooLong { len_bytes: line.len() });
        }
        // Never refuse the record of a restore because the journal is full.
        if self.end + length > most_bytes && !event.is_of_undoing() {
            return Err(StateError::Full { path: self.path.display().to_string() });
        }
        self.clear_the_end(out)?;
        match &self.file {
            JournalFile::ReadOnly(_, errno) => return Err(StateError::add(&self.path, *errno)),
            JournalFile::Open(file) => {
                if let Err(errno) = out.append(file, &line).and_then(|()| out.sync(file)) {
                    // Cut off the written bytes. Half a record would be a torn end.
                    // A whole record would later count as valid, although evenkeel reports it as failed.
                    self.dirty = out.truncate(file, self.end).is_err();
                    return Err(StateError::add(&self.path, errno));
                }
                self.end += length;
            }
            JournalFile::None => {
                let mut draft = self.draft()?;
                draft.add(out, &line)?;
                self.replace(out, draft)?;
            }
        }
        self.set_last(seq);
        Ok(length)
    }

    /// Starts a file that will replace the journal.
    pub(crate) fn draft(&self) -> Result<Draft, StateError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND;
        Ok(Draft { file: self.dir.file(DRAFT, flags)?, path: self.dir.path.join(DRAFT), bytes: 0 })
    }

    /// Replaces the journal with a finished draft.
    pub(crate) fn replace(&mut self, out: &mut dyn Outside, draft: Draft) -> Result<(), StateError> {
        if self.file.file().is_none() {
            // If somebody moved the old journal away, the old note does not apply to the new journal.
            self.note = None;
            let _ = rustix::fs::unlinkat(&self.dir.dir, NOTE, AtFlags::empty());
        }
        let Draft { file, path, bytes } = draft;
        out.sync(&file)
            .and_then(|()| out.rename(&self.dir.dir, DRAFT, JOURNAL))
            .and_then(|()| Ok(rustix::fs::fsync(&self.dir.dir)?))
            .map_err(|errno| StateError::io("make the journal of", &path, errno))?;
        (self.file, self.end, self.torn, self.dirty) = (JournalFile::Open(file), bytes, 0, false);
        Ok(())
    }

    /// A reader of the records from the start. `None` if the journal has no file yet.
    pub(crate) fn reader(&self) -> Result<Option<impl BufRead + use<>>, StateError> {
        let again = |file: &File| -> std::io::Result<_> {
            let mut file = file.try_clone()?;
            file.seek(SeekFrom::Start(0))?;
            Ok(BufReader::new(file.take(self.end)))
        };
        self.file.file().map(again).transpose().map_err(|error| self.io("read", Errno::from(&error)))
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn set_last(&mut self, last: u64) {
        self.last = last;
        self.take_note();
    }

    /// If this write fails, the next evenkeel is less likely to notice a lost end of the journal.
    /// Nothing else is affected.
    fn take_note(&mut self) {
        if self.note.is_none() {
            self.note = self.dir.file(NOTE, OFlags::WRONLY | OFlags::CREATE).ok();
        }
        if let Some(note) = &self.note {
            let text = format!("{:>width$}\n", self.last, width = NOTE_BYTES - 1);
            let _ = rustix::io::pwrite(note, text.as_bytes(), 0);
        }
    }

    /// Moves the bytes that a crash left after the last record to another file, and truncates the journal.
    pub(crate) fn clear_the_end(&mut self, out: &mut dyn Outside) -> Result<(), StateError> {
        let JournalFile::Open(file) = &self.file else { return Ok(()) };
        if self.torn > 0 {
            let (copy, path) = self.new_torn_file()?;
            self.copy_torn(out, file, &copy)
                .and_then(|()| out.sync(&copy))
                .and_then(|()| Ok(rustix::fs::fsync(&self.dir.dir)?))
                .map_err(|errno| StateError::io("save the torn end of the journal in", &path, errno))?;
        }
        if self.torn > 0 || self.dirty {
            out.truncate(file, self.end)
                .and_then(|()| out.sync(file))
                .map_err(|errno| self.io("cut off the torn end", errno))?;
            self.torn = 0;
            self.dirty = false;
        }
        Ok(())
    }

    fn copy_torn(&self, out: &mut dyn Outside, file: &File, copy: &File) -> Result<(), Errno> {
        let (mut at, end) = (self.end, self.end + self.torn);
        while at < end {
            let mut chunk = vec![0; usize::try_from((end - at).min(CHUNK_BYTES)).unwrap_or(1)];
            let read = rustix::io::pread(file, &mut chunk, at)?;
            if read == 0 {
                return Ok(());
            }
            out.append(copy, &chunk[..read])?;
            at += read as u64;
        }
        Ok(())
    }

    fn new_torn_file(&self) -> Result<(File, PathBuf), StateError> {
        for number in 1..=MAX_TORN_FILES {
            let name = format!("journal.torn-{number}");
            match self.dir.file(&name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL) {
                Err(StateError::Io { errno: Errno::EXIST, .. }) => {}
                opened => return Ok((opened?, self.dir.path.join(name))),
            }
        }
        let why = format!("it has {MAX_TORN_FILES} files journal.torn-N: check them and move them away");
        Err(StateError::Unsafe { path: self.dir.path.display().to_string(), why })
    }

    fn io(&self, doing: &'static str, errno: Errno) -> StateError {
        StateError::io(doing, &self.path, errno)
    }
}

/// A file that will replace the journal.
pub(crate) struct Draft {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Draft {
    pub(crate) fn add(&mut self, out: &mut dyn Outside, line: &[u8]) -> Result<(), StateError> {
        out.append(&self.file, line).map_err(|errno| StateError::add(&self.path, errno))?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}
