//! A temporary file without a name. The file disappears when its process ends, even by a crash.

use std::fs::File;
use std::path::Path;

use evenkeel_sys::{Errno, clock};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// How many names to try if the file system does not support files without a name (`O_TMPFILE`).
const NAMES_MAX: u32 = 16;

/// When a write to the file is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// When the kernel has the data.
    InMemory,
    /// When the disk has the data (`O_DSYNC`).
    OnDisk,
}

/// Creates a file in `directory` that only its owner can read and write.
/// If the file system does not support files without a name (`O_TMPFILE`), the file has a name for a moment.
///
/// # Errors
/// The kernel's error.
pub fn file(directory: &Path, done: Done) -> Result<File, Errno> {
    let sync = if done == Done::OnDisk { OFlags::DSYNC } else { OFlags::empty() };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | sync;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok(File::from(file)),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {}
        Err(errno) => return Err(errno.into()),
    }
    named(directory, flags, mode)
}

fn named(directory: &Path, flags: OFlags, mode: Mode) -> Result<File, Errno> {
    for turn in 0..NAMES_MAX {
        let name = format!(".evenkeel-{}-{}-{turn}", std::process::id(), clock::monotonic_ns());
        let path = directory.join(name);
        match rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode) {
            Ok(file) => {
                rustix::fs::unlinkat(CWD, &path, AtFlags::empty())?;
                return Ok(File::from(file));
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_file_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let files = [
            file(directory.path(), Done::InMemory).unwrap(),
            file(directory.path(), Done::OnDisk).unwrap(),
            named(directory.path(), flags, Mode::RUSR | Mode::WUSR).unwrap(),
        ];
        for file in files {
            file.write_all_at(b"abc", 5).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 8);
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(file(&directory.path().join("none"), Done::InMemory).unwrap_err(), Errno::NOENT);
    }
}
