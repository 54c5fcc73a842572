//! A spinner for a terminal.

use indicatif::ProgressBar;

use crate::progress::Telling;
use crate::show::Out;

/// A progress spinner. It is hidden if standard error is not a terminal.
pub(super) struct Waiting(ProgressBar);

impl Waiting {
    pub(super) fn new(out: &Out, words: &'static str) -> Waiting {
        let is_drawn = out.telling() == Telling::Drawn;
        let bar = if is_drawn { ProgressBar::new_spinner().with_message(words) } else { ProgressBar::hidden() };
        Waiting(bar)
    }

    pub(super) fn tick(&self) {
        self.0.tick();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
