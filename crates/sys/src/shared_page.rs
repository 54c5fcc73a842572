//! `SharedPage`: a small file that is mapped for writing, so that other processes can read what this one is doing without asking it.
//! Its memory is there before it is written to: a full file system is told when the page is made, not by a signal in the middle of a tick.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::errno::Errno;

/// The most bytes that a page may have.
pub const PAGE_BYTES_MAX: usize = 1 << 16;

/// Who else may read the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Nobody but its owner: 0600.
    #[default]
    Owner,
    /// Its group too: 0640.
    Group,
}

/// A file of words that any process may read, and this one writes. Its name goes away when this is dropped.
#[derive(Debug)]
pub struct SharedPage {
    start: NonNull<AtomicU64>,
    words: usize,
    file: File,
    path: PathBuf,
}

// SAFETY: the memory is reached through atomics alone, and stays mapped for as long as the value lives.
unsafe impl Send for SharedPage {}
// SAFETY: as above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Makes a file of zeros at `path`, and locks it (`flock`), so that others can tell that somebody holds it. `bytes` is a multiple of 8.
    ///
    /// # Errors
    /// `EEXIST` if there is a file already; `ENOSPC` if there is no room; `EINVAL` for no bytes, too many or a part of a word; else what the
    /// kernel said.
    pub fn create(path: &Path, bytes: usize, access: Access) -> Result<SharedPage, Errno> {
        if bytes == 0 || bytes > PAGE_BYTES_MAX || !bytes.is_multiple_of(size_of::<u64>()) {
            return Err(Errno::INVAL);
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        match fill(&file, bytes, access).and_then(|()| map(&file, bytes)) {
            Ok(start) => Ok(SharedPage { start, words: bytes / size_of::<u64>(), file, path: path.to_owned() }),
            Err(errno) => {
                let _ = std::fs::remove_file(path);
                Err(errno)
            }
        }
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is as long, readable and writable, aligned to a page, and lives as long as `self`; every bit pattern is a
        // word, and whatever other processes do to it, atomics allow.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // Another file may have our name by now: that one is none of ours.
        let is_ours = |there: &std::fs::Metadata| {
            self.file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
        };
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| is_ours(&there)) {
            let _ = std::fs::remove_file(&self.path);
        }
        // SAFETY: the range was mapped with this length, and every reference into it borrowed from this value.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

/// Gives the file its memory, its rights and its lock.
fn fill(file: &File, bytes: usize, access: Access) -> Result<(), Errno> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes as u64) {
        Ok(()) => {}
        // Zeros that are written take the room too.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            file.write_all_at(&vec![0; bytes], 0).map_err(|error| Errno::from(&error))?;
        }
        Err(errno) => return Err(errno.into()),
    }
    let group = if access == Access::Group { Mode::RGRP } else { Mode::empty() };
    // Whatever the umask is.
    rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR | group)?;
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

fn map(file: &File, bytes: usize) -> Result<NonNull<AtomicU64>, Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: the kernel chooses an address where nothing is mapped. Whoever may write the file could cut it short, which only its owner
    // may, and this process is its owner's.
    let start = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, protection, flags, file, 0) }?;
    NonNull::new(start.cast()).ok_or(Errno::INVAL)
}

/// Whether somebody holds a lock on the file: whoever made it does until it ends, however it ends.
///
/// # Errors
/// What the kernel said.
pub fn is_locked(file: &File) -> Result<bool, Errno> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(rustix::fs::flock(file, FlockOperation::Unlock).map(|()| false)?),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a file of somebody else's to read: an ordinary one of up to [`PAGE_BYTES_MAX`] bytes, through no symbolic link, and without waiting
/// for who would write to it.
///
/// # Errors
/// `EINVAL` if it is no ordinary file; `EFBIG` if it is longer; else what the kernel said.
pub fn open(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let found = file.metadata().map_err(|error| Errno::from(&error))?;
    match found.is_file() {
        false => Err(Errno::INVAL),
        true if found.len() > PAGE_BYTES_MAX as u64 => Err(Errno::FBIG),
        true => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_is_written_can_be_read_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let page = SharedPage::create(&path, 4096, Access::Group).unwrap();
        assert_eq!(page.words().len(), 512);
        assert!(page.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        page.words()[511].store(7, Ordering::Relaxed);
        let file = open(&path).unwrap();
        let mut last = [0; 8];
        file.read_exact_at(&mut last, 4088).unwrap();
        assert_eq!(u64::from_ne_bytes(last), 7);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(is_locked(&file), Ok(true));
        assert_eq!(SharedPage::create(&path, 4096, Access::Owner).unwrap_err(), Errno::EXIST);
        drop(page);
        assert!(!path.exists());
        // A program that another test is just starting has the page open too until it runs.
        let tries = (0..4000).take_while(|_| is_locked(&file) != Ok(false));
        assert!(tries.map(|_| std::thread::sleep(std::time::Duration::from_millis(5))).count() < 4000, "it is locked");
    }

    #[test]
    fn another_file_of_the_name_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let page = SharedPage::create(&path, 8, Access::Owner).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "somebody else's").unwrap();
        drop(page);
        assert!(path.exists());
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for bytes in [0, 7, PAGE_BYTES_MAX + 8] {
            assert_eq!(SharedPage::create(&path("page"), bytes, Access::Owner).unwrap_err(), Errno::INVAL);
        }
        std::os::unix::fs::symlink("/etc/passwd", path("link")).unwrap();
        std::fs::write(path("long"), vec![0; PAGE_BYTES_MAX + 1]).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        let table = [("link", Errno::LOOP), ("long", Errno::FBIG), ("pipe", Errno::INVAL), ("none", Errno::NOENT)];
        for (name, expected) in table {
            assert_eq!(open(&path(name)).unwrap_err(), expected, "{name}");
        }
        assert_eq!(open(folder.path()).unwrap_err(), Errno::INVAL);
        assert_eq!(SharedPage::create(&path("link"), 8, Access::Owner).unwrap_err(), Errno::EXIST);
    }
}
