//! The journal's file: records are added to its end and synced, never changed. What a crash tore is set aside, not lost.

use std::fs::File;
use std::path::{Path, PathBuf};

use evenkeel_sys::Errno;
use rustix::fs::OFlags;

use crate::log::Log;
use crate::outside::Outside;
use crate::record::{Bad, Event, Line, MAX_RECORD_BYTES, decode, encode};
use crate::state::{StateDir, StateError};

/// The longest journal, in bytes: some 100,000 changes.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// How many torn ends are kept. Each takes a crash in the middle of a write.
const MAX_TORN_FILES: u32 = 1000;

pub(crate) struct Journal {
    dir: StateDir,
    file: File,
    path: PathBuf,
    /// Where the last whole record ends, in bytes.
    end: u64,
    /// The bytes after it, which a crash left there.
    torn: Vec<u8>,
    /// A failed write may have left bytes after the end that could not be cut off.
    dirty: bool,
}

/// What a journal's bytes tell.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) log: Log,
    pub(crate) end: u64,
    pub(crate) torn: Vec<u8>,
}

/// Reads a journal. A last line without its newline or with a wrong checksum is torn: each record is synced before the
/// next is written, so a crash can tear the last one and no other.
pub(crate) fn scan(path: &Path, bytes: &[u8]) -> Result<Scan, StateError> {
    let mut log = Log::default();
    let mut end = 0;
    while let Some(length) = bytes[end..].iter().position(|byte| *byte == b'\n') {
        let next = end + length + 1;
        let line = &bytes[end..next - 1];
        let damaged = |what: String| damaged_at(path, end as u64, what);
        // Before it is parsed: JSON takes many times its length in memory.
        if length >= MAX_RECORD_BYTES {
            return Err(damaged(format!("the line is longer than {MAX_RECORD_BYTES} bytes")));
        }
        match decode(line) {
            Err(Bad::Checksum) if next == bytes.len() => break,
            Ok(Line::Known(record)) => log.absorb(record.at_ns, record.event).map_err(damaged)?,
            Ok(Line::Unknown { kind }) => log.pass_over(kind),
            Err(Bad::Checksum) => return Err(damaged("the checksum does not match".to_owned())),
            Err(Bad::Content(what)) => return Err(damaged(what)),
            Err(Bad::Format(format)) => {
                return Err(StateError::UnknownFormat { path: path.display().to_string(), offset: end as u64, format });
            }
        }
        end = next;
    }
    let torn = bytes[end..].to_vec();
    log.set_torn(torn.len() as u64);
    Ok(Scan { log, end: end as u64, torn })
}

fn damaged_at(path: &Path, offset: u64, what: String) -> StateError {
    StateError::Damaged { path: path.display().to_string(), offset, what }
}

impl Journal {
    pub(crate) fn new(dir: StateDir, file: File, path: PathBuf, scan: &Scan) -> Journal {
        Journal { dir, file, path, end: scan.end, torn: scan.torn.clone(), dirty: false }
    }

    pub(crate) fn damaged(&self, offset: u64, what: String) -> StateError {
        damaged_at(&self.path, offset, what)
    }

    /// Adds a record; gives where it starts. It is on disk when this returns.
    pub(crate) fn append(&mut self, out: &mut dyn Outside, at_ns: u64, event: &Event) -> Result<u64, StateError> {
        let line = encode(at_ns, event)
            .map_err(|error| self.damaged(self.end, format!("the record can't be written as JSON: {error}")))?;
        if line.len() > MAX_RECORD_BYTES {
            return Err(StateError::TooLong { len_bytes: line.len() });
        }
        if self.end + line.len() as u64 > MAX_JOURNAL_BYTES {
            return Err(StateError::Full { path: self.path.display().to_string() });
        }
        self.clear_the_end(out)?;
        let added = out
            .append(&self.file, &line)
            .and_then(|()| out.sync(&self.file))
            // The first record makes the journal, whose name must be on disk with it.
            .and_then(|()| if self.end == 0 { Ok(rustix::fs::fsync(&self.dir.dir)?) } else { Ok(()) });
        if let Err(errno) = added {
            // Half a record would be a torn end, and a whole one that was called a failure would be believed later.
            self.dirty = out.truncate(&self.file, self.end).is_err();
            return Err(self.io("add to", errno));
        }
        let start = self.end;
        self.end += line.len() as u64;
        Ok(start)
    }

    /// Moves what a crash left after the last record to a file of its own, and cuts it off here.
    fn clear_the_end(&mut self, out: &mut dyn Outside) -> Result<(), StateError> {
        if !self.torn.is_empty() {
            let (copy, path) = self.new_torn_file()?;
            out.append(&copy, &self.torn)
                .and_then(|()| out.sync(&copy))
                .and_then(|()| Ok(rustix::fs::fsync(&self.dir.dir)?))
                .map_err(|errno| StateError::io("set the torn end of the journal aside in", &path, errno))?;
        }
        if !self.torn.is_empty() || self.dirty {
            out.truncate(&self.file, self.end)
                .and_then(|()| out.sync(&self.file))
                .map_err(|errno| self.io("cut the torn end off", errno))?;
            self.torn.clear();
            self.dirty = false;
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
        let why = format!("it has {MAX_TORN_FILES} files journal.torn-N: look at them and move them away");
        Err(StateError::Unsafe { path: self.dir.path.display().to_string(), why })
    }

    fn io(&self, doing: &'static str, errno: Errno) -> StateError {
        StateError::io(doing, &self.path, errno)
    }
}
