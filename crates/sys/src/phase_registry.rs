//! The registry of sessions that tick on this host: one small file per session, in a folder that all sessions can read.
//! The default folder is /dev/shm.
//!
//! Each session has its own file. The permissions of the file (0644) and of the folder (sticky) make the session the only writer.
//! So no daemon is needed, and no session can damage another's slot.
//! A slot needs no lock: its checksum shows whether a copy is whole ([`phase_slot`]).
//! If a session ends without removing its file, its slot no longer changes, and readers ignore it.
//! The next session of the same user removes the file, because the lock on it (`flock`) ended with its process.
//!
//! Readers read the files and never map them, because truncating a mapped file kills its readers.
//! So a separate thread scans the folder, not the thread that ticks.

use std::ffi::CStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, RawDir, SeekFrom};

use crate::errno::Errno;
use crate::phase_slot::{self, Slot, WORDS};
use crate::shared_page::{self, Access, SharedPage};

/// The prefix of the files' names.
const PREFIX: &str = "evenkeel-phase.";
/// The maximum number of sessions that a scan finds. The next values limit the files that it reads, and the entries that it examines.
/// Killed sessions of other users leave files that this user may not remove, so a scan reads more files than it finds sessions.
pub const SLOTS_MAX: usize = 256;
const FILES_MAX: usize = 2048;
const ENTRIES_MAX: usize = 4096;
const SLOT_BYTES: usize = WORDS * size_of::<u64>();
/// How often to read a torn copy again.
const TRIES: usize = 3;
/// How many file names a process tries. A process with the same number in another PID namespace may use some of them.
const NAMES: u64 = 64;
/// An unlocked file without a valid slot may belong to a session that is just starting. The next session removes it at this age.
const NEWBORN: Duration = Duration::from_secs(60);
/// How often to try to lock the folder. The next value is the pause in between. A hostile process may hold the lock for ever.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The slot of this session. Dropping it removes the file.
#[derive(Debug)]
pub struct SlotWriter {
    page: SharedPage,
    number: u64,
    id: u64,
}

impl SlotWriter {
    /// Creates a session's file in a folder, and removes files that ended sessions of the same user left in it.
    /// The slot is empty until the first [`publish`](SlotWriter::publish).
    ///
    /// # Errors
    /// The kernel's error, such as `ENOENT` or `EACCES` for the folder, or `ENOSPC`.
    pub fn create(folder: &Path) -> Result<SlotWriter, Errno> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        sweep(folder);
        let pid = std::process::id();
        let mut refused = Errno::EXIST;
        for _ in 0..NAMES {
            let path = folder.join(format!("{PREFIX}{pid}.{}", NEXT.fetch_add(1, Ordering::Relaxed)));
            match SharedPage::create(&path, SLOT_BYTES, Access::Everyone) {
                Ok(page) => return Ok(SlotWriter { id: page.inode()?, page, number: 0 }),
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    refused = errno;
                    break;
                }
            }
        }
        Err(refused)
    }

    /// Publishes the session's ticks. It never waits and makes no system call.
    pub fn publish(&mut self, slot: &Slot) {
        self.number = self.number.wrapping_add(1);
        let memory = self.page.words();
        phase_slot::publish(&slot.to_words(self.number), |place, word| memory[place].store(word, Ordering::Relaxed));
    }

    /// A number that no other session in the folder has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.page.path()
    }
}

/// Reads the slots of all sessions in a folder. A scan allocates nothing.
#[derive(Debug)]
pub struct Scanner {
    folder: OwnedFd,
    entries: Box<[MaybeUninit<u8>]>,
}

/// The lock of a folder. Sessions that hold it choose their first phase one after another.
#[derive(Debug)]
pub struct FolderLock {
    folder: OwnedFd,
}

impl Scanner {
    /// Opens the folder.
    ///
    /// # Errors
    /// The kernel's error, such as `ENOENT`, `ENOTDIR` or `EACCES`.
    pub fn open(folder: &Path) -> Result<Scanner, Errno> {
        let entries = vec![MaybeUninit::uninit(); 1 << 14].into_boxed_slice();
        Ok(Scanner { folder: open_folder(folder)?, entries })
    }

