//! `SharedPage`: a small file mapped for writing. Other processes read there what this process does, without asking it.
//! Its memory is allocated beforehand. So a full file system causes an error when the page is created, not a signal during a tick.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::errno::Errno;

/// The maximum number of bytes of a page.
pub const PAGE_BYTES_MAX: usize = 1 << 16;

/// Who else may read the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Only the file's owner: mode 0600.
    #[default]
    Owner,
    /// Also the file's group: mode 0640.
    Group,
    /// All users: mode 0644.
    Everyone,
}

/// A file of words that this process writes and other processes may read. Dropping this value removes the file's name.
#[derive(Debug)]
pub struct SharedPage {
    start: NonNull<AtomicU64>,
    words: usize,
    file: File,
    path: PathBuf,
}

// SAFETY: the memory is accessed only through atomics, and stays mapped while the value lives.
unsafe impl Send for SharedPage {}
// SAFETY: as above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Creates a file of zeros at `path` and locks it (`flock`). The lock shows others that the file is in use. `bytes` is a multiple of 8.
    ///
    /// # Errors
    /// `EEXIST` if the file exists; `ENOSPC` if there is no space; `EINVAL` for 0, too many bytes or a part of a word.
    /// Otherwise the kernel's error.
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

    /// The words of the page.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is long enough, readable, writable, and aligned to a page. It lives as long as `self`.
        // Every bit pattern is a word. Other processes may change it, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The inode number of the file. While the file exists, no other file of its file system has this number.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn inode(&self) -> Result<u64, Errno> {
        self.file.metadata().map(|found| found.ino()).map_err(|error| Errno::from(&error))
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // Another file may have the same name by now. Do not remove that file.
        let is_ours = |there: &std::fs::Metadata| {
            self.file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
        };
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| is_ours(&there)) {
            let _ = std::fs::remove_file(&self.path);
        }
        // SAFETY: the range was mapped with this length, and no reference into it outlives this value.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

/// Allocates the file's memory, and sets its mode and lock.
fn fill(file: &File, bytes: usize, access: Access) -> Result<(), Errno> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes as u64) {
        Ok(()) => {}
        // Writing zeros also allocates the space on the disk.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            file.write_all_at(&vec![0; bytes], 0).map_err(|error| Errno::from(&error))?;
        }
        Err(errno) => return Err(errno.into()),
    }
    let others = match access {
        Access::Owner => Mode::empty(),
        Access::Group => Mode::RGRP,
        Access::Everyone => Mode::RGRP | Mode::ROTH,
    };
    // Sets the mode regardless of the umask.
    rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR | others)?;
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

fn map(file: &File, bytes: usize) -> Result<NonNull<AtomicU64>, Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: the kernel chooses an unused address.
    // Only the file's owner may write to the file and so truncate it, and this process belongs to the owner.
    let start = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, protection, flags, file, 0) }?;
    NonNull::new(start.cast()).ok_or(Errno::INVAL)
}

/// Whether a process holds the lock on the file. The file's creator holds the lock until the creator ends, even by a crash.
///
/// # Errors
/// The kernel's error.
pub fn is_locked(file: &File) -> Result<bool, Errno> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(rustix::fs::flock(file, FlockOperation::Unlock).map(|()| false)?),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// The user that a file belongs to.
///
/// # Errors
/// The kernel's error.
pub fn user_of(file: &File) -> Result<u32, Errno> {
    file.metadata().map(|found| found.uid()).map_err(|error| Errno::from(&error))
}

/// The user of this process, who owns its files.
pub fn own_user() -> Option<u32> {
    Some(rustix::process::geteuid().as_raw())
}

/// Reads at an offset of a file, without moving the file's position.
///
/// # Errors
/// The kernel's error.
pub fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(bytes, at)
}

/// Opens another process's file for reading: a regular file of up to [`PAGE_BYTES_MAX`] bytes.
/// Does not follow a symbolic link, and does not wait for a writer.
///
/// # Errors
/// `EINVAL` if it is not a regular file; `EFBIG` if it is longer; otherwise the kernel's error.
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
    fn other_processes_can_read_the_page() {
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
        // Another test may just start a program that also has the page open, until that program calls exec.
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
    fn invalid_pages_are_refused() {
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
