//! The search for the smallest set of knobs that helps one server on one machine.
//!
//! | stage | question | method |
//! |---|---|---|
//! | [`Stage::Whole`] | for a guide: do all its knobs together move the metric? | all knobs against the unchanged machine |
//! | [`Stage::Screen`] | which of all the knobs move the metric? | every window has half of them on: [`evenkeel_stats::designs`] |
//! | [`Stage::Ladder`] | is half or double of the value even better? | a few values in the same block, step by step |
//! | [`Stage::Pairs`] | do the knobs that moved it help or hinder each other? | every combination of them |
//! | [`Stage::Trim`] | which of them can be left out? | the set against the set without each, until it is decided |
//! | [`Stage::Confirm`] | do the remaining knobs help at all? | separate pairs against the unchanged machine |
//!
//! The first three stages choose and prove nothing, because the best of many candidates is best partly by chance.
//! Only the last two stages decide. They use separate windows, and a test that is valid after every pair.
//! A search that can't confirm its set reports that nothing helped.
//!
//! A search is an ordinary function that requests one window after another from a [`Subject`], and decides only by these windows.
//! So the list of its windows is its whole state. [`Log`] stores the windows on disk line by line.
//! After a kill, [`search`] replays the windows and continues from the same place.

mod along;
mod answer;
mod candidates;
mod caveat;
mod close;
mod confirm;
mod design;
mod engaged;
mod goal;
mod guard;
mod knob_outcome;
mod ladder;
mod late;
mod left_out;
mod live;
mod log;
mod more;
mod pairs;
mod rows;
mod runner;
mod screen;
mod set;
mod settling;
pub mod simulated;
mod tools;
mod trim;
mod window_result;

pub use answer::{
    Answer, Chosen, Ended as SearchEnded, GuardAnswer, Interaction, KnobAnswer, Measure, MoreTime, TriedValue, Verdict,
    Whole, WholeVerdict,
};
pub use candidates::{Offer, Wanted, offer, rungs, switchable};
pub use caveat::SearchCaveat;
pub use design::{Budget, CANDIDATES_MAX, Candidate, SearchDesign};
pub use goal::{Evidence, GOAL_FORMAT, GoalError, GoalFile, HostWords, WorkloadSpec};
pub use knob_outcome::KnobOutcome;
pub use left_out::{LeftOut, LeftOutReason, NotNeeded};
pub use live::Live;
pub use log::{Entry, Header, Log};
pub use screen::windows_to_screen;
pub use settling::{ClassSettle, Settling, longest as longest_settle, restarts};
pub use tools::{SearchProgress, Stage, Subject, Tools};
pub use window_result::WindowResult;

use crate::arm::Arm;
use crate::error::TrialError;
use runner::{Halt, SearchRunner};

/// Runs a search.
/// Windows that are already in the log are not measured again, so a killed search continues from its last window.
/// If the search ends early, the answer has the results so far.
///
/// # Errors
/// Fails only if the design is invalid.
pub fn search<'a>(design: &'a SearchDesign, tools: Tools<'a>) -> Result<Answer, TrialError> {
    design.check()?;
    let mut runner = SearchRunner::new(design, tools);
    let mut answer = Answer::new(design);
    let ended = stages(&mut runner, &mut answer);
    answer.close(&runner, ended);
    Ok(answer)
}

/// Whether the search of this log has ended, with a result or a permanent failure. Then no further window is needed.
pub fn is_over(design: &SearchDesign, log: &mut Log) -> bool {
    struct Nobody {
        was_asked: bool,
    }
    impl Subject for Nobody {
        fn window(&mut self, _: &Arm) -> Result<WindowResult, TrialError> {
            self.was_asked = true;
            Err(TrialError::Change("nothing is measured".to_owned()))
        }
    }
    let (mut nobody, windows) = (Nobody { was_asked: false }, log.entries().len());
    let tools = Tools { subject: &mut nobody, log, stop: &|| false, on_progress: &mut |_| {} };
    let is_complete = search(design, tools).is_ok_and(|answer| match answer.ended {
        // The search failed before it had replayed all windows of the log, so the log may still be useful.
        SearchEnded::Failed { .. } => answer.windows.values().sum::<usize>() == windows,
        _ => true,
    });
    is_complete && !nobody.was_asked
}

fn stages(runner: &mut SearchRunner<'_>, answer: &mut Answer) -> Result<(), Halt> {
    screen::baseline(runner, answer)?;
    if !confirm::whole(runner, answer)? {
        return Ok(());
    }
    find_set(runner, answer)?;
    late::screen_restarts(runner, answer)
}

/// Finds the set and confirms it.
fn find_set(runner: &mut SearchRunner<'_>, answer: &mut Answer) -> Result<(), Halt> {
    let (mut set, screening) = screen::screen(runner, answer)?;
    if set.members.is_empty() {
        return Ok(());
    }
    ladder::climb(runner, answer, &mut set)?;
    pairs::choose(runner, answer, &mut set)?;
    trim::trim(runner, answer, &mut set)?;
    if set.members.is_empty() {
        return screen::go_on(runner, answer, screening, &set);
    }
    confirm::confirm(runner, answer, &set)?;
    match answer.verdict {
        Verdict::NothingHelped if answer.veto.is_none() => screen::go_on(runner, answer, screening, &set),
        _ => Ok(()),
    }
}
