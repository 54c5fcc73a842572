//! Which knobs were at work at all while they were searched among: their counters, recorded in every window, as a trial of two arms
//! judges them. A knob that never engaged and moved nothing is neither useless nor part of a set: what it would do is not known.

use evenkeel_host::Counter;

use super::Seen;
use super::desk::Desk;
use super::fate::Fate;
use super::log::Entry;
use crate::arm::{ArmName, Level};
use crate::counters::counter_of;
use crate::engaged::{Engaged, Mechanism, Observed, mechanism};

/// Windows with a knob and without it at the least, before its counter is believed to have stood still.
const WINDOWS_MIN: usize = 3;

/// Takes out the knobs that were never at work and were shown to do nothing that matters, as the table at the head of `report/verdict.rs` has it: a
/// counter knows one path of an effect, so it takes an interval without room for one by another.
pub(super) fn take_out_idle(desk: &mut Desk<'_>, knobs: usize, does_nothing: impl Fn(&Desk<'_>, usize) -> bool) {
    for knob in (0..knobs).filter(|knob| desk.is_in(*knob)).collect::<Vec<_>>() {
        if !does_nothing(desk, knob) {
            continue;
        }
        if let Some(Mechanism { engaged: Engaged::No { why }, .. }) = of(desk, knob) {
            desk.take_out(knob, Fate::NotEngaged { why });
        }
    }
}

/// What the windows so far show of a knob; nothing where it has no counter, or too few windows tell.
pub(super) fn of(desk: &Desk<'_>, knob: usize) -> Option<Mechanism> {
    let name = name_of(desk, knob)?;
    let counter = counter_of(name)?;
    // Two knobs for the same thing hide each other's difference, though not that the thing happens.
    let likes: Vec<usize> = (0..desk.design.candidates.len())
        .filter(|other| *other != knob && name_of(desk, *other).and_then(counter_of) == Some(counter))
        .collect();
    let alone = |entry: &Entry| likes.iter().all(|other| *entry.arm.level(*other) == Level::AsItWas);
    let windows = match compares(counter) && !likes.is_empty() {
        true => windows(desk, knob, &alone),
        false => windows(desk, knob, &|_| true),
    };
    let enough = |arm| windows.iter().filter(|window| window.arm == arm).count() >= WINDOWS_MIN;
    if !(enough(ArmName::A) && enough(ArmName::B)) {
        return None;
    }
    Some(mechanism(&windows, desk.design.network, name, false))
}

/// Whether a counter tells by how the windows with a knob differ from those without, rather than by moving at all.
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

fn name_of<'d>(desk: &'d Desk<'_>, knob: usize) -> Option<&'d str> {
    desk.design.candidates.get(knob)?.settings.first()?.split(['=', '@']).next()
}

fn windows<'d>(desk: &'d Desk<'_>, knob: usize, counts: &dyn Fn(&Entry) -> bool) -> Vec<Observed<'d>> {
    let mut windows = Vec::new();
    for entry in desk.entries().iter().filter(|entry| counts(entry)) {
        if let Seen::Measured { conditions: Some(conditions), .. } = &entry.seen {
            let arm = if *entry.arm.level(knob) == Level::AsItWas { ArmName::A } else { ArmName::B };
            windows.push(Observed { arm, conditions });
        }
    }
    windows
}
