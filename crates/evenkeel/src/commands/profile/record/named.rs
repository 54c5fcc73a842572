//! Looks up function names at the end of a recording, and caches them.
//! Later, somebody may have replaced the programs, and the maps of code generated at run time may be gone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use evenkeel_profile::symbols::{NameCoverage, Share};
use serde::Serialize;

use super::super::input;
use super::waiting::Waiting;
use crate::show::Out;
use crate::show::units::percent;

/// The maximum size of a recording for this search. Reading a recording takes about ten times its size in memory.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The maximum duration of the search, in seconds.
const SECONDS: u64 = 10;
/// How often to update the progress display.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The number of frames for which evenkeel found a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct StoredNames {
    /// The number of frames of user code, and how many of them have a name.
    user: Share,
    /// The number of frames of the kernel, and how many of them have a name.
    kernel: Share,
    /// Why the search was incomplete; `None` if it was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<String>,
}

impl StoredNames {
    /// The text on the page.
    pub(super) fn words(&self) -> String {
        let share = |share: Share| share.of_named().map(percent);
        let of = |name: &str, part: Share| Some(format!("{} of {name} frames", share(part)?));
        let parts: Vec<String> = [of("user", self.user), of("kernel", self.kernel)].into_iter().flatten().collect();
        let missed = self.missed.as_ref().map(|missed| format!("the search was incomplete: {missed}"));
        let known = if parts.is_empty() { None } else { Some(format!("found for {}", parts.join(", "))) };
        known.into_iter().chain(missed).collect::<Vec<_>>().join("; ")
    }
}

/// Caches the function names of these recordings. Returns `None` with --no-cache.
/// A failure only adds a note, because `profile view` looks for names again.
pub(super) fn store(files: &[PathBuf], out: &Out, stop: &AtomicBool) -> Option<StoredNames> {
    if !input::keeps_names() {
        return None;
    }
    let waiting = Waiting::new(out, "looking up function names");
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut found = StoredNames::default();
    for file in files {
        match of_file(file, until, stop, &waiting) {
            Ok(coverage) => {
                add(&mut found.user, coverage.user);
                add(&mut found.kernel, coverage.kernel);
            }
            Err(why) => found.missed = found.missed.or(Some(why)),
        }
    }
    Some(found)
}

fn add(to: &mut Share, of: Share) {
    to.frames = to.frames.saturating_add(of.frames);
    to.named = to.named.saturating_add(of.named);
}

fn of_file(file: &Path, until: Instant, stop: &AtomicBool, waiting: &Waiting) -> Result<NameCoverage, String> {
    let length = std::fs::metadata(file).map_or(0, |known| known.len());
    if length > FILE_BYTES_MAX {
        return Err(format!("{} is longer than {} MiB", file.display(), FILE_BYTES_MAX >> 20));
    }
    let (say, hear) = mpsc::channel();
    let path = file.to_owned();
    // If the search takes too long, for example on a network file system, evenkeel abandons it.
    let spawned = std::thread::Builder::new().name("names".to_owned()).spawn(move || {
        // The receiver may have stopped waiting.
        let _ = say.send(input::open(&path).map(|opened| opened.coverage));
    });
    spawned.map_err(|error| error.to_string())?;
    loop {
        match hear.recv_timeout(LOOK_EVERY) {
            Ok(found) => return found.map_err(|failure| failure.error.to_string()),
            Err(RecvTimeoutError::Disconnected) => return Err("the search failed".to_owned()),
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Err("interrupted".to_owned()),
            Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                return Err(format!("it took longer than {SECONDS} s"));
            }
            Err(RecvTimeoutError::Timeout) => waiting.tick(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_and_missing_names_are_reported() {
        let share = |frames, named| Share { frames, named };
        let table = [
            (share(1000, 991), share(10, 10), None, "found for 99.1 % of user frames, 100.0 % of kernel frames"),
            (share(4, 1), share(0, 0), None, "found for 25.0 % of user frames"),
            (share(0, 0), share(0, 0), Some("interrupted"), "the search was incomplete: interrupted"),
            (
                share(2, 2),
                share(0, 0),
                Some("interrupted"),
                "found for 100.0 % of user frames; the search was incomplete: interrupted",
            ),
            (share(0, 0), share(0, 0), None, ""),
        ];
        for (user, kernel, missed, expected) in table {
            let names = StoredNames { user, kernel, missed: missed.map(str::to_owned) };
            assert_eq!(names.words(), expected);
        }
    }
}
