//! Writes recordings, and windows, each into its own file. A file appears whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_profile::live::Outlet;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempPath;

use crate::show::Out;

/// The maximum number of windows of one recording, so that a repeating trigger does not fill the disk.
const DUMPS_MAX: usize = 100;

/// A file that appears under its name only when it is complete.
/// If the file system supports it, the file has no name until then, so a killed recorder leaves nothing behind.
/// Otherwise the file has a temporary name and a lock. The next recorder removes such files if nobody holds the lock.
pub(super) struct Whole {
    file: File,
    at: PathBuf,
    until_kept: Until,
}

/// The state of a file that is still being written.
enum Until {
    Nameless,
    Named(TempPath),
    /// A device. evenkeel writes the recording to the device and never replaces it.
    Device,
}

/// The prefix of incomplete files.
const UNFINISHED: &str = ".evenkeel-recording-";
/// The maximum number of directory entries to search for incomplete files.
const ENTRIES_MAX: usize = 100_000;

impl Whole {
    pub(super) fn new(at: &Path) -> io::Result<Whole> {
        // If the path is a link, write to its target. For example, /dev/stdout is a link.
        let at = at.canonicalize().unwrap_or_else(|_| at.to_owned());
        if let Some(kind) = std::fs::metadata(&at).ok().map(|there| there.file_type()).filter(|kind| !kind.is_file()) {
            if kind.is_fifo() || kind.is_socket() {
                // evenkeel writes the header last, so it needs a file that can seek.
                return Err(Errno::OPNOTSUPP.into());
            }
            return Ok(Whole { file: OpenOptions::new().write(true).open(&at)?, at, until_kept: Until::Device });
        }
        let folder = folder_of(&at);
        remove_left(folder);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Whole { file: file.into(), at, until_kept: Until::Nameless }),
            Err(_) => Whole::with_name(&at),
        }
    }

    fn with_name(at: &Path) -> io::Result<Whole> {
        /// The maximum number of tries.
        /// The cleanup of another recorder may remove the file before this recorder locks it.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let made = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder_of(at))?;
            let (file, named) = made.into_parts();
            if file.try_lock().is_ok() && file.metadata()?.nlink() > 0 {
                return Ok(Whole { file, at: at.to_owned(), until_kept: Until::Named(named) });
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    pub(super) fn writer(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::with_capacity(1 << 18, self.file.try_clone()?))
    }

    /// Gives the file its name. First renames an existing file with that name.
    pub(super) fn keep(self) -> io::Result<()> {
        if self.at.is_file() {
            std::fs::rename(&self.at, old(&self.at))?;
        }
        match self.until_kept {
            Until::Device => Ok(()),
            Until::Named(named) => named.persist(&self.at).map_err(|error| error.error),
            Until::Nameless => give_name(&self.file, &self.at),
        }
    }
}

/// Gives a file its name. Replaces anything else with that name, such as a link.
fn give_name(file: &File, at: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |to: &Path| rustix::fs::linkat(CWD, &own, CWD, to, AtFlags::SYMLINK_FOLLOW);
    match link(at) {
        Err(Errno::EXIST) => {
            let temporary = folder_of(at).join(format!("{UNFINISHED}{}", std::process::id()));
            link(&temporary)?;
            std::fs::rename(&temporary, at).inspect_err(|_| {
                // If this call fails, the next recorder removes the file.
                let _ = std::fs::remove_file(&temporary);
            })
        }
        linked => Ok(linked?),
    }
}

