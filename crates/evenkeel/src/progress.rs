//! Shows the progress and the results of a trial on standard error. On a terminal, evenkeel redraws the text in place.
//! In a log, it prints one line every 15 seconds.

use std::io::Write;
use std::time::Duration;

use evenkeel_trial::{ArmSoFar, Design, Stretch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::choice;
use crate::show::escape;
use crate::show::live::{Live, LiveArm};
use crate::show::page;

/// The time between two lines in a log, on the trial's own clock.
const LINE_EVERY: Duration = Duration::from_secs(15);
/// The maximum number of redraws per second. More redraws could fill a slow connection.
const PICTURES_HZ: u8 = 4;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Redrawn in place.
    Drawn,
    /// One line from time to time.
    Lines,
    /// No progress is shown.
    Nothing,
}

/// Shows the progress of one trial.
pub(crate) struct Progress {
    telling: Telling,
    title: String,
    matters_ratio: f64,
    may_end_sooner: bool,
    drawn: ProgressBar,
    /// The time in the trial of the last line; `None` before the first line.
    last_line: Option<Duration>,
}

impl Progress {
    /// Starts to show the progress of a trial with this title.
    pub(crate) fn new(telling: Telling, design: &Design, title: &str) -> Progress {
        let drawn = match telling {
            Telling::Drawn => picture(),
            Telling::Lines | Telling::Nothing => ProgressBar::hidden(),
        };
        Progress {
            telling,
            title: title.to_owned(),
            matters_ratio: design.smallest_effect_ratio,
            may_end_sooner: design.stop.is_sequential(),
            drawn,
            last_line: None,
        }
    }

    /// Shows the present progress.
    pub(crate) fn show(&mut self, now: &evenkeel_trial::Progress) {
        let arm = |arm: &ArmSoFar| {
            let effect = arm.effect.as_ref();
            LiveArm {
                name: arm.arm.to_string(),
                ratio: effect.map(|effect| effect.ratio),
                interval: effect.and_then(|effect| effect.low.zip(effect.high)),
                // Each of several arms gets a part of the allowed error, so each arm needs a higher e-value.
                evidence: effect.and_then(|effect| Some((effect.e_value?, 1.0 / (1.0 - effect.confidence)))),
                verdict: arm.verdict,
                left: arm.left.as_ref().map(choice::left),
            }
        };
        let stage = match now.stretch {
            Stretch::Settling => Some("finding the settle time"),
            Stretch::Control => Some("A/A phase"),
            Stretch::Trial => None,
        };
        let live = Live {
            title: &self.title,
            stage,
            pairs: now.pairs,
            of: now.of,
            dropped: now.dropped,
            left: now.left,
            may_end_sooner: self.may_end_sooner,
            arms: now.arms.iter().map(arm).collect(),
            matters_ratio: self.matters_ratio,
        };
        match self.telling {
            Telling::Drawn => self.drawn.set_message(live.lines(page::width()).join("\n")),
            Telling::Lines if self.last_line.is_none_or(|last| now.elapsed.saturating_sub(last) >= LINE_EVERY) => {
                self.last_line = Some(now.elapsed);
                // The trial continues even if the reader has closed the pipe.
                let _ = writeln!(std::io::stderr(), "{}", live.line());
            }
            Telling::Lines | Telling::Nothing => {}
        }
    }

    /// Prints a line above the progress. Also prints the line if no progress is shown.
    pub(crate) fn print(&self, words: &str) {
        self.drawn.suspend(|| {
            // Ignore a failed write: the reader may be gone, and the report contains everything important.
            let _ = writeln!(std::io::stderr(), "{}", escape::page(words));
        });
    }

    /// Prints a line above the progress, if progress is shown.
    pub(crate) fn note(&self, words: &str) {
        if self.telling != Telling::Nothing {
            self.print(words);
        }
    }

    /// Erases the progress line before the answer.
    pub(crate) fn end(self) {
        self.drawn.finish_and_clear();
    }
}

fn picture() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(PICTURES_HZ));
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}
