//! `State`: the directory of the journal, and the lock that lets one evenkeel at a time change a host.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use evenkeel_hostfs::Root;
use evenkeel_sys::Errno;
use rustix::fs::OFlags;

use crate::claims::Claims;
use crate::compact::{Limits, compact};
use crate::journal::{JOURNAL, Journal, JournalFile, RUN_OUT, noted};
use crate::log::Log;
use crate::outside::{Outside, Real};
use crate::record::Event;
use crate::scan::{Scan, scan};
use crate::state_dir::{Lock, StateDir};
use crate::state_error::StateError;

pub(crate) const LOCK: &str = "lock";

/// The state directory. It is locked while this value lives. Reading needs no lock: see [`Log::read`].
pub struct State {
    journal: Journal,
    pub(crate) dir: PathBuf,
    log: Log,
    pub(crate) outside: Box<dyn Outside>,
    pub(crate) claims: Claims,
    pub(crate) limits: Limits,
    /// `None` if the folder is read-only and has no lock.
    _lock: Option<Lock>,
}

impl State {
    /// Opens the state directory `dir` and takes the lock. Creates the last part of the path if it is missing.
    ///
    /// # Errors
    /// If others may write to the directory, another evenkeel holds the lock,
    /// or the journal can't be read, can't be written or is damaged.
    pub fn open(dir: &Path) -> Result<State, StateError> {
        State::open_on(dir, Box::new(Real))
    }

    /// Like [`open`](State::open), but only for a restore.
    /// Also opens a damaged journal ([`Log::losses`]), and a read-only journal, to which nothing can be appended.
    ///
    /// # Errors
    /// If others may write to the directory, another evenkeel holds the lock, or the journal can't be read.
    pub fn open_to_revert(dir: &Path) -> Result<State, StateError> {
        State::open_to_revert_on(dir, Box::new(Real))
    }

    pub(crate) fn open_on(dir: &Path, outside: Box<dyn Outside>) -> Result<State, StateError> {
        State::open_dir(StateDir::open_or_make(dir)?, outside)
    }

    pub(crate) fn open_dir(dir: StateDir, outside: Box<dyn Outside>) -> Result<State, StateError> {
        let lock = dir.lock(LOCK, &dir.path, true)?;
        let file = dir.file(JOURNAL, OFlags::RDWR | OFlags::APPEND).map(JournalFile::Open);
        let mut state = State::with(dir, Some(lock), file, outside)?;
        state.log = undamaged(state.log, &state.dir)?;
        Ok(state)
    }

    pub(crate) fn open_to_revert_on(dir: &Path, outside: Box<dyn Outside>) -> Result<State, StateError> {
        State::to_revert(StateDir::open_or_make(dir)?, outside)
    }

    pub(crate) fn to_revert(dir: StateDir, outside: Box<dyn Outside>) -> Result<State, StateError> {
        let lock = match dir.lock(LOCK, &dir.path, true) {
            Err(StateError::Io { errno, .. }) if is_read_only(errno) => dir.lock_read_only(LOCK)?,
            locked => Some(locked?),
        };
        let file = match dir.file(JOURNAL, OFlags::RDWR | OFlags::APPEND) {
            Err(StateError::Io { errno, .. }) if is_read_only(errno) => {
                dir.file(JOURNAL, OFlags::RDONLY).map(|file| JournalFile::ReadOnly(file, errno))
            }
            file => file.map(JournalFile::Open),
        };
        let noted = noted(&dir);
        let mut state = State::with(dir, lock, file, outside)?;
        if state.journal.is_missing() {
            state.log = Log::missing(noted);
        }
        Ok(state)
    }

    pub(crate) fn with(
        dir: StateDir,
        lock: Option<Lock>,
        file: Result<JournalFile, StateError>,
        outside: Box<dyn Outside>,
    ) -> Result<State, StateError> {
        let path = dir.path.join(JOURNAL);
        let (file, scan) = match file {
            Ok(file) => {
                let scan = file.file().map(|open| scan(&path, BufReader::new(open), noted(&dir))).transpose()?;
                (file, scan.unwrap_or_default())
            }
            Err(StateError::Io { errno: Errno::NOENT, .. }) => (JournalFile::None, Scan::default()),
            Err(error) => return Err(error),
        };
        let dir_path = dir.path.clone();
        let journal = Journal::new(dir, file, path, &scan);
        let (claims, limits) = (Claims::default(), Limits::default());
        Ok(State { journal, dir: dir_path, log: scan.log, outside, claims, limits, _lock: lock })
    }