    /// Calls `each` with the number and the slot of each session, including our own.
    /// The scan skips invalid files, and ends after [`SLOTS_MAX`] slots for which `each` returns true.
    ///
    /// # Errors
    /// The kernel's error for the folder.
    pub fn scan(&mut self, mut each: impl FnMut(u64, Slot) -> bool) -> Result<(), Errno> {
        rustix::fs::seek(&self.folder, SeekFrom::Start(0))?;
        let mut entries = RawDir::new(&self.folder, &mut self.entries);
        let (mut read, mut examined, mut found) = (0, 0, 0);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            examined += 1;
            if examined > ENTRIES_MAX || read == FILES_MAX || found == SLOTS_MAX {
                break;
            }
            if entry.file_name().to_bytes().starts_with(PREFIX.as_bytes()) {
                read += 1;
                if let Some((id, slot)) = read_slot(self.folder.as_fd(), entry.file_name()) {
                    found += usize::from(each(id, slot));
                }
            }
        }
        Ok(())
    }
}

impl FolderLock {
    /// Locks the folder among sessions. Returns `None` if another process holds the lock for a quarter of a second.
    /// The limit on the wait keeps any session from stopping others. The lock ends with the process, even after a crash.
    pub fn take(folder: &Path) -> Option<FolderLock> {
        let folder = open_folder(folder).ok()?;
        for _ in 0..LOCK_TRIES {
            if rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Some(FolderLock { folder });
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        None
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Unlock explicitly: another thread may just start a child, which also has the folder open until it calls exec.
        let _ = rustix::fs::flock(&self.folder, FlockOperation::Unlock);
    }
}

/// The time namespace of this process; 0 if it is not known.
pub fn time_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata("/proc/self/ns/time").map_or(0, |found| found.ino())
}

fn open_folder(folder: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Reads the slot in a file of the folder, which may be any file. Follows no symbolic link, and does not wait for the writer of a pipe.
fn read_slot(folder: impl AsFd, name: &CStr) -> Option<(u64, Slot)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
    let found = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return None;
    }
    slot_of(|bytes| rustix::io::pread(&file, bytes, 0).unwrap_or(0)).map(|slot| (found.st_ino, slot))
}

