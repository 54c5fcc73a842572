//! Names at the end of a recording: its programs run still, or have only just ended. Their files, and the maps that compilers at run time
//! write, may be gone when somebody looks; what is found now is kept.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use evenkeel_profile::symbols::{Doubts, Share};
use serde::Serialize;

use super::super::input;
use super::waiting::Waiting;
use crate::show::Out;
use crate::show::units::percent;

/// A longer file is not looked at: reading it takes some ten times its length of memory.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// So long it may take.
const SECONDS: u64 = 10;
/// So often it is told how it goes.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Kept {
    /// Frames of the user's code, and those of them that have a name.
    user: Share,
    /// The same of the kernel's.
    kernel: Share,
    /// Why not all was looked at; none if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<String>,
}

impl Kept {
    /// What is to be told beside the recording.
    pub(super) fn words(&self) -> String {
        let share = |share: Share| share.of_named().map(percent);
        let of = |name: &str, part: Share| Some(format!("{} of {name} frames", share(part)?));
        let parts: Vec<String> =
            [of("user", self.user), of("the kernel's", self.kernel)].into_iter().flatten().collect();
        let missed = self.missed.as_ref().map(|missed| format!("not all were sought: {missed}"));
        let known = if parts.is_empty() { None } else { Some(format!("kept for {}", parts.join(", "))) };
        known.into_iter().chain(missed).collect::<Vec<_>>().join("; ")
    }
}

/// Finds the names of these recordings and keeps them; none where nothing is to be kept. It never fails: who looks at the recording later
/// looks for names again.
pub(super) fn keep(files: &[PathBuf], out: &Out, stop: &AtomicBool) -> Option<Kept> {
    if !input::keeps_names() {
        return None;
    }
    let waiting = Waiting::new(out, "finding names while the programs are there");
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut kept = Kept::default();
    for file in files {
        match of_file(file, until, stop, &waiting) {
            Ok(doubts) => {
                add(&mut kept.user, doubts.user);
                add(&mut kept.kernel, doubts.kernel);
            }
            Err(why) => kept.missed = kept.missed.or(Some(why)),
        }
    }
    Some(kept)
}

fn add(to: &mut Share, of: Share) {
    to.frames = to.frames.saturating_add(of.frames);
    to.named = to.named.saturating_add(of.named);
}

fn of_file(file: &Path, until: Instant, stop: &AtomicBool, waiting: &Waiting) -> Result<Doubts, String> {
    let length = std::fs::metadata(file).map_or(0, |known| known.len());
    if length > FILE_BYTES_MAX {
        return Err(format!("{} is longer than {} MiB", file.display(), FILE_BYTES_MAX >> 20));
    }
    let (say, hear) = mpsc::channel();
    let path = file.to_owned();
    // One that takes too long, as on a disk of a network, ends with the program.
    let spawned = std::thread::Builder::new().name("names".to_owned()).spawn(move || {
        // Who waited may have gone on without it.
        let _ = say.send(input::open(&path).map(|opened| opened.doubts));
    });
    spawned.map_err(|error| error.to_string())?;
    loop {
        match hear.recv_timeout(LOOK_EVERY) {
            Ok(found) => return found.map_err(|failure| failure.error.to_string()),
            Err(RecvTimeoutError::Disconnected) => return Err("it ended early".to_owned()),
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
    fn what_was_found_and_what_was_missed_is_said() {
        let share = |frames, named| Share { frames, named };
        let table = [
            (share(1000, 991), share(10, 10), None, "kept for 99.1 % of user frames, 100.0 % of the kernel's frames"),
            (share(4, 1), share(0, 0), None, "kept for 25.0 % of user frames"),
            (share(0, 0), share(0, 0), Some("interrupted"), "not all were sought: interrupted"),
            (
                share(2, 2),
                share(0, 0),
                Some("interrupted"),
                "kept for 100.0 % of user frames; not all were sought: interrupted",
            ),
            (share(0, 0), share(0, 0), None, ""),
        ];
        for (user, kernel, missed, expected) in table {
            let kept = Kept { user, kernel, missed: missed.map(str::to_owned) };
            assert_eq!(kept.words(), expected);
        }
    }
}