    /// The content of the journal.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Whether another evenkeel held the lock of a file
    /// that we wanted to change or restore, since we opened this journal.
    /// Reports and errors mention this fact only in their texts.
    pub fn met_another(&self) -> bool {
        self.claims.met_another()
    }

    pub(crate) fn next_transaction(&self) -> Result<u64, StateError> {
        self.log.next_id().ok_or_else(|| self.journal.unwritable(RUN_OUT.to_owned()))
    }

    /// Locks `path` of `root` against every other evenkeel while this `State` lives.
    pub(crate) fn claim(&mut self, root: &Root, path: &str) -> Result<(), StateError> {
        match self.outside.claims_dir(root) {
            Some(dir) => self.claims.take(&dir, path, &self.dir),
            None => Ok(()),
        }
    }

    /// Appends a record. The record is on disk when the call returns.
    pub(crate) fn append(&mut self, event: Event) -> Result<(), StateError> {
        let at_ns = self.outside.realtime_ns();
        let Limits { journal: most, long, kept, .. } = self.limits;
        if self.journal.bytes() > long && self.limits.are_worth_it(&self.log) {
            // If evenkeel cannot shorten the journal, the record may still fit.
            let _ = compact(&mut self.journal, self.outside.as_mut(), &mut self.log, kept, at_ns);
        }
        let length = self.journal.append(self.outside.as_mut(), at_ns, &event, most)?;
        self.log.clear_torn();
        self.log.absorb(at_ns, event, length).map_err(|what| self.journal.unwritable(what))
    }

    /// Records a restore. If the append fails, this process still remembers the restore, so it restores nothing twice.
    pub(crate) fn append_undone(&mut self, event: Event) -> Result<(), StateError> {
        let appended = self.append(event.clone());
        if appended.is_err() {
            let at_ns = self.outside.realtime_ns();
            self.log.absorb(at_ns, event, 0).map_err(|what| self.journal.unwritable(what))?;
        }
        appended
    }
}

/// Returns the log, or an error if its journal in `dir` lost records.
pub(crate) fn undamaged(log: Log, dir: &Path) -> Result<Log, StateError> {
    match log.losses() {
        [] => Ok(log),
        losses => Err(StateError::Damaged { path: dir.join(JOURNAL).display().to_string(), losses: losses.to_vec() }),
    }
}

/// Whether opening a file for writing failed because of its file system. Then the file may still be readable.
fn is_read_only(errno: Errno) -> bool {
    matches!(errno, Errno::ROFS | Errno::PERM | Errno::NOSPC | Errno::IO)
}

impl Log {
    /// Reads the journal in `dir` without the lock, for reading only. A missing journal is empty.
    ///
    /// # Errors
    /// If others may write to the directory, or the journal can't be read or is damaged.
    pub fn read(dir: &Path) -> Result<Log, StateError> {
        undamaged(Log::read_damaged(dir)?, dir)
    }

    /// Like [`read`](Log::read), for a journal that may be damaged. [`Log::losses`] lists the missing parts.
    ///
    /// # Errors
    /// If others may write to the directory, or the journal can't be read.
    pub fn read_damaged(dir: &Path) -> Result<Log, StateError> {
        Log::read_or_empty(StateDir::open(dir))
    }

    /// Like [`Log::read`], for reports of the values in force.
    /// Returns an error if the journal is missing although its note counts records.
    ///
    /// # Errors
    /// The errors of [`Log::read`], or if the journal is missing.
    pub fn read_noted(dir: &Path) -> Result<Log, StateError> {
        let (log, noted) = Log::look(StateDir::open(dir))?;
        undamaged(log.unwrap_or_else(|| Log::missing(noted)), dir)
    }

    pub(crate) fn read_or_empty(dir: Result<StateDir, StateError>) -> Result<Log, StateError> {
        Ok(Log::look(dir)?.0.unwrap_or_default())
    }

