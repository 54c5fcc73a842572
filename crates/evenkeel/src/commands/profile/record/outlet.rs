//! Where recordings are written: a file that is there whole or not at all, and the windows, one file each.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_profile::live::Outlet;
use tempfile::NamedTempFile;

use crate::show::Out;

/// More windows than this are not written: what asks for them over and over would fill the disk.
const DUMPS_MAX: usize = 100;

/// A file that appears under its name when it is kept.
pub(super) struct Whole {
    file: NamedTempFile,
    at: PathBuf,
}

impl Whole {
    pub(super) fn new(at: &Path) -> io::Result<Whole> {
        let folder = at.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Whole { file: NamedTempFile::new_in(folder)?, at: at.to_owned() })
    }

    pub(super) fn writer(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::with_capacity(1 << 18, self.file.as_file().try_clone()?))
    }

    /// One of this name that is there already gets another.
    pub(super) fn keep(self) -> io::Result<()> {
        if self.at.is_file() {
            std::fs::rename(&self.at, old(&self.at))?;
        }
        self.file.persist(&self.at).map(|_| ()).map_err(|error| error.error)
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

/// What asks for a window.
pub(super) struct Pull {
    flag: Arc<AtomicBool>,
    file: Option<PathBuf>,
    was_there: bool,
}

impl Pull {
    /// The flag, and a file that is not there yet.
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

/// The windows.
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

    /// Those that were asked for.
    pub(super) fn written(&self) -> &[PathBuf] {
        &self.written
    }
}

/// `tick-2.data` for the second of `tick.data`.
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
            self.out.aside(&format!("the window is in {}\n", at.display()));
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

    #[test]
    fn a_file_is_whole_and_what_was_there_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("perf.data");
        for text in ["one", "two"] {
            let mut file = Whole::new(&at).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert_ne!(std::fs::read_to_string(&at).unwrap_or_default(), text, "it is not there before it is kept");
            file.keep().unwrap();
        }
        let read = |at: &Path| std::fs::read_to_string(at).unwrap();
        assert_eq!((read(&at), read(&old(&at))), ("two".to_owned(), "one".to_owned()));
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
