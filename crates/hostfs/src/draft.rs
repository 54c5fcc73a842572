//! Replaces a configuration file by writing a draft next to the file and renaming the draft.
//!
//! A file or link with a draft's name was left by a killed evenkeel, and is removed.
//! A folder, a device, or a file that cannot be removed belongs to another owner. The draft then takes the next name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use evenkeel_sys::Errno;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};

use crate::entry::Entry;

/// The maximum number of names to try for a draft.
const NAMES_MAX: u32 = 8;

/// Puts `entry` under `name` in the folder `dir`. When this function returns, the entry is on disk.
///
/// # Errors
/// The kernel's error. `EEXIST` if every name of the draft is taken. After an error, the old content is unchanged.
pub(crate) fn put(dir: &OwnedFd, name: &str, entry: &Entry) -> Result<(), Errno> {
    sweep(dir, name)?;
    match entry {
        Entry::Absent => match unlink(dir, name) {
            Err(errno) if errno.is_absence() => Ok(()),
            removed => removed,
        },
        Entry::File { text, mode } => replace(dir, name, |draft| make(dir, draft)?.fill(dir, name, text, *mode)),
        Entry::Link { target } => {
            replace(dir, name, |draft| Ok(rustix::fs::symlinkat(OsStr::from_bytes(target.as_bytes()), dir, draft)?))
        }
    }
    .and_then(|()| Ok(rustix::fs::fsync(dir)?))
}

/// Removes the files that a killed [`put`] may have left.
///
/// # Errors
/// The kernel's error for removing one of our files.
pub(crate) fn sweep(dir: &OwnedFd, name: &str) -> Result<(), Errno> {
    for draft in names(name) {
        let Ok(stat) = rustix::fs::statat(dir, &draft, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Symlink) {
            continue;
        }
        match unlink(dir, &draft) {
            // The file is immutable, or something is mounted on it. `replace` then tries the next name.
            Err(errno) if !errno.is_absence() && errno != Errno::PERM && errno != Errno::BUSY => return Err(errno),
            _ => {}
        }
    }
    Ok(())
}

/// The names to try for a draft. Programs that read the folder ignore them, because they do not end in `.conf`, `.cfg` or `.service`.
fn names(name: &str) -> impl Iterator<Item = String> + '_ {
    (0..NAMES_MAX).map(move |number| match number {
        0 => format!(".{name}.evenkeel-draft"),
        _ => format!(".{name}.evenkeel-draft-{number}"),
    })
}

/// Creates a draft under the first free name, and then renames it to `name`.
fn replace(dir: &OwnedFd, name: &str, make: impl Fn(&str) -> Result<(), Errno>) -> Result<(), Errno> {
    for draft in names(name) {
        match make(&draft) {
            Err(Errno::EXIST) => {}
            made => {
                return made
                    .and_then(|()| Ok(rustix::fs::renameat(dir, &draft, dir, name)?))
                    // After a failure, remove the partial file. If the removal fails too, nothing more can be done.
                    .inspect_err(|_| {
                        let _ = unlink(dir, &draft);
                    });
            }
        }
    }
    Err(Errno::EXIST)
}

struct Draft(File);

/// Creates the draft's file. Fails with `EEXIST` if the name is taken. An existing entry is neither opened nor followed.
fn make(dir: &OwnedFd, draft: &str) -> Result<Draft, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Draft(rustix::fs::openat(dir, draft, flags, Mode::RUSR | Mode::WUSR)?.into()))
}

impl Draft {
    /// Writes the text. The draft gets the owner and group of the file that it will replace.
    fn fill(self, dir: &OwnedFd, name: &str, text: &str, mode: u32) -> Result<(), Errno> {
        let Draft(mut file) = self;
        if let Ok(old) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            rustix::fs::fchown(&file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)))?;
        }
        file.write_all(text.as_bytes()).map_err(|error| Errno::from(&error))?;
        // Set the mode after the owner, because a change of the owner clears bits. The umask does not matter.
        rustix::fs::fchmod(&file, Mode::from_bits_truncate(mode))?;
        Ok(rustix::fs::fsync(&file)?)
    }
}

fn unlink(dir: &OwnedFd, name: &str) -> Result<(), Errno> {
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use crate::{Entry, Root};

    const PATH: &str = "/etc/sysctl.d/90-x.conf";

    /// Checks that each kind of entry can be swept, written and read back, and that the foreign file `theirs` stays.
    fn works(dir: &Path, theirs: &str) {
        let tree = Root::mounted(dir).unwrap().tree().unwrap();
        let file = Entry::File { text: "a\n".to_owned(), mode: 0o644 };
        for entry in [file, Entry::Link { target: "../x".into() }, Entry::Absent] {
            tree.sweep(PATH).unwrap();
            tree.put(PATH, &entry).unwrap();
            assert_eq!(tree.look(PATH), Ok(entry), "{theirs}");
        }
        assert!(dir.join("etc/sysctl.d").join(theirs).exists(), "{theirs}");
    }

    /// Regression: if a folder had the draft's name, every `put` and `sweep` failed, so changes could not be restored.
    #[test]
    fn a_foreign_file_with_the_name_of_a_draft_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("etc/sysctl.d");
        std::fs::create_dir_all(&folder).unwrap();
        for (number, theirs) in [".90-x.conf.evenkeel-draft", ".90-x.conf.evenkeel-draft-1"].into_iter().enumerate() {
            std::fs::create_dir(folder.join(theirs)).unwrap();
            std::fs::write(folder.join(theirs).join("theirs"), "").unwrap();
            works(dir.path(), &format!("{theirs}/theirs"));
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), number + 1);
        }
        let fifo = folder.join(".90-x.conf.evenkeel-draft-2");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        works(dir.path(), ".90-x.conf.evenkeel-draft-2");
        // Later drafts that a killed process left are also removed, and a link is never followed.
        let (left, link) = (folder.join(".90-x.conf.evenkeel-draft-3"), folder.join(".90-x.conf.evenkeel-draft-5"));
        std::fs::write(&left, "half").unwrap();
        symlink("../../victim", &link).unwrap();
        std::fs::write(dir.path().join("victim"), "theirs").unwrap();
        works(dir.path(), ".90-x.conf.evenkeel-draft-2");
        assert!(!left.exists() && std::fs::symlink_metadata(&link).is_err());
        assert_eq!(std::fs::read_to_string(dir.path().join("victim")).unwrap(), "theirs");
    }

    #[test]
    fn without_a_free_name_the_error_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("etc/sysctl.d");
        std::fs::create_dir_all(&folder).unwrap();
        for name in super::names("90-x.conf") {
            std::fs::create_dir(folder.join(name)).unwrap();
        }
        let tree = Root::mounted(dir.path()).unwrap().tree().unwrap();
        let error = tree.put(PATH, &Entry::File { text: String::new(), mode: 0o644 }).unwrap_err().to_string();
        assert!(error.contains(".evenkeel-draft") && error.contains("move them away"), "{error}");
        // Removing a file needs no draft.
        std::fs::write(folder.join("90-x.conf"), "ours").unwrap();
        tree.put(PATH, &Entry::Absent).unwrap();
        assert_eq!(tree.look(PATH), Ok(Entry::Absent));
    }
}
