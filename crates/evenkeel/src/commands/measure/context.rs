//! `Context`: what every meter's command needs: a flag that a signal sets, progress on the terminal, and the way an answer goes out.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evenkeel_measure::{MeterError, Watch};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome, exit_of};
use crate::report;
use crate::show::Out;
use crate::show::blocks::{self, Block};

/// A thousand steps are finer than any terminal's bar.
const STEPS: u64 = 1000;

/// A meter's surroundings.
pub(crate) struct Context<'a> {
    out: &'a Out,
    report: Option<&'a Path>,
    stop: Arc<AtomicBool>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(out: &'a Out, report: Option<&'a Path>, host: Option<&Path>) -> Result<Context<'a>, Failure> {
        if let Some(host) = host {
            let why = "time does not pass in a captured machine; run it on the machine itself";
            return Err(Failure::text(exit::NOT_POSSIBLE, format!("measure {}", host.display()), why));
        }
        Ok(Context { out, report, stop: experiment::stop_flag()? })
    }

    /// Runs what measures, with its progress on the terminal where somebody looks.
    pub(crate) fn measure<T>(&self, run: impl FnOnce(&Watch<'_>) -> Result<T, MeterError>) -> Result<T, Failure> {
        let bar = if self.out.shows_progress() { ProgressBar::new(STEPS) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        let tell = |share: f64, doing: &str| {
            bar.set_position((share * STEPS as f64) as u64);
            bar.set_message(doing.to_owned());
        };
        let measured = run(&Watch::new(&self.stop, &tell));
        bar.finish_and_clear();
        measured.map_err(failure)
    }

    /// Gives the answer: JSON or the page, and the HTML page where it is asked for.
    pub(crate) fn answer<T: Serialize>(&self, title: &str, answer: &T, page: impl Fn(&T) -> Vec<Block>) -> Outcome {
        if let Some(file) = self.report {
            report::blocks::write(file, title, &page(answer))?;
        }
        self.out.answer(answer, || blocks::text(&page(answer)))?;
        Ok(exit::WELL)
    }
}

/// What a meter could not do, with the exit code that says so.
pub(crate) fn failure(error: MeterError) -> Failure {
    match &error {
        MeterError::Refused { errno, .. } if errno.is_denial() => {
            Failure::new(exit_of(*errno, exit::NOT_POSSIBLE), error).hint("run it as root (sudo)")
        }
        MeterError::Refused { .. } | MeterError::NotPossible { .. } => Failure::new(exit::NOT_POSSIBLE, error),
        MeterError::WrongUse { .. } => Failure::new(exit::WRONG_USE, error),
        MeterError::NotUndone { .. } => Failure::new(exit::NOT_UNDONE, error),
    }
}
