//! What every question is asked of: a recording, read from its file, with the names of its functions.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use evenkeel_profile::input::{self, ReadError};
use evenkeel_profile::names::Names;
use evenkeel_profile::recording::Recording;
use evenkeel_profile::symbols::{Doubts, Settings, Symbols};
use evenkeel_profile::unwind::Unwinder;
use evenkeel_sys::{Errno, process};

use crate::exit;
use crate::failure::Failure;

/// A recording and its names.
pub(crate) struct Opened {
    /// What was recorded.
    pub(crate) recording: Recording,
    /// The functions of its frames.
    pub(crate) names: Names,
    /// What could not be named.
    pub(crate) doubts: Doubts,
}

/// What takes out of a recording what nobody asked for.
pub(crate) type Narrow<'n> = &'n mut dyn FnMut(&mut Recording);

/// Where names are kept; the same for all that one run opens. Nothing keeps none.
static KEPT_IN: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Where root's are, by the file system hierarchy standard.
const SYSTEM_CACHE: &str = "/var/cache/evenkeel/symbols";

/// What is no file is not read beyond this.
const STREAM_BYTES_MAX: u64 = 1 << 30;

/// Chooses where names are kept, before the first recording is opened; later choices are none.
pub(crate) fn keep_names_in(folder: Option<PathBuf>) {
    let _ = KEPT_IN.set(folder);
}

/// Where this user's names are kept, unless told otherwise; none where no folder goes with the user.
pub(crate) fn names_folder() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = path("XDG_CACHE_HOME").map(|folder| folder.join("evenkeel/symbols"));
    match user {
        Some(folder) => Some(folder),
        None if process::is_root() => Some(SYSTEM_CACHE.into()),
        None => path("HOME").map(|home| home.join(".cache/evenkeel/symbols")),
    }
}

/// Whether names are kept at all.
pub(crate) fn keeps_names() -> bool {
    KEPT_IN.get().is_some_and(Option::is_some)
}

fn settings() -> Settings {
    Settings { cache_folder: KEPT_IN.get().cloned().flatten(), ..Settings::default() }
}

/// All of a file, which is opened once: a pipe can't be read again.
pub(crate) struct Whole {
    /// What is in it.
    pub(crate) bytes: Vec<u8>,
    /// When it was written last.
    written: Option<SystemTime>,
}

/// All of a file; a pipe or a device may have no end, and is read up to a bound.
pub(crate) fn whole(file: &Path) -> io::Result<Whole> {
    let mut opened = File::open(file)?;
    let known = opened.metadata()?;
    let written = known.modified().ok();
    let mut bytes = Vec::new();
    if known.is_file() {
        opened.read_to_end(&mut bytes)?;
        return Ok(Whole { bytes, written });
    }
    opened.take(STREAM_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > STREAM_BYTES_MAX {
        true => Err(io::Error::from_raw_os_error(Errno::FBIG.raw())),
        false => Ok(Whole { bytes, written }),
    }
}

/// Reads a recording from its file.
pub(crate) fn open(file: &Path) -> Result<Opened, Failure> {
    open_of(file, &mut |_| {})
}

/// The same, less what `narrow` takes out of it before names are found.
pub(crate) fn open_of(file: &Path, narrow: Narrow<'_>) -> Result<Opened, Failure> {
    let whole = whole(file).map_err(|error| Failure::io(exit::WRONG_USE, tried(file), &error))?;
    opened_of(file, &whole, narrow)
}

/// The same of a file that was read already.
pub(crate) fn opened_of(file: &Path, whole: &Whole, narrow: Narrow<'_>) -> Result<Opened, Failure> {
    // The file was written last when the recording ended.
    named(&whole.bytes, Settings { recorded_until: whole.written, ..settings() }, narrow)
        .map_err(|error| Failure::text(exit::WRONG_USE, tried(file), error))
}

fn tried(file: &Path) -> String {
    format!("read the recording {}", file.display())
}

/// The same of bytes that are in memory already: they were recorded just now.
pub(crate) fn opened(bytes: &[u8], narrow: Narrow<'_>) -> Result<Opened, ReadError> {
    named(bytes, settings(), narrow)
}

fn named(bytes: &[u8], settings: Settings, narrow: Narrow<'_>) -> Result<Opened, ReadError> {
    let mut recording = input::read(bytes, &mut Unwinder::new())?;
    narrow(&mut recording);
    let mut symbols = Symbols::new(settings);
    let names = symbols.names(&recording);
    Ok(Opened { recording, names, doubts: symbols.doubts().clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_for_ever() {
        let refused = |file: &str| whole(Path::new(file)).err().map(|error| Errno::from(&error));
        assert_eq!(refused("/dev/zero"), Some(Errno::FBIG));
        assert_eq!(refused("/nonexistent"), Some(Errno::NOENT));
        assert_eq!(refused("/"), Some(Errno::ISDIR));
        assert_eq!(whole(Path::new("/dev/null")).unwrap().bytes, b"");
        assert!(!whole(Path::new("/proc/self/status")).unwrap().bytes.is_empty());
    }
}