    /// The content of the journal, if it exists, and of the note next to it.
    fn look(dir: Result<StateDir, StateError>) -> Result<(Option<Log>, Option<u64>), StateError> {
        let is_missing = |error: &StateError| matches!(error, StateError::Io { errno: Errno::NOENT, .. });
        let dir = match dir {
            Err(error) if is_missing(&error) => return Ok((None, None)),
            dir => dir?,
        };
        // Read the note before the journal, because another process may add records meanwhile.
        // That process may also take the lock only now, so ask for the lock's holder again afterwards.
        let noted = noted(&dir);
        let holder = dir.lock_holder(LOCK);
        match dir.file(JOURNAL, OFlags::RDONLY) {
            Ok(file) => {
                let mut log = scan(&dir.path.join(JOURNAL), BufReader::new(file), noted)?.log;
                log.holder = holder.or_else(|| dir.lock_holder(LOCK));
                Ok((Some(log), noted))
            }
            Err(error) if is_missing(&error) => Ok((None, noted)),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn why(dir: &Path) -> String {
        match State::open(dir) {
            Ok(_) => "opened".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Adds the first record, which creates the journal's file.
    fn begin(state: &mut State) {
        let (txn, kind, title) = (1, crate::Kind::Apply, String::new());
        let (boot_id, steps, settings, lasting, until) = (None, Vec::new(), Vec::new(), None, None);
        state
            .append(Event::Begin {
                txn,
                kind,
                title,
                boot_id,
                steps,
                settings,
                lasting,
                until,
                owner: None,
                captured: None,
            })
            .unwrap();
    }

    #[test]
    fn the_directory_is_made_for_us_alone() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state");
        let mut state = State::open(&dir).unwrap();
        begin(&mut state);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&dir), mode(&dir.join("journal")), mode(&dir.join("lock"))), (0o700, 0o600, 0o600));
        assert_eq!(state.log().transactions().count(), 1);
        assert!(why(&parent.path().join("a/b")).contains("no such file or directory"));
    }

    #[test]
    fn folders_that_others_can_write_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state");
        begin(&mut State::open(&dir).unwrap());
        symlink(&dir, parent.path().join("link")).unwrap();
        for link in ["link", "link/", "link/."] {
            assert!(why(&parent.path().join(link)).contains("symbolic link"), "{link}");
        }
        for mode in [0o720, 0o702, 0o777] {
            std::fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
            assert!(why(&dir).contains(&format!("mode {mode:o}")), "{}", why(&dir));
            assert!(Log::read(&dir).is_err());
        }
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(why(&dir), "opened");

        std::fs::set_permissions(dir.join("journal"), PermissionsExt::from_mode(0o666)).unwrap();
        assert!(why(&dir).contains("mode 666"));
        std::fs::remove_file(dir.join("journal")).unwrap();
        symlink("/etc/passwd", dir.join("journal")).unwrap();
        assert!(why(&dir).contains("ELOOP"), "{}", why(&dir));
        std::fs::remove_file(dir.join("journal")).unwrap();
        std::fs::create_dir(dir.join("journal")).unwrap();
        assert!(why(&dir).contains("EISDIR"));
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state");
        drop(State::open(&dir).unwrap());
        if std::os::unix::fs::chown(&dir, Some(12345), None).is_err() {
            evenkeel_testkit::skipped("only root can give a directory away");
            return;
        }
        assert!(why(&dir).contains("belongs to user 12345"), "{}", why(&dir));
    }

    #[test]
    fn a_second_evenkeel_learns_who_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = State::open(dir.path()).unwrap();
        let error = why(dir.path());
        assert!(error.contains(&format!("another evenkeel (process {}, journal in ", std::process::id())), "{error}");
        assert!(Log::read(dir.path()).is_ok(), "to look needs no lock");
        drop(first);
        assert_eq!(why(dir.path()), "opened");
    }

    #[test]
    fn to_look_at_nothing_makes_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let log = Log::read(&parent.path().join("state")).unwrap();
        assert_eq!(log.transactions().count(), 0);
        assert!(!parent.path().join("state").exists());
    }
}
