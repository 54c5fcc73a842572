//! `State`: the directory that holds the journal, and the lock that lets one evenkeel at a time change a host.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use evenkeel_hostfs::Root;
use evenkeel_sys::{Errno, clock};
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::ancestors::refuse_if_replaceable;
use crate::claims::Claims;
use crate::compact::{Limits, compact};
use crate::journal::{JOURNAL, Journal, JournalFile, RUN_OUT, noted};
use crate::log::Log;
use crate::outside::{Outside, Real};
use crate::record::Event;
use crate::scan::{Scan, scan};
pub use crate::state_error::StateError;

const LOCK: &str = "lock";

/// How much is read of what a lock's holder tells, in bytes: a path may have 4,096.
const MAX_HOLDER_BYTES: u64 = 5000;

/// Half a second in all.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE_NS: u64 = 20_000_000;

/// The state directory, locked for as long as this lives. Reading alone needs no lock: [`Log::read`].
pub struct State {
    journal: Journal,
    pub(crate) dir: PathBuf,
    log: Log,
    pub(crate) outside: Box<dyn Outside>,
    pub(crate) claims: Claims,
    pub(crate) limits: Limits,
    /// None where the folder can only be read and has no lock.
    _lock: Option<Lock>,
}

impl State {
    /// Opens the state directory `dir`, which is made if only its last part is missing, and takes the lock.
    ///
    /// # Errors
    /// If the directory is not ours alone to write, another evenkeel holds the lock, or the journal can't be read, can't be written or is
    /// damaged.
    pub fn open(dir: &Path) -> Result<State, StateError> {
        State::open_on(dir, Box::new(Real))
    }

    /// The same to put things back, and nothing else: a damaged journal is opened too ([`Log::losses`]), and one that can only be read, to
    /// which nothing can be added.
    ///
    /// # Errors
    /// If the directory is not ours alone to write, another evenkeel holds the lock, or the journal can't be read.
    pub fn open_to_revert(dir: &Path) -> Result<State, StateError> {
        State::open_to_revert_on(dir, Box::new(Real))
    }

    pub(crate) fn open_on(dir: &Path, outside: Box<dyn Outside>) -> Result<State, StateError> {
        State::of(StateDir::open_or_make(dir)?, outside)
    }

    pub(crate) fn of(dir: StateDir, outside: Box<dyn Outside>) -> Result<State, StateError> {
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

    /// What the journal tells.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Whether another evenkeel held a place that was to be changed or put back since the journal was opened. Reports and errors say so in
    /// words alone.
    pub fn met_another(&self) -> bool {
        self.claims.met_another()
    }

    pub(crate) fn next_transaction(&self) -> Result<u64, StateError> {
        self.log.next_id().ok_or_else(|| self.journal.unwritable(RUN_OUT.to_owned()))
    }

    /// Keeps `path` of `root` from every other evenkeel for as long as this lives.
    pub(crate) fn claim(&mut self, root: &Root, path: &str) -> Result<(), StateError> {
        match self.outside.claims_dir(root) {
            Some(dir) => self.claims.take(&dir, path, &self.dir),
            None => Ok(()),
        }
    }

    /// Adds a record, which is on disk when this returns.
    pub(crate) fn append(&mut self, event: Event) -> Result<(), StateError> {
        let at_ns = self.outside.realtime_ns();
        let Limits { journal: most, long, kept, .. } = self.limits;
        if self.journal.bytes() > long && self.limits.are_worth_it(&self.log) {
            // If it can't be made shorter, the record may fit all the same.
            let _ = compact(&mut self.journal, self.outside.as_mut(), &mut self.log, kept, at_ns);
        }
        let length = self.journal.append(self.outside.as_mut(), at_ns, &event, most)?;
        self.log.clear_torn();
        self.log.absorb(at_ns, event, length).map_err(|what| self.journal.unwritable(what))
    }

    /// Adds a record of what was undone. Where that fails, this process knows of it all the same: what is back is not put back twice.
    pub(crate) fn append_undone(&mut self, event: Event) -> Result<(), StateError> {
        let appended = self.append(event.clone());
        if appended.is_err() {
            let at_ns = self.outside.realtime_ns();
            self.log.absorb(at_ns, event, 0).map_err(|what| self.journal.unwritable(what))?;
        }
        appended
    }
}

/// The log, unless its journal in `dir` lost something.
pub(crate) fn undamaged(log: Log, dir: &Path) -> Result<Log, StateError> {
    match log.losses() {
        [] => Ok(log),
        losses => Err(StateError::Damaged { path: dir.join(JOURNAL).display().to_string(), losses: losses.to_vec() }),
    }
}

/// Whether a file could not be opened to write it because of its file system, so that it may be there to be read.
fn is_read_only(errno: Errno) -> bool {
    matches!(errno, Errno::ROFS | Errno::PERM | Errno::NOSPC | Errno::IO)
}

impl Log {
    /// Reads the journal in `dir` without the lock, for those who only look. One that is not there is empty.
    ///
    /// # Errors
    /// If the directory is not ours alone to write, or the journal can't be read or is damaged.
    pub fn read(dir: &Path) -> Result<Log, StateError> {
        undamaged(Log::read_damaged(dir)?, dir)
    }

