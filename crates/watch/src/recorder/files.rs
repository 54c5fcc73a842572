//! The folder of dumps. It has the newest dumps, and only complete dumps. Another program can request a dump by a file in this folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_profile::perf::write::{Described, PerfWriter};
use evenkeel_sys::clock;
use jiff::Timestamp;
use rustix::fs::OFlags;

use crate::store::{StoreError, own_folder, segment_head};

/// A program that creates this file in the folder requests a dump. The text of the file is the reason.
pub const ASK_FILE: &str = "dump-wanted";
/// The file with the answer to a request: the path of the dump, or `refused: ` and the reason.
pub const ANSWER_FILE: &str = "dump-answer";
/// The beginning and the end of the names of dumps. Files whose names begin differently are never deleted.
const PREFIX: &str = "evenkeel-dump-";
const ENDING: &str = ".data";
const UNFINISHED: &str = ".evenkeel-dump-unfinished";
const LOCK: &str = ".evenkeel-dump-lock";
/// The maximum length of a request, and the maximum number of files in a folder.
const REASON_BYTES_MAX: u64 = 400;
const ANSWER_BYTES_MAX: u64 = 8192;
const ENTRIES_MAX: usize = 10_000;

/// The folder of dumps.
#[derive(Debug)]
pub(super) struct Folder {
    dir: PathBuf,
    dumps_max: usize,
    /// The lock, which is kept while the folder is in use, because two recorders would delete each other's dumps.
    _lock: File,
}

/// A dump that is not complete yet.
#[derive(Debug)]
pub(super) struct Unfinished {
    file: File,
    path: PathBuf,
}

