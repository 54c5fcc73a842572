//! Tries other values of the knobs that moved the metric: half and double, or the next word, step by step as long as the metric improves.

use evenkeel_stats::{Pair, Verdict as Judged, compare, median};
use rand::seq::SliceRandom;

use super::Stage;
use super::answer::{Answer, Measure, TriedValue};
use super::runner::{Halt, SearchRunner, WindowOutcome};
use super::set::Set;
use crate::arm::{Arm, Level};
use crate::comparison::{GuardNumbers, GuardSet};

/// The share of the budget that may be used when this stage ends.
const SHARE: f64 = 0.6;
/// After this many blocks, the search gives up a value that does not look better.
const BLOCKS_FIRST: usize = 4;
/// The number of blocks after which the search judges a value.
const BLOCKS: usize = 10;
/// The maximum number of steps of one knob.
const STEPS_MAX: usize = 4;

/// A value of a knob that the search tries.
struct Rung {
    knob: usize,
    way: usize,
    step: usize,
    arm: Arm,
    pairs: Vec<Pair>,
    guards: GuardSet,
}

/// The value of the primary metric, and the guards' values.
type Window = (f64, GuardNumbers);

/// Tries all ladders of the set at once. The steps of all knobs share the windows of the current set.
pub(super) fn climb(runner: &mut SearchRunner<'_>, answer: &mut Answer, set: &mut Set) -> Result<(), Halt> {
    runner.stage = Stage::Ladder;
    // The lists of values that may still be continued, each as knob and list.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for knob in set.members.iter().filter(|knob| *set.arm.level(**knob) != Level::AsItWas) {
        open.extend((0..runner.design.candidates[*knob].ways.len()).map(|way| (*knob, way)));
    }
    for step in 0..STEPS_MAX {
        let mut rungs: Vec<Rung> = open.iter().filter_map(|(knob, way)| rung(runner, set, *knob, *way, step)).collect();
        if rungs.is_empty() || !runner.has_room((rungs.len() + 1) * BLOCKS, SHARE) {
            return Ok(());
        }
        let given_up = measure(runner, set, &mut rungs)?;
        for rung in given_up.iter().chain(&rungs) {
            note(runner, answer, rung);
        }
        open = best_of_each(runner, answer, set, rungs);
    }
    Ok(())
}

fn rung(runner: &SearchRunner<'_>, set: &Set, knob: usize, way: usize, step: usize) -> Option<Rung> {
    let value = runner.design.candidates[knob].ways.get(way)?.get(step)?;
    let mut arm = set.arm.clone();
    arm.0[knob] = Level::Value(value.clone());
    (runner.is_in(knob) && !runner.is_banned(&arm)).then_some(Rung {
        knob,
        way,
        step,
        arm,
        pairs: Vec::new(),
        guards: runner.design.guards_at_end(),
    })
}

/// Measures blocks. Each block has one window of the set and one window of every value.
/// Returns the values that were given up because they do not look better.
fn measure(runner: &mut SearchRunner<'_>, set: &Set, rungs: &mut Vec<Rung>) -> Result<Vec<Rung>, Halt> {
    let mut given_up = Vec::new();
    for block in 0..BLOCKS {
        runner.compares(rungs.iter().map(|rung| rung.knob));
        let mut order: Vec<Option<usize>> = (0..rungs.len()).map(Some).chain([None]).collect();
        order.shuffle(&mut runner.chance);
        let (mut as_is, mut values): (Option<Window>, Vec<Option<Window>>) = (None, vec![None; rungs.len()]);
        for at in order {
            let arm = at.map_or(&set.arm, |at| &rungs[at].arm).clone();
            let WindowOutcome::Value(value) = runner.window(&arm)? else { continue };
            let seen = Some((value, runner.last_guards()));
            match at {
                Some(at) => values[at] = seen,
                None => as_is = seen,
            }
        }
        for (rung, value) in rungs.iter_mut().zip(values) {
            if let (Some((a, a_guards)), Some((b, b_guards))) = (&as_is, value) {
                rung.pairs.push(Pair { a: *a, b });
                rung.guards.add([a_guards, &b_guards]);
            }
        }
        let half = runner.design.line() / 2.0;
        let goes_on = |rung: &Rung| {
            let costs: Vec<f64> =
                rung.pairs.iter().map(|pair| runner.design.cost(pair.b) - runner.design.cost(pair.a)).collect();
            !runner.is_banned(&rung.arm)
                && (block + 1 < BLOCKS_FIRST || median(&costs).is_some_and(|cost| cost < -half))
        };
        given_up.extend(rungs.extract_if(.., |rung| !goes_on(rung)));
        if rungs.is_empty() {
            break;
        }
    }
    Ok(given_up)
}

/// Stores the effect of a value, for the report page.
fn note(runner: &SearchRunner<'_>, answer: &mut Answer, rung: &Rung) {
    let Level::Value(value) = rung.arm.level(rung.knob) else { return };
    let Ok(found) = compare(&rung.pairs, runner.design.options(1)) else { return };
    let effect = Measure::of_look(runner.design, &found.into());
    answer.knobs[rung.knob].ladder.push(TriedValue { value: value.clone(), effect, is_taken: false });
}

/// Sets each knob to its best value, if that value is better than the current one. Returns the lists of values that may be continued.
fn best_of_each(
    runner: &SearchRunner<'_>,
    answer: &mut Answer,
    set: &mut Set,
    rungs: Vec<Rung>,
) -> Vec<(usize, usize)> {
    let mut best: Vec<(Rung, f64)> = Vec::new();
    for rung in rungs {
        let Ok(comparison) = compare(&rung.pairs, runner.design.options(1)) else { continue };
        if comparison.verdict != Judged::Better || rung.guards.harmed().is_some() {
            continue;
        }
        let cost = runner.design.cost(comparison.ratio);
        match best.iter_mut().find(|(other, _)| other.knob == rung.knob) {
            Some(other) if other.1 <= cost => {}
            Some(other) => *other = (rung, cost),
            None => best.push((rung, cost)),
        }
    }
    for (rung, _) in &best {
        set.arm.0[rung.knob] = rung.arm.level(rung.knob).clone();
        let knob = &mut answer.knobs[rung.knob];
        knob.steps = rung.step + 1;
        let is_it = |tried: &&mut TriedValue| *rung.arm.level(rung.knob) == Level::Value(tried.value.clone());
        if let Some(tried) = knob.ladder.iter_mut().rfind(is_it) {
            tried.is_taken = true;
        }
    }
    best.into_iter().map(|(rung, _)| (rung.knob, rung.way)).collect()
}
