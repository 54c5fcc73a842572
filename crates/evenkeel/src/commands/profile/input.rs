//! What every question is asked of: a recording, read from its file, with the names of its functions.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use evenkeel_profile::input::{self, ReadError};
use evenkeel_profile::names::Names;
use evenkeel_profile::recording::Recording;
use evenkeel_profile::symbols::{Doubts, Settings, Symbols};
use evenkeel_profile::unwind::Unwinder;
use evenkeel_sys::process;

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

/// Where names are kept; the same for all that one run opens. Nothing keeps none.
static KEPT_IN: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Where root's are, by the file system hierarchy standard.
const SYSTEM_CACHE: &str = "/var/cache/evenkeel/symbols";

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

fn settings() -> Settings {
    Settings { cache_folder: KEPT_IN.get().cloned().flatten(), ..Settings::default() }
}

/// Reads a recording from its file.
pub(crate) fn open(file: &Path) -> Result<Opened, Failure> {
    let tried = || format!("read the recording {}", file.display());
    let bytes = std::fs::read(file).map_err(|error| Failure::io(exit::WRONG_USE, tried(), &error))?;
    // The file was written last when the recording ended.
    let recorded_until = std::fs::metadata(file).and_then(|known| known.modified()).ok();
    named(&bytes, Settings { recorded_until, ..settings() })
        .map_err(|error| Failure::text(exit::WRONG_USE, tried(), error))
}

/// The same of bytes that are in memory already: they were recorded just now.
pub(crate) fn opened(bytes: &[u8]) -> Result<Opened, ReadError> {
    named(bytes, settings())
}

fn named(bytes: &[u8], settings: Settings) -> Result<Opened, ReadError> {
    let recording = input::read(bytes, &mut Unwinder::new())?;
    let mut symbols = Symbols::new(settings);
    let names = symbols.names(&recording);
    Ok(Opened { recording, names, doubts: symbols.doubts().clone() })
}