    /// The same of a journal that may be damaged: [`Log::losses`] tells what is missing.
    ///
    /// # Errors
    /// If the directory is not ours alone to write, or the journal can't be read.
    pub fn read_damaged(dir: &Path) -> Result<Log, StateError> {
        Log::of(StateDir::open(dir))
    }

    /// The same as [`Log::read`] for those who report what is in force: one that is not there has to have left no note of its records.
    ///
    /// # Errors
    /// As [`Log::read`], or if the journal is gone.
    pub fn read_noted(dir: &Path) -> Result<Log, StateError> {
        let (log, noted) = Log::look(StateDir::open(dir))?;
        undamaged(log.unwrap_or_else(|| Log::missing(noted)), dir)
    }

    pub(crate) fn of(dir: Result<StateDir, StateError>) -> Result<Log, StateError> {
        Ok(Log::look(dir)?.0.unwrap_or_default())
    }

    /// What the journal tells, where it is there, and what the note beside it says.
    fn look(dir: Result<StateDir, StateError>) -> Result<(Option<Log>, Option<u64>), StateError> {
        let is_missing = |error: &StateError| matches!(error, StateError::Io { errno: Errno::NOENT, .. });
        let dir = match dir {
            Err(error) if is_missing(&error) => return Ok((None, None)),
            dir => dir?,
        };
        // Before the journal, to which another process may add meanwhile.
        let noted = noted(&dir);
        match dir.file(JOURNAL, OFlags::RDONLY) {
            Ok(file) => Ok((Some(scan(&dir.path.join(JOURNAL), BufReader::new(file), noted)?.log), noted)),
            Err(error) if is_missing(&error) => Ok((None, noted)),
            Err(error) => Err(error),
        }
    }
}

/// An open directory that only we or root may write to.
pub(crate) struct StateDir {
    pub(crate) dir: File,
    pub(crate) path: PathBuf,
}

impl StateDir {
    pub(crate) fn open_or_make(path: &Path) -> Result<StateDir, StateError> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) => sync_parent(path)?,
            Err(rustix::io::Errno::EXIST) => return StateDir::open(path),
            Err(errno) => return Err(StateError::io("make the state directory", path, errno)),
        }
        StateDir::open(path).inspect_err(|_| {
            // What is refused must not be left behind.
            let _ = rustix::fs::rmdir(path);
        })
    }

    pub(crate) fn open(path: &Path) -> Result<StateDir, StateError> {
        // A slash at the end would make the kernel follow a link all the same; `components` drops it.
        let path: PathBuf = path.components().collect();
        let not_ours = |why: String| StateError::Unsafe { path: path.display().to_string(), why };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(dir) => File::from(dir),
            Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
                return Err(not_ours("it is a symbolic link, or no directory".to_owned()));
            }
            Err(errno) => return Err(StateError::io("open the state directory", &path, errno)),
        };
        refuse_if_shared(&dir, &path)?;
        refuse_if_replaceable(&dir, &path)?;
        Ok(StateDir { dir, path })
    }

    /// Opens a regular file in it, never through a link.
    pub(crate) fn file(&self, name: &str, flags: OFlags) -> Result<File, StateError> {
        let path = self.path.join(name);
        // NONBLOCK: a FIFO under this name must not hang us before the check below refuses it.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| StateError::io("open", &path, errno))?;
        let file = File::from(file);
        refuse_if_shared(&file, &path)?;
        Ok(file)
    }

    /// Takes the lock `name` where it can only be read; none where nobody has made it.
    fn lock_read_only(&self, name: &str) -> Result<Option<Lock>, StateError> {
        match self.file(name, OFlags::RDONLY) {
            Err(StateError::Io { errno: Errno::NOENT, .. }) => Ok(None),
            lock => self.locked(name, lock?, true).map(Some),
        }
    }

    /// Takes the lock `name` for whoever writes the journal in `journal`; who is patient waits for half a second.
    pub(crate) fn lock(&self, name: &str, journal: &Path, is_patient: bool) -> Result<Lock, StateError> {
        let mut lock = self.locked(name, self.file(name, OFlags::RDWR | OFlags::CREATE)?, is_patient)?;
        // Who holds it is a courtesy to the next: on a full disk the lock itself holds all the same.
        let _ = lock.0.set_len(0).and_then(|()| writeln!(lock.0, "{}", holder(journal)));
        Ok(lock)
    }

    fn locked(&self, name: &str, lock: File, is_patient: bool) -> Result<Lock, StateError> {
        let path = self.path.join(name);
        match lock_within(&lock, if is_patient { LOCK_TRIES } else { 0 }) {
            Ok(()) => Ok(Lock(lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let read = (&lock).take(MAX_HOLDER_BYTES).read_to_string(&mut holder);
                let known = read.is_ok() && !holder.trim().is_empty();
                let holder = if known { holder.trim().to_owned() } else { "its process is not known".to_owned() };
                Err(StateError::Busy { path: path.display().to_string(), holder })
            }
            Err(errno) => Err(StateError::io("lock", &path, errno)),
        }
    }
}

