//! `StateDir`: a directory that no other user can write to, with its files and their locks.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use evenkeel_sys::{Errno, clock};
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::ancestors::refuse_if_replaceable;
use crate::state_error::StateError;

/// The maximum size of a lock holder's description, in bytes. A path alone may have 4,096 bytes.
const MAX_HOLDER_BYTES: u64 = 5000;

/// The maximum number of tries to lock: half a second in total.
const LOCK_TRIES: u32 = 25;

const LOCK_PAUSE_NS: u64 = 20_000_000;

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
            // If the directory is refused, do not leave it behind.
            let _ = rustix::fs::rmdir(path);
        })
    }

    pub(crate) fn open(path: &Path) -> Result<StateDir, StateError> {
        // A slash at the end would make the kernel follow a link, so `components` drops it.
        let path: PathBuf = path.components().collect();
        let not_ours = |why: String| StateError::Unsafe { path: path.display().to_string(), why };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(dir) => File::from(dir),
            Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
                return Err(not_ours("it is a symbolic link or not a directory".to_owned()));
            }
            Err(errno) => return Err(StateError::io("open the state directory", &path, errno)),
        };
        refuse_if_shared(&dir, &path)?;
        refuse_if_replaceable(&dir, &path)?;
        Ok(StateDir { dir, path })
    }

    /// Opens a regular file in the directory, never through a link.
    pub(crate) fn file(&self, name: &str, flags: OFlags) -> Result<File, StateError> {
        let path = self.path.join(name);
        // Use NONBLOCK: a FIFO with this name must not block us before the later check refuses it.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| StateError::io("open", &path, errno))?;
        let file = File::from(file);
        refuse_if_shared(&file, &path)?;
        Ok(file)
    }

    /// Takes the lock `name` in a read-only directory; `None` if the lock file does not exist.
    pub(crate) fn lock_read_only(&self, name: &str) -> Result<Option<Lock>, StateError> {
        match self.file(name, OFlags::RDONLY) {
            Err(StateError::Io { errno: Errno::NOENT, .. }) => Ok(None),
            lock => self.locked(name, lock?, true).map(Some),
        }
    }

    /// Takes the lock `name` for the journal in `journal`. With `is_patient`, tries for up to half a second.
    pub(crate) fn lock(&self, name: &str, journal: &Path, is_patient: bool) -> Result<Lock, StateError> {
        let mut lock = self.locked(name, self.file(name, OFlags::RDWR | OFlags::CREATE)?, is_patient)?;
        // The holder's name only informs the next process. On a full disk the lock still works without the name.
        let _ = lock.0.set_len(0).and_then(|()| writeln!(lock.0, "{}", holder(journal)));
        Ok(lock)
    }

    /// The holder of the lock `name`; `None` if nobody holds it.
    /// This call takes the lock for a moment, and a patient process waits for that.
    pub(crate) fn lock_holder(&self, name: &str) -> Option<String> {
        let lock = self.file(name, OFlags::RDONLY).ok()?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => Some(named_in(&lock)),
            _ => None,
        }
    }

    fn locked(&self, name: &str, lock: File, is_patient: bool) -> Result<Lock, StateError> {
        let path = self.path.join(name);
        match lock_within(&lock, if is_patient { LOCK_TRIES } else { 0 }) {
            Ok(()) => Ok(Lock(lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(StateError::Busy { path: path.display().to_string(), holder: named_in(&lock) })
            }
            Err(errno) => Err(StateError::io("lock", &path, errno)),
        }
    }
}

/// The holder that the lock file names.
fn named_in(lock: &File) -> String {
    let mut holder = String::new();
    let read = lock.take(MAX_HOLDER_BYTES).read_to_string(&mut holder);
    let is_known = read.is_ok() && !holder.trim().is_empty();
    if is_known { holder.trim().to_owned() } else { "its process is unknown".to_owned() }
}

/// The holder of a lock, as text. A path may contain bytes that are not text.
fn holder(journal: &Path) -> String {
    let shown: String = journal.display().to_string().chars().filter(|shown| !shown.is_control()).collect();
    format!("process {}, journal in {shown}", std::process::id())
}

/// Tries to lock a file several times.
/// If evenkeel is killed while it starts a command, the child holds the lock until it calls exec or ends.
/// That takes only a moment, so evenkeel tries again.
fn lock_within(lock: &File, tries: u32) -> Result<(), rustix::io::Errno> {
    for _ in 0..tries {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => clock::sleep_until_ns(clock::monotonic_ns() + LOCK_PAUSE_NS),
            done => return done,
        }
    }
    rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive)
}

/// A lock, which `Drop` unlocks explicitly instead of by closing the file.
/// A forked child that has not called exec yet also has the file open.
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// Refuses a file that another user may change.
/// That user could make us write anything to the host, or destroy the data that undoes our changes.
pub(crate) fn refuse_if_shared(file: &File, path: &Path) -> Result<(), StateError> {
    let stat = rustix::fs::fstat(file).map_err(|errno| StateError::io("look at", path, errno))?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    let owner = rustix::process::geteuid().as_raw();
    let why = if stat.st_uid != 0 && stat.st_uid != owner {
        format!("it belongs to user {}: only root or user {owner} may own it", stat.st_uid)
    } else if mode.intersects(Mode::WGRP | Mode::WOTH) {
        format!("others may write to it (mode {:o}): remove that right with `chmod go-w`", mode.as_raw_mode())
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

/// Syncs the parent folder. The name of a new directory is on disk only after this sync.
fn sync_parent(path: &Path) -> Result<(), StateError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let sync = || -> rustix::io::Result<()> {
        let dir = rustix::fs::open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::fsync(dir)
    };
    sync().map_err(|errno| StateError::io("sync", parent, errno))
}
