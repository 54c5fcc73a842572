//! Decides which knobs were engaged during a search, by the counters in every window and the rules of a trial of two arms.
//! If a knob was never engaged and moved nothing, its effect is unknown. Such a knob is not called useless, and is not part of the set.

use evenkeel_host::Counter;

use super::WindowResult;
use super::knob_outcome::KnobOutcome;
use super::log::Entry;
use super::runner::SearchRunner;
use crate::arm::{ArmName, Level};
use crate::counters::counter_of;
use crate::engaged::{Engaged, Mechanism, Observed, mechanism};

/// The minimum number of windows with a knob, and without the knob. Fewer windows cannot show that the knob was not engaged.
const WINDOWS_MIN: usize = 3;

/// Takes out knobs that were never engaged and have no effect that matters, by the table in `report/verdict.rs`.
/// A counter covers only one path of an effect, so the interval must also exclude an effect that matters.
pub(super) fn take_out_idle(
    runner: &mut SearchRunner<'_>,
    knobs: usize,
    does_nothing: impl Fn(&SearchRunner<'_>, usize) -> bool,
) {
    for knob in (0..knobs).filter(|knob| runner.is_in(*knob)).collect::<Vec<_>>() {
        if !does_nothing(runner, knob) {
            continue;
        }
        if let Some(Mechanism { engaged: Engaged::No { why }, .. }) = knob_mechanism(runner, knob) {
            runner.take_out(knob, KnobOutcome::NotEngaged { why });
        }
    }
}

/// Whether the windows so far show that a knob was engaged. `None` if the knob has no counter, or if there are too few windows.
pub(super) fn knob_mechanism(runner: &SearchRunner<'_>, knob: usize) -> Option<Mechanism> {
    let name = name_of(runner, knob)?;
    let counter = counter_of(name)?;
    // If two knobs act on the same mechanism, the counter may be the same with and without each of the two. But the counter still moves.
    let likes: Vec<usize> = (0..runner.design.candidates.len())
        .filter(|other| *other != knob && name_of(runner, *other).and_then(counter_of) == Some(counter))
        .collect();
    let alone = |entry: &Entry| likes.iter().all(|other| *entry.arm.level(*other) == Level::AsItWas);
    let windows = match compares(counter) && !likes.is_empty() {
        true => windows(runner, knob, &alone),
        false => windows(runner, knob, &|_| true),
    };
    let enough = |arm| windows.iter().filter(|window| window.arm == arm).count() >= WINDOWS_MIN;
    if !(enough(ArmName::A) && enough(ArmName::B)) {
        return None;
    }
    Some(mechanism(&windows, runner.design.network, name, false))
}

/// Whether this counter shows an engaged knob only by a difference between windows with and without the knob.
/// For other counters, any movement is enough.
fn compares(counter: Counter) -> bool {
    matches!(
        counter,
        Counter::IdleStates
            | Counter::InterruptsByCpu
            | Counter::WaitingThreads
            | Counter::Frequency
            | Counter::ReadBack
    )
}

fn name_of<'d>(runner: &'d SearchRunner<'_>, knob: usize) -> Option<&'d str> {
    runner.design.candidates.get(knob)?.settings.first()?.split(['=', '@']).next()
}

fn windows<'d>(runner: &'d SearchRunner<'_>, knob: usize, counts: &dyn Fn(&Entry) -> bool) -> Vec<Observed<'d>> {
    let mut windows = Vec::new();
    for entry in runner.entries().iter().filter(|entry| counts(entry)) {
        if let WindowResult::Measured { conditions: Some(conditions), .. } = &entry.seen {
            let arm = if *entry.arm.level(knob) == Level::AsItWas { ArmName::A } else { ArmName::B };
            windows.push(Observed { arm, conditions });
        }
    }
    windows
}