impl Unfinished {
    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish`, the file has another name, so nothing is removed.
        let _ = fs::remove_file(&self.path);
    }
}

impl Folder {
    /// Opens the folder. The folder is created if only the last part of its path is missing.
    /// Files that a killed recorder did not finish are removed.
    pub(super) fn open(dir: &Path, dumps_max: usize) -> io::Result<Folder> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("open the folder {}: {error}", dir.display()));
        let lock = match own_folder(dir, LOCK) {
            Ok(lock) => lock,
            Err(StoreError::Io { error, .. } | StoreError::Read { error, .. }) => return Err(named(error)),
            Err(error) => return Err(io::Error::new(io::ErrorKind::ResourceBusy, error)),
        };
        let folder = Folder { dir: dir.to_owned(), dumps_max: dumps_max.max(1), _lock: lock };
        for stale in [UNFINISHED, ASK_FILE] {
            let _ = fs::remove_file(dir.join(stale));
        }
        // Check now whether the folder is writable, not hours later at the first dump.
        drop(folder.begin().map_err(named)?);
        Ok(folder)
    }

    pub(super) fn begin(&self) -> io::Result<Unfinished> {
        let path = self.dir.join(UNFINISHED);
        let _ = fs::remove_file(&path);
        let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32;
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).custom_flags(flags).open(&path)?;
        Ok(Unfinished { file, path })
    }

    /// Renames the dump to its final name, and deletes the oldest dumps beyond the limit.
    pub(super) fn finish(&self, unfinished: Unfinished) -> io::Result<PathBuf> {
        unfinished.file.sync_all()?;
        let time = Timestamp::from_nanosecond(i128::from(clock::realtime_ns())).unwrap_or(Timestamp::UNIX_EPOCH);
        let stem = format!("{PREFIX}{}", time.strftime("%Y-%m-%dT%H%M%SZ"));
        let mut path = self.dir.join(format!("{stem}{ENDING}"));
        for number in 2..1000 {
            if !path.exists() {
                break;
            }
            path = self.dir.join(format!("{stem}-{number:03}{ENDING}"));
        }
        fs::rename(&unfinished.path, &path)?;
        self.retire(&path);
        Ok(path)
    }

    fn retire(&self, newest: &Path) {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().take(ENTRIES_MAX).flatten();
        let mut dumps: Vec<PathBuf> = entries
            .filter(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with(PREFIX) && name.ends_with(ENDING)
            })
            .map(|entry| entry.path())
            .filter(|path| path != newest)
            .collect();
        // The names contain the time, so sorting them sorts by time.
        dumps.sort();
        let beyond = (dumps.len() + 1).saturating_sub(self.dumps_max);
        for old in dumps.iter().take(beyond) {
            let _ = fs::remove_file(old);
        }
    }

    /// Reads the reason from the request file, and removes the file.
    pub(super) fn asked(&self) -> Option<String> {
        let path = self.dir.join(ASK_FILE);
        let text = match plain_text(&path, REASON_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            text => text.unwrap_or_default(),
        };
        // If the request file stayed, it would request dumps forever.
        fs::remove_file(&path).ok()?;
        Some(if text.trim().is_empty() { "asked by a file".to_owned() } else { text.trim().to_owned() })
    }

    pub(super) fn answer(&self, words: &str) {
        // If the answer cannot be written, the requester's wait ends after its time limit.
        let _ = put(&self.dir, ANSWER_FILE, words);
    }
}

/// Writes a complete file of this name. If a link has this name, it is replaced, not followed.
fn put(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let (path, temporary) = (dir.join(name), dir.join(format!(".{name}")));
    let _ = fs::remove_file(&temporary);
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o644).custom_flags(flags).open(&temporary);
    made?.write_all(text.as_bytes())?;
    fs::rename(&temporary, &path)
}

/// Reads the beginning of a file. Fails if the path is a link.
fn plain_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK).bits() as i32;
    let mut bytes = Vec::new();
    OpenOptions::new().read(true).custom_flags(flags).open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Appends samples to the records of a dump, in the form of a segment of a store.
pub(super) fn append_samples(into: &mut impl Write, frames: &[u8]) -> io::Result<()> {
    into.write_all(&segment_head())?;
    into.write_all(frames)?;
    into.flush()
}

/// Writes a dump from its parts: records as the kernel wrote them, their description, and samples as frames of a store.
///
/// # Errors
/// If writing fails.
pub fn write_dump<W: Write + Seek>(into: W, records: &[u8], described: &Described, frames: &[u8]) -> io::Result<W> {
    let mut writer = PerfWriter::begin(into)?;
    writer.records(records)?;
    let mut file = writer.finish(described)?;
    file.seek(io::SeekFrom::End(0))?;
    append_samples(&mut file, frames)?;
    Ok(file)
}

/// Requests a dump with a file in the folder, and waits for the answer.
pub(super) fn ask_in(dir: &Path, reason: &str, wait: Duration) -> Result<PathBuf, String> {
    const NAP: Duration = Duration::from_millis(50);
    let (ask, answer) = (dir.join(ASK_FILE), dir.join(ANSWER_FILE));
    let failed = |error: io::Error| format!("write {}: {error}", ask.display());
    match fs::remove_file(&answer) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    put(dir, ASK_FILE, reason).map_err(failed)?;
    let until = Instant::now() + wait;
    while Instant::now() < until {
        if let Ok(text) = plain_text(&answer, ANSWER_BYTES_MAX) {
            let _ = fs::remove_file(&answer);
            return match text.strip_prefix("refused: ") {
                Some(why) => Err(why.to_owned()),
                None => Ok(PathBuf::from(text)),
            };
        }
        std::thread::sleep(NAP);
    }
    let _ = fs::remove_file(&ask);
    Err("no flight recorder writes to this folder: start `evenkeel watch` or `evenkeel serve` with --dumps".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the files in the folder, except the lock.
    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.map(|name| name.to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name != LOCK).collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_dumps_are_held_and_files_of_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("dumps");
        let folder = Folder::open(&at, 2).unwrap();
        for name in
            ["evenkeel-dump-2020-01-01T000000Z.data", "evenkeel-dump-2021-01-01T000000Z.data", "notes", "a.data"]
        {
            fs::write(at.join(name), "x").unwrap();
        }
        let first = folder.finish(folder.begin().unwrap()).unwrap();
        let second = folder.finish(folder.begin().unwrap()).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let mut expected = vec!["a.data".to_owned(), name(&first), name(&second), "notes".to_owned()];
        expected.sort();
        assert_eq!(names(&at), expected);
        // A dump that is not finished is removed. The next start removes files that a killed recorder did not finish.
        drop(folder.begin().unwrap());
        fs::write(at.join(UNFINISHED), "PERFILE2").unwrap();
        let other = Folder::open(&at, 2).unwrap_err().to_string();
        assert!(other.contains("in use"), "{other}");
        drop(folder);
        Folder::open(&at, 2).unwrap();
        assert_eq!(names(&at), expected);
    }

    #[test]
    fn a_file_asks_once_and_is_no_way_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), 2).unwrap();
        assert_eq!(folder.asked(), None);
        fs::write(dir.path().join(ASK_FILE), "players complain\n").unwrap();
        assert_eq!((folder.asked().as_deref(), folder.asked()), (Some("players complain"), None));
        fs::write(dir.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), dir.path().join(ASK_FILE)).unwrap();
        assert_eq!(folder.asked().as_deref(), Some("asked by a file"), "a link is not followed");
        assert!(dir.path().join("secret").exists());
        fs::write(dir.path().join(ASK_FILE), vec![b'x'; 100_000]).unwrap();
        assert_eq!(folder.asked().map(|text| text.len()), Some(400));
        folder.answer("refused: no");
        assert_eq!(fs::read_to_string(dir.path().join(ANSWER_FILE)).unwrap(), "refused: no");
    }

    /// A user who may write to the folder cannot make evenkeel write to another file, or print its contents.
    #[test]
    fn who_asks_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        for name in [ASK_FILE, &format!(".{ASK_FILE}")] {
            std::os::unix::fs::symlink(&secret, dir.path().join(name)).unwrap();
        }
        put(dir.path(), ASK_FILE, "players complain").unwrap();
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
        assert_eq!(plain_text(&dir.path().join(ASK_FILE), 400).unwrap(), "players complain");
        std::os::unix::fs::symlink(&secret, dir.path().join(ANSWER_FILE)).unwrap();
        assert!(plain_text(&dir.path().join(ANSWER_FILE), 400).is_err());
    }

    #[test]
    fn who_asks_where_nobody_records_hears_that() {
        let dir = tempfile::tempdir().unwrap();
        let said = ask_in(dir.path(), "x", Duration::from_millis(1)).unwrap_err();
        assert!(said.contains("no flight recorder"), "{said}");
        assert_eq!(names(dir.path()), [""; 0]);
        assert!(Folder::open(&dir.path().join("a/b"), 1).is_err());
    }
}