fn slot_of(mut read: impl FnMut(&mut [u8]) -> usize) -> Option<Slot> {
    (0..TRIES).find_map(|_| {
        let mut bytes = [0; SLOT_BYTES];
        if read(&mut bytes) != SLOT_BYTES {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Slot::parse(&words)
    })
}

/// Removes the files of this user's killed sessions. Files that cannot be read or removed stay.
fn sweep(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let names = entries.take(ENTRIES_MAX).flatten();
    let ours = names.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    for path in ours.map(|entry| entry.path()).collect::<Vec<PathBuf>>() {
        if is_left(&path) == Some(true) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether an ended session of this user left the file.
fn is_left(path: &Path) -> Option<bool> {
    let file: File = shared_page::open(path).ok()?;
    let is_ours = shared_page::own_user()? == shared_page::user_of(&file).ok()?;
    if !is_ours || shared_page::is_locked(&file).ok()? {
        return Some(false);
    }
    let is_old = || Some(file.metadata().ok()?.modified().ok()?.elapsed().ok()? > NEWBORN);
    Some(slot_of(|bytes| shared_page::read_at(&file, bytes, 0).unwrap_or(0)).is_some() || is_old()?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::phase_slot::Cpus;

    const SLOT: Slot = Slot {
        time_namespace: 1,
        period_ns: 20_000_000,
        due_ns: 5,
        work_ns: 1_000_000,
        is_fixed: false,
        cpus: Cpus::ALL,
    };

    fn slots(scanner: &mut Scanner) -> Vec<(u64, Slot)> {
        let mut found = Vec::new();
        let mut take = |id, slot| {
            found.push((id, slot));
            true
        };
        scanner.scan(&mut take).unwrap();
        found.sort_by_key(|(id, _)| *id);
        found
    }

    #[test]
    fn sessions_see_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut scanner = Scanner::open(folder.path()).unwrap();
        let [mut one, mut other] = [0; 2].map(|_| SlotWriter::create(folder.path()).unwrap());
        assert_eq!(slots(&mut scanner), [], "not yet published");
        one.publish(&SLOT);
        other.publish(&Slot { due_ns: 6, ..SLOT });
        let mut expected = vec![(one.id(), SLOT), (other.id(), Slot { due_ns: 6, ..SLOT })];
        expected.sort_by_key(|(id, _)| *id);
        assert_eq!(slots(&mut scanner), expected);
        assert_eq!(std::fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o644);
        let id = other.id();
        drop(one);
        assert_eq!(slots(&mut scanner), [(id, Slot { due_ns: 6, ..SLOT })], "a session that ends removes its file");
    }

    #[test]
    fn foreign_files_are_not_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let mut own = SlotWriter::create(folder.path()).unwrap();
        own.publish(&SLOT);
        let whole = std::fs::read(own.path()).unwrap();
        let path = |name: &str| folder.path().join(format!("{PREFIX}{name}"));
        std::os::unix::fs::symlink(own.path(), path("link")).unwrap();
        let pipe = rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), FileType::Fifo, Mode::RUSR, 0);
        pipe.unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        std::fs::write(path("empty"), "").unwrap();
        std::fs::write(path("short"), &whole[..SLOT_BYTES - 1]).unwrap();
        std::fs::write(path("noise"), vec![0xff; 5000]).unwrap();
        std::fs::write(folder.path().join("another"), &whole).unwrap();
        let mut scanner = Scanner::open(folder.path()).unwrap();
        assert_eq!(slots(&mut scanner), [(own.id(), SLOT)]);
        // The owner truncates the file while other sessions read it. No reader has the file mapped.
        std::fs::write(path("cut"), &whole).unwrap();
        assert_eq!(slots(&mut scanner).len(), 2);
        std::fs::write(path("cut"), "").unwrap();
        assert_eq!(slots(&mut scanner).len(), 1);
        (0..2 * SLOTS_MAX).for_each(|at| std::fs::write(path(&format!("many{at}")), &whole).unwrap());
        assert!(slots(&mut scanner).len() <= SLOTS_MAX, "no more are found");
        // Invalid slots and files of noise take no places from the sessions.
        let mut seen = false;
        let is_own = |id, _| {
            seen |= id == own.id();
            id == own.id()
        };
        scanner.scan(is_own).unwrap();
        assert!(seen);
    }

    #[test]
    fn a_file_that_was_left_is_removed_and_a_new_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut own = SlotWriter::create(folder.path()).unwrap();
        own.publish(&SLOT);
        let (left, newborn) = (folder.path().join("evenkeel-phase.1.0"), folder.path().join("evenkeel-phase.1.1"));
        std::fs::copy(own.path(), &left).unwrap();
        std::fs::write(&newborn, vec![0; SLOT_BYTES]).unwrap();
        let next = SlotWriter::create(folder.path()).unwrap();
        assert_eq!(
            [left.exists(), newborn.exists(), own.path().exists(), next.path().exists()],
            [false, true, true, true]
        );
        let old = std::time::SystemTime::now() - 2 * NEWBORN;
        File::options().write(true).open(&newborn).unwrap().set_modified(old).unwrap();
        sweep(folder.path());
        assert!(!newborn.exists() && own.path().exists());
    }

    #[test]
    fn the_lock_of_the_folder_is_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::take(folder.path()).unwrap();
        assert!(FolderLock::take(folder.path()).is_none(), "it does not wait for ever");
        drop(first);
        assert!(FolderLock::take(folder.path()).is_some());
        assert!(FolderLock::take(&folder.path().join("none")).is_none());
        assert_eq!(Scanner::open(&folder.path().join("none")).unwrap_err(), Errno::NOENT);
        assert_eq!(SlotWriter::create(&folder.path().join("none")).unwrap_err(), Errno::NOENT);
        assert!(time_namespace() > 0);
    }
}
