//! Records into memory to answer one question, so that the user needs no file.

use std::sync::atomic::Ordering;

use evenkeel_profile::live::{self, LiveError, Memory, RecordConfig, RecordSummary, Status};
use evenkeel_sys::clock;

use super::input::{self, Narrow, Opened};
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, exit_of};

/// The maximum size of a recording in memory. At this size, the recording ends.
const BYTES_MAX: usize = 512 << 20;

/// A recording in memory.
pub(crate) struct Now {
    /// The recording.
    pub(crate) opened: Opened,
    /// Counts of the recording, and data that evenkeel could not record.
    pub(crate) summary: RecordSummary,
    /// Whether the recording ended early because the memory was full.
    pub(crate) is_cut: bool,
    /// The CPU time that this process used for recording, in nanoseconds.
    pub(crate) reader_cpu_ns: u64,
}

/// Records for this many seconds, or until the user interrupts the recording.
pub(crate) fn record(config: &RecordConfig, seconds: u64) -> Result<Now, Failure> {
    record_of(config, seconds, &mut |_| {})
}

/// Like [`record`], but `narrow` first removes unneeded data, before evenkeel looks up names.
pub(crate) fn record_of(config: &RecordConfig, seconds: u64, narrow: Narrow<'_>) -> Result<Now, Failure> {
    let stop = experiment::stop_flag()?;
    let limit_ns = seconds.saturating_mul(1_000_000_000);
    let mut memory = Memory::new(BYTES_MAX);
    let before_ns = clock::process_cpu_ns();
    let mut until = |status: &Status| !stop.load(Ordering::Relaxed) && status.elapsed_ns < limit_ns;
    let mut summary = live::record(config, &mut until, &mut memory).map_err(refused)?;
    let reader_cpu_ns = clock::process_cpu_ns() - before_ns;
    let is_early = !stop.load(Ordering::Relaxed) && summary.status.elapsed_ns < limit_ns;
    let ended_with = summary.ended_with();
    let is_cut = is_early && ended_with.is_none();
    if let Some(who) = ended_with.filter(|_| is_early) {
        let elapsed_s = summary.status.elapsed_ns as f64 / 1e9;
        summary.unseen.push(format!("anything after {elapsed_s:.1} s, because {who} ended").into());
    }
    let opened = input::opened(&memory.into_bytes(), narrow);
    let opened = opened.map_err(|error| Failure::text(exit::NOT_POSSIBLE, "read the new recording", error))?;
    Ok(Now { opened, summary, is_cut, reader_cpu_ns })
}

/// The failure of a recording, with a hint for the user.
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
            Failure::new(exit::NOT_POSSIBLE, error).hint("choose a function that is entered once a tick")
        }
        LiveError::NotThere { .. } | LiveError::WrongUse { .. } => Failure::new(exit::WRONG_USE, error),
        LiveError::Refused { errno, .. } | LiveError::Write(errno) => {
            Failure::new(exit_of(*errno, exit::NOT_POSSIBLE), error)
        }
    }
}
