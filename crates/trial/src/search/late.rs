//! Screens the knobs whose switch needs a restart of the server, with the rest of the budget.
//! The first screening leaves these knobs out if its windows, each with a restart, would take more than its share of the budget.
//! A search without a set needs less time than planned, so these knobs then get the rest.

use super::Stage;
use super::answer::{Answer, Verdict};
use super::knob_outcome::KnobOutcome;
use super::runner::{Halt, SearchRunner};
use super::screen::{self, Screening, screened_in, survivors};

/// The share of the budget that may be used: nothing follows.
const SHARE: f64 = 1.0;

/// Screens as many of the knobs that need a restart as the rest of the budget allows.
/// If a knob looks effective, only another search can confirm this.
pub(super) fn screen_restarts(runner: &mut SearchRunner<'_>, answer: &mut Answer) -> Result<(), Halt> {
    let late = those_that_fit(runner);
    if late.is_empty() {
        return Ok(());
    }
    runner.stage = Stage::Screen;
    let all = answer.knobs.len();
    for knob in (0..all).filter(|knob| !late.contains(knob)) {
        runner.take_out(knob, answer.knobs[knob].outcome.clone());
    }
    for knob in &late {
        runner.take_back(*knob);
        answer.knobs[*knob].outcome = KnobOutcome::Unclear;
    }
    runner.forget_pace();
    let mut screening = Screening::of(late)?;
    let fit = screen::draws(runner, answer, &mut screening, |_, _, _, _| SHARE)?;
    let helping = survivors(runner, answer, &fit, &screening.seen, all);
    if !helping.members.is_empty() && answer.verdict != Verdict::Better {
        answer.is_open();
    }
    Ok(())
}

/// The knobs that were left out because of their restarts, as many as fit, the most promising first.
fn those_that_fit(runner: &SearchRunner<'_>) -> Vec<usize> {
    let is_left_out = |knob: &usize| matches!(runner.outcome(*knob), Some(KnobOutcome::NotTried { .. }));
    let mut left_out: Vec<usize> = runner.design.restarts.iter().copied().filter(is_left_out).collect();
    let fits = |knobs: usize| screened_in(knobs).is_ok_and(|windows| runner.has_room_with_restarts(windows));
    while !left_out.is_empty() && !fits(left_out.len()) {
        left_out.pop();
    }
    left_out
}