/// Who holds a lock, in words. A path may have bytes that no reader of text takes.
fn holder(journal: &Path) -> String {
    let shown: String = journal.display().to_string().chars().filter(|shown| !shown.is_control()).collect();
    format!("process {}, journal in {shown}", std::process::id())
}

/// Whoever kills an evenkeel that is starting a command leaves the child holding the lock until it calls exec, or ends: that is no
/// other evenkeel, and is over in a moment.
fn lock_within(lock: &File, tries: u32) -> Result<(), rustix::io::Errno> {
    for _ in 0..tries {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => clock::sleep_until_ns(clock::monotonic_ns() + LOCK_PAUSE_NS),
            done => return done,
        }
    }
    rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive)
}

/// Unlocks by itself rather than by closing: a child that was forked and has not called exec yet holds the file open too.
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// What another user may write to could make us write anything to the host, or lose what undoes our changes.
pub(crate) fn refuse_if_shared(file: &File, path: &Path) -> Result<(), StateError> {
    let stat = rustix::fs::fstat(file).map_err(|errno| StateError::io("look at", path, errno))?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    let owner = rustix::process::geteuid().as_raw();
    let why = if stat.st_uid != 0 && stat.st_uid != owner {
        format!("it belongs to user {}: only root or user {owner} may own it", stat.st_uid)
    } else if mode.intersects(Mode::WGRP | Mode::WOTH) {
        format!("others may write to it (mode {:o}): take that away with `chmod go-w`", mode.as_raw_mode())
    } else if !is_file_or_dir(stat.st_mode) {
        "it is neither a regular file nor a directory".to_owned()
    } else {
        return Ok(());
    };
    Err(StateError::Unsafe { path: path.display().to_string(), why })
}

fn is_file_or_dir(raw_mode: u32) -> bool {
    let kind = rustix::fs::FileType::from_raw_mode(raw_mode);
    kind.is_file() || kind.is_dir()
}

/// A new directory's name is on disk only once its parent is.
fn sync_parent(path: &Path) -> Result<(), StateError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let sync = || -> rustix::io::Result<()> {
        let dir = rustix::fs::open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::fsync(dir)
    };
    sync().map_err(|errno| StateError::io("sync", parent, errno))
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

    /// The first record, with which the journal is made.
    fn begin(state: &mut State) {
        let (txn, kind, title) = (1, crate::Kind::Apply, String::new());
        let (boot_id, steps, settings, lasting, until) = (None, Vec::new(), Vec::new(), None, None);
        state.append(Event::Begin { txn, kind, title, boot_id, steps, settings, lasting, until, owner: None }).unwrap();
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
    fn what_others_could_write_to_is_refused() {
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
    fn a_second_evenkeel_is_told_who_is_first() {
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
