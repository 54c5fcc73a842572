//! What is refused before the server is measured: a budget without room for a decision.

use evenkeel_trial::{Design, Pace, Settle, Stop};

use crate::exit;
use crate::experiment;
use crate::failure::Failure;

/// Refuses a budget that would be over before anything can be said.
pub(super) fn refuse_short(design: &Design, arms: usize, asks_for_control: bool) -> Result<(), Failure> {
    let Stop::Sequential { budget: Some(budget), .. } = design.stop else { return Ok(()) };
    let pace = Pace::of(arms);
    let least = match asks_for_control {
        true => design.least_for(pace, design.control_pairs),
        false => design.least_by_itself(pace),
    };
    if budget >= least {
        return Ok(());
    }
    let mut takes = Vec::new();
    if matches!(design.settle, Settle::Found { .. }) {
        takes.push("finding the settle time".to_owned());
    }
    if design.control_pairs > 0 {
        takes.push("the A/A phase".to_owned());
    }
    let first = if takes.is_empty() { String::new() } else { takes.join(", ") + " and " };
    let (seconds, pairs) = (least.as_secs_f64().ceil(), design.pairs_to_decide(arms));
    let cause = format!("{first}the {pairs} pairs that a decision takes need {seconds:.0} s at least");
    let tried = format!("prove anything within a budget of {} s", budget.as_secs_f64());
    Err(Failure::text(exit::WRONG_USE, tried, cause).hint(experiment::more_time(design, least)))
}