fn folder_of(at: &Path) -> &Path {
    at.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes incomplete files of killed recorders. A running recorder holds the lock of its file.
fn remove_left(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX);
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(UNFINISHED)) {
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let opened = File::options().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(entry.path());
        if opened.is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Whole {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

fn old(at: &Path) -> PathBuf {
    let mut name = at.as_os_str().to_owned();
    name.push(".old");
    PathBuf::from(name)
}

/// The trigger for writing a window.
pub(super) struct Pull {
    flag: Arc<AtomicBool>,
    file: Option<PathBuf>,
    was_there: bool,
}

impl Pull {
    /// Watches a flag that a signal sets, and a file. The trigger fires when the flag is set or the file appears.
    pub(super) fn new(flag: Arc<AtomicBool>, file: Option<PathBuf>) -> Pull {
        let was_there = file.as_deref().is_some_and(Path::exists);
        Pull { flag, file, was_there }
    }

    fn is_pulled(&mut self) -> bool {
        let is_there = self.file.as_deref().is_some_and(Path::exists);
        let appeared = is_there && !self.was_there;
        self.was_there = is_there;
        self.flag.swap(false, Ordering::Relaxed) || appeared
    }
}

/// Writes the windows.
pub(super) struct Dumps {
    last: PathBuf,
    pull: Pull,
    written: Vec<PathBuf>,
    is_asked: bool,
    out: Out,
}

impl Dumps {
    pub(super) fn new(last: &Path, pull: Pull, out: Out) -> Dumps {
        Dumps { last: last.to_owned(), pull, written: Vec::new(), is_asked: false, out }
    }

    /// The files of triggered windows.
    pub(super) fn written(&self) -> &[PathBuf] {
        &self.written
    }
}

/// The name of window `number` of a recording, such as `tick-2.data` for `tick.data`.
fn numbered(at: &Path, number: usize) -> PathBuf {
    let stem = at.file_stem().unwrap_or_default().to_string_lossy();
    let name = match at.extension() {
        Some(ending) => format!("{stem}-{number}.{}", ending.to_string_lossy()),
        None => format!("{stem}-{number}"),
    };
    at.with_file_name(name)
}

impl Outlet for Dumps {
    type File = Whole;

    fn is_asked(&mut self) -> bool {
        self.is_asked = self.pull.is_pulled() && self.written.len() < DUMPS_MAX;
        self.is_asked
    }

    fn open(&mut self) -> io::Result<Whole> {
        let at = if self.is_asked { numbered(&self.last, self.written.len() + 1) } else { self.last.clone() };
        Whole::new(&at)
    }

    fn close(&mut self, mut file: Whole) -> io::Result<()> {
        file.flush()?;
        let at = file.at.clone();
        file.keep()?;
        if std::mem::take(&mut self.is_asked) {
            self.out.warn(&format!("wrote the window to {}\n", at.display()));
            self.written.push(at);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_numbered_before_the_ending() {
        for (at, second) in [("a.data", "a-2.data"), ("x/y", "x/y-2"), ("./.hidden", "./.hidden-2")] {
            assert_eq!(numbered(Path::new(at), 2), Path::new(second));
        }
    }

    /// Both ways to create a file: without a name until `keep`, and with a temporary name.
    const WAYS: [fn(&Path) -> io::Result<Whole>; 2] = [Whole::new, Whole::with_name];

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_whole_and_what_was_there_is_kept() {
        for make in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let at = folder.path().join("perf.data");
            for text in ["one", "two"] {
                let mut file = make(&at).unwrap();
                file.write_all(text.as_bytes()).unwrap();
                assert_ne!(std::fs::read_to_string(&at).unwrap_or_default(), text, "it is not there before it is kept");
                file.keep().unwrap();
            }
            let read = |at: &Path| std::fs::read_to_string(at).unwrap();
            assert_eq!((read(&at), read(&old(&at))), ("two".to_owned(), "one".to_owned()));
            assert_eq!(std::fs::metadata(&at).unwrap().mode() & 0o777, 0o600);
            // Without `keep`, a file leaves nothing behind. With `keep`, it replaces a dangling link.
            drop(make(&at).unwrap());
            let link = folder.path().join("link");
            std::os::unix::fs::symlink("/nonexistent/target", &link).unwrap();
            make(&link).unwrap().keep().unwrap();
            assert!(std::fs::symlink_metadata(&link).unwrap().is_file());
            assert_eq!(names(folder.path()), ["link", "perf.data", "perf.data.old"]);
        }
    }

    #[test]
    fn what_a_killed_recorder_left_is_removed_and_a_running_ones_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("perf.data");
        let running = Whole::with_name(&at).unwrap();
        let its = names(folder.path());
        assert_eq!(its.len(), 1);
        // The file of a killed recorder. Nobody holds a lock on it.
        std::fs::write(folder.path().join(format!("{UNFINISHED}abc")), "PERFILE2").unwrap();
        std::fs::write(folder.path().join("other"), "").unwrap();
        std::os::unix::fs::symlink("other", folder.path().join(format!("{UNFINISHED}link"))).unwrap();
        drop(Whole::new(&at).unwrap());
        let expected = [its[0].clone(), format!("{UNFINISHED}link"), "other".to_owned()];
        let left = names(folder.path());
        assert!(left.len() == 3 && expected.iter().all(|name| left.contains(name)), "{left:?}");
        running.keep().unwrap();
        assert!(at.is_file());
    }

    #[test]
    fn only_a_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |at: &Path| Whole::new(at).err().map(|error| evenkeel_sys::Errno::from(&error));
        assert_eq!(refused(folder.path()), Some(evenkeel_sys::Errno::ISDIR));
        assert_eq!(refused(&folder.path().join("gone/perf.data")), Some(evenkeel_sys::Errno::NOENT));
        let socket = folder.path().join("socket");
        let _held = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(refused(&socket), Some(evenkeel_sys::Errno::OPNOTSUPP));
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut whole = Whole::new(&link).unwrap();
        whole.write_all(b"two").unwrap();
        whole.keep().unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        let read = |at: &Path| std::fs::read_to_string(at).unwrap();
        assert_eq!((read(&link), read(&old(&file))), ("two".to_owned(), "one".to_owned()));
    }

    #[test]
    fn a_device_is_written_into() {
        // Use a link as the path, so that a bug would replace the link and not a device of this machine.
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        let mut whole = Whole::new(&device).unwrap();
        assert!(matches!(whole.until_kept, Until::Device));
        whole.write_all(b"gone").unwrap();
        whole.keep().unwrap();
        assert!(std::fs::metadata(&device).unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_file_asks_once_each_time_that_it_appears() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("now");
        let mut pull = Pull::new(Arc::default(), Some(file.clone()));
        assert!(!pull.is_pulled());
        std::fs::write(&file, "").unwrap();
        assert_eq!([pull.is_pulled(), pull.is_pulled()], [true, false]);
        std::fs::remove_file(&file).unwrap();
        assert!(!pull.is_pulled());
        pull.flag.store(true, Ordering::Relaxed);
        assert_eq!([pull.is_pulled(), pull.is_pulled()], [true, false]);
    }
}
