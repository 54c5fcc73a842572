//! Estimates the budget that would decide the undecided knobs.
//! The error of an estimate decreases with the square root of the number of windows.

use super::answer::{Answer, Ended, Measure, MoreTime, Verdict};
use super::knob_outcome::KnobOutcome;
use super::runner::SearchRunner;
use super::screen::{ERROR_SHARE, windows_to_screen};

/// The minimum and maximum of the advised budget, as multiples of the time that the ended search took.
/// If the search ended for lack of room, the minimum is a multiple of its budget.
const TIMES: std::ops::RangeInclusive<f64> = 1.5..=50.0;
/// The maximum budget to advise, in seconds.
const BUDGET_MAX_S: f64 = 7.0 * 86_400.0;

/// The undecided knobs, and the budget that could decide them. None if all knobs are decided, or if more time would not help.
pub(super) fn more_time(answer: &Answer, runner: &SearchRunner<'_>) -> Option<MoreTime> {
    if !matches!(answer.ended, Ended::Whole | Ended::OutOfBudget) || answer.verdict == Verdict::Better {
        return None;
    }
    let line = runner.design.line();
    let is_open = |outcome: &KnobOutcome, measure: Option<&Measure>| match outcome {
        KnobOutcome::Unclear => true,
        KnobOutcome::NoEffect => measure.is_some_and(|measure| !measure.is_within(runner.design.smallest_effect_ratio)),
        KnobOutcome::NotTried { .. } => true,
        _ => false,
    };
    let open: Vec<&Option<Measure>> = answer
        .knobs
        .iter()
        .filter(|knob| is_open(&knob.outcome, knob.screening.as_ref()))
        .map(|knob| &knob.screening)
        .collect();
    if open.is_empty() {
        return None;
    }
    let spent_s = runner.spent().as_secs_f64();
    let screened: Vec<&Measure> = open.iter().filter_map(|measure| measure.as_ref()).collect();
    let wanted_s = match (&answer.effect, screened.is_empty()) {
        // The set is not confirmed. A confirmation needs an interval whose half-width is as small as the effect.
        (Some(effect), _) => {
            spent_s * effect.half_width().map_or(2.0, |half| (half / effect.cost.abs().max(line / 2.0)).powi(2))
        }
        // No window was screened yet, so take the time of the smallest screening.
        (None, true) => runner.window_takes().as_secs_f64() * windows_to_screen(runner.design) as f64,
        (None, false) => {
            let error = screened.iter().map(|measure| measure.error).fold(0.0, f64::max);
            spent_s * (error / (ERROR_SHARE * line)).powi(2)
        }
    };
    // If the search ended early for lack of room, it needs more than its budget, even if it did not use the whole budget.
    let has_restarts = runner.with_restart().is_some();
    let lacked_room = answer.ended == Ended::OutOfBudget
        || answer.knobs.iter().enumerate().any(|(at, knob)| match knob.outcome {
            KnobOutcome::NotTried { .. } => true,
            // The knob was screened last, so no time was left to confirm it.
            KnobOutcome::Unclear => has_restarts && runner.design.restarts.contains(&at),
            _ => false,
        });
    let had_s = match runner.design.budget.time_ms.filter(|_| lacked_room) {
        Some(time_ms) => spent_s.max(time_ms as f64 / 1000.0),
        None => spent_s,
    };
    // Every window of a screening with these knobs waits for a restart.
    let with_restarts_s = match runner.with_restart().filter(|_| lacked_room) {
        Some(each) => each.as_secs_f64() * windows_to_screen(runner.design) as f64,
        None => 0.0,
    };
    let least_s = (had_s * TIMES.start()).max(with_restarts_s);
    let budget_s = wanted_s.clamp(least_s, (spent_s * TIMES.end()).max(least_s)).min(BUDGET_MAX_S);
    Some(MoreTime { knobs: open.len(), budget_s: budget_s.ceil() as u64 })
}
