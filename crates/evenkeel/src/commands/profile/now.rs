//! Records into memory for one question, so that users need no file.

use std::sync::atomic::Ordering;

use evenkeel_profile::live::{self, LiveError, Memory, RecordConfig, RecordSummary, Status};
use evenkeel_sys::clock;

use super::input::{self, Narrow, Opened};
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, exit_of};

/// The recording ends when this is full.
const BYTES_MAX: usize = 512 << 20;

/// A recording in memory.
pub(crate) struct Now {
    /// The recording.
    pub(crate) opened: Opened,
    /// Counts, and what could not be recorded.
    pub(crate) summary: RecordSummary,
    /// Whether the memory was full before the time was over.
    pub(crate) is_cut: bool,
    /// CPU time that recording took in this process.
    pub(crate) reader_cpu_ns: u64,
}

/// Records for that time, or until interrupted.
pub(crate) fn record(config: &RecordConfig, seconds: u64) -> Result<Now, Failure> {
    record_of(config, seconds, &mut |_| {})
}

/// Records as configured, after `narrow` removed what is not needed.
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

/// The failure, with a hint that helps.
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
