//! Refuses a budget that is too short for a decision, before any measurement.

use evenkeel_trial::{Design, Pace, Settle, Stop};

use crate::exit;
use crate::experiment;
use crate::failure::Failure;
use crate::times;

pub(super) fn refuse_short(design: &Design, arms: usize, asks_for_control: bool) -> Result<(), Failure> {
    let Stop::Sequential { budget: Some(budget), .. } = design.stop else { return Ok(()) };
    let pace = Pace::new(arms);
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
    let pairs = design.pairs_to_decide(arms);
    let cause = format!("{first}the {pairs} pairs for a decision need at least {}", times::words(least));
    let tried = format!("finish a trial within {}", times::words(budget));
    Err(Failure::text(exit::WRONG_USE, tried, cause).hint(experiment::more_time(design, least)))
}
