//! What every question is asked of: a recording, read from its file, with the names of its functions.

use std::path::Path;

use evenkeel_profile::input::{self, ReadError};
use evenkeel_profile::names::Names;
use evenkeel_profile::recording::Recording;
use evenkeel_profile::symbols::{Doubts, Settings, Symbols};
use evenkeel_profile::unwind::Unwinder;

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

/// Reads a recording from its file.
pub(crate) fn open(file: &Path) -> Result<Opened, Failure> {
    let tried = || format!("read the recording {}", file.display());
    let bytes = std::fs::read(file).map_err(|error| Failure::io(exit::WRONG_USE, tried(), &error))?;
    // The file was written last when the recording ended.
    let recorded_until = std::fs::metadata(file).and_then(|known| known.modified()).ok();
    let settings = Settings { recorded_until, ..Settings::default() };
    named(&bytes, settings).map_err(|error| Failure::text(exit::WRONG_USE, tried(), error))
}

/// The same of bytes that are in memory already: they were recorded just now.
pub(crate) fn opened(bytes: &[u8]) -> Result<Opened, ReadError> {
    named(bytes, Settings::default())
}

fn named(bytes: &[u8], settings: Settings) -> Result<Opened, ReadError> {
    let recording = input::read(bytes, &mut Unwinder::new())?;
    let mut symbols = Symbols::new(settings);
    let names = symbols.names(&recording);
    Ok(Opened { recording, names, doubts: symbols.doubts().clone() })
}
