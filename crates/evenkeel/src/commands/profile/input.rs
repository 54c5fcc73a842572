//! Reads a recording and finds the names of its functions.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use evenkeel_hostfs::user_file::{UserFile, UserFileError};
use evenkeel_profile::input::{self, ReadError};
use evenkeel_profile::names::Names;
use evenkeel_profile::recording::Recording;
use evenkeel_profile::symbols::{NameCoverage, Settings, Symbols};
use evenkeel_profile::unwind::Unwinder;
use evenkeel_sys::process;

use crate::exit;
use crate::failure::Failure;
use crate::show::Out;

/// A recording, and the names of its functions.
pub(crate) struct Opened {
    /// The recording.
    pub(crate) recording: Recording,
    /// The names of the functions in the recording's frames.
    pub(crate) names: Names,
    /// How much of the recorded code has function names.
    pub(crate) coverage: NameCoverage,
    /// The time at which the recording ended. `None` if evenkeel recorded just now.
    recorded_until: Option<SystemTime>,
}

impl Opened {
    /// The host, date and command of the recording, for the head of a graph.
    pub(crate) fn origin(&self) -> String {
        let machine = &self.recording.machine;
        let host = machine.host.as_ref().map(|host| format!("host {host}"));
        let at = jiff::Timestamp::try_from(self.recorded_until.unwrap_or_else(SystemTime::now)).ok();
        let date = at.map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string());
        let command = Some(machine.command.join(" ")).filter(|command| !command.is_empty());
        [host, date, command].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    /// Prints the recording's caveats to standard error. For example, the end of the recording may be missing.
    pub(crate) fn warn(&self, file: &Path, out: &Out) {
        for caveat in &self.recording.caveats {
            out.warn(&format!("evenkeel: {}: {caveat}\n", file.display()));
        }
    }
}

/// Removes unneeded data from a recording, before evenkeel looks up names.
pub(crate) type Narrow<'n> = &'n mut dyn FnMut(&mut Recording);

/// The folder of the name cache. It is the same for all recordings of one run. With `None`, nothing is cached.
static KEPT_IN: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Root's cache folder. The Filesystem Hierarchy Standard reserves `/var/cache` for caches.
const SYSTEM_CACHE: &str = "/var/cache/evenkeel/symbols";

/// The maximum size of a recording. evenkeel refuses larger recordings, because it holds the whole file in memory.
const FILE_BYTES_MAX: u64 = 8 << 30;
/// The maximum number of bytes to read from a pipe.
const STREAM_BYTES_MAX: u64 = 1 << 30;
/// How many bytes of a file to read to recognize its format.
const HEAD_BYTES: usize = 64 << 10;

/// Chooses the cache folder. Only the first call has an effect.
pub(crate) fn keep_names_in(folder: Option<PathBuf>) {
    let _ = KEPT_IN.set(folder);
}

/// This user's default cache folder; `None` if the user has no home folder.
pub(crate) fn names_folder() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = path("XDG_CACHE_HOME").map(|folder| folder.join("evenkeel/symbols"));
    match user {
        Some(folder) => Some(folder),
        None if process::is_root() => Some(SYSTEM_CACHE.into()),
        None => path("HOME").map(|home| home.join(".cache/evenkeel/symbols")),
    }
}

/// Whether names are cached.
pub(crate) fn keeps_names() -> bool {
    KEPT_IN.get().is_some_and(Option::is_some)
}

fn settings() -> Settings {
    Settings { cache_folder: KEPT_IN.get().cloned().flatten(), ..Settings::default() }
}

const RECORD_ONE: &str = "`evenkeel profile record` makes a recording";
const FORMATS: &str = "a recording is a perf.data file, the output of `perf script`, or folded stacks";

/// The contents of a file. evenkeel opens a file only once, because it can't read a pipe again.
pub(crate) struct Whole {
    /// The contents.
    pub(crate) bytes: Vec<u8>,
    /// The time of the file's last change; `None` if it is unknown.
    written: Option<SystemTime>,
}

/// Reads a whole file. `check_head` refuses a wrong format before the whole file is in memory.
pub(crate) fn whole<E: Display>(
    file: &Path,
    tried: &str,
    check_head: impl FnOnce(&[u8]) -> Result<(), E>,
) -> Result<Whole, Failure> {
    let refused = |error: UserFileError| Failure::user_file(tried, &error).or_hint(RECORD_ONE);
    let mut opened = UserFile::open(file, FILE_BYTES_MAX).map_err(refused)?.limit_stream(STREAM_BYTES_MAX);
    check_head(opened.head(HEAD_BYTES).map_err(refused)?)
        .map_err(|error| Failure::text(exit::WRONG_USE, tried, error).hint(FORMATS))?;
    let written = opened.modified();
    Ok(Whole { bytes: opened.into_bytes().map_err(refused)?, written })
}

/// Reads a recording from its file.
pub(crate) fn open(file: &Path) -> Result<Opened, Failure> {
    open_of(file, &mut |_| {})
}

/// Like [`open`], but `narrow` first removes unneeded data, before evenkeel looks up names.
pub(crate) fn open_of(file: &Path, narrow: Narrow<'_>) -> Result<Opened, Failure> {
    let whole = whole(file, &tried(file), input::check_head)?;
    opened_of(file, &whole, narrow)
}

/// Like [`open_of`], for a file that is already in memory.
pub(crate) fn opened_of(file: &Path, whole: &Whole, narrow: Narrow<'_>) -> Result<Opened, Failure> {
    // The last change of the file was at the end of the recording.
    named(&whole.bytes, Settings { recorded_until: whole.written, ..settings() }, narrow)
        .map_err(|error| Failure::text(exit::WRONG_USE, tried(file), error).hint(FORMATS))
}

/// The text of the action for error messages, such as `read the recording FILE`.
pub(crate) fn tried(file: &Path) -> String {
    format!("read the recording {}", file.display())
}

/// Like [`opened_of`], for a recording that evenkeel has just made in memory.
pub(crate) fn opened(bytes: &[u8], narrow: Narrow<'_>) -> Result<Opened, ReadError> {
    named(bytes, settings(), narrow)
}

fn named(bytes: &[u8], settings: Settings, narrow: Narrow<'_>) -> Result<Opened, ReadError> {
    let mut recording = input::read(bytes, &mut Unwinder::looking(settings.lookup()))?;
    narrow(&mut recording);
    let recorded_until = settings.recorded_until;
    let mut symbols = Symbols::new(settings);
    let names = symbols.names(&recording);
    Ok(Opened { recording, names, coverage: symbols.coverage().clone(), recorded_until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_refused_by_their_first_bytes() {
        let refused = |file: &str| whole(Path::new(file), "read", input::check_head).err().map(|error| error.message());
        let table = [
            ("/dev/zero", "failed to read: it is neither a perf.data file nor the output of perf script"),
            ("/nonexistent", "failed to read: no such file or directory (ENOENT)"),
            ("/", "failed to read: is a directory (EISDIR)"),
            ("/dev/null", "failed to read: it is empty"),
        ];
        for (file, message) in table {
            assert_eq!(refused(file).as_deref(), Some(message), "{file}");
        }
        assert_eq!(refused("/proc/self/status"), None, "its length is said to be zero");
    }
}
