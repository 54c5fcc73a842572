//! A recording that is made for one question and kept in memory, so that nobody has to know of files first.

use std::sync::atomic::Ordering;

use evenkeel_profile::live::{self, LiveError, Memory, Status, Told, Wishes};
use evenkeel_sys::clock;

use super::input::{self, Narrow, Opened};
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, exit_of};

/// The most that is kept of records; the recording ends when it is full.
const BYTES_MAX: usize = 512 << 20;

/// What was recorded just now.
pub(crate) struct Now {
    /// The recording.
    pub(crate) opened: Opened,
    /// What became of it.
    pub(crate) told: Told,
    /// Whether there was no more room for all that was asked.
    pub(crate) is_cut: bool,
    /// CPU time that recording took of ourselves.
    pub(crate) reader_cpu_ns: u64,
}

/// Records for so long, or until it is interrupted.
pub(crate) fn record(wishes: &Wishes, seconds: u64) -> Result<Now, Failure> {
    record_of(wishes, seconds, &mut |_| {})
}

/// The same, less what `narrow` takes out of it before names are found.
pub(crate) fn record_of(wishes: &Wishes, seconds: u64, narrow: Narrow<'_>) -> Result<Now, Failure> {
    let stop = experiment::stop_flag()?;
    let limit_ns = seconds.saturating_mul(1_000_000_000);
    let mut memory = Memory::new(BYTES_MAX);
    let before_ns = clock::process_cpu_ns();
    let mut until = |status: &Status| !stop.load(Ordering::Relaxed) && status.elapsed_ns < limit_ns;
    let mut told = live::record(wishes, &mut until, &mut memory).map_err(refused)?;
    let reader_cpu_ns = clock::process_cpu_ns() - before_ns;
    let is_early = !stop.load(Ordering::Relaxed) && told.status.elapsed_ns < limit_ns;
    let ended_with = told.ended_with();
    let is_cut = is_early && ended_with.is_none();
    if let Some(who) = ended_with.filter(|_| is_early) {
        let elapsed_s = told.status.elapsed_ns as f64 / 1e9;
        told.unseen.push(format!("anything after {elapsed_s:.1} s: {who} had ended").into());
    }
    let opened = input::opened(&memory.into_bytes(), narrow);
    let opened = opened.map_err(|error| Failure::text(exit::NOT_POSSIBLE, "read what was recorded", error))?;
    Ok(Now { opened, told, is_cut, reader_cpu_ns })
}

/// What could not be recorded, with the command that mends it.
pub(crate) fn refused(error: LiveError) -> Failure {
    match &error {
        LiveError::Denied { mend, .. } => {
            let hint = mend.clone();
            Failure::new(exit::NOT_ALLOWED, error).hint(hint)
        }
        LiveError::NoProbe { errno, mend, .. } => {
            let (code, hint) = (exit_of(*errno, exit::NOT_POSSIBLE), mend.clone());
            Failure::new(code, error).hint(hint)
        }
        LiveError::TooOften { .. } => {
            Failure::new(exit::NOT_POSSIBLE, error).hint("name a function that is entered once a tick")
        }
        LiveError::NotThere { .. } | LiveError::WrongUse { .. } => Failure::new(exit::WRONG_USE, error),
        LiveError::Refused { errno, .. } | LiveError::Write(errno) => {
            Failure::new(exit_of(*errno, exit::NOT_POSSIBLE), error)
        }
    }
}
