//! Removes the knobs that the set does not need. It compares the set with the set without each knob, until each comparison is decided.

use evenkeel_stats::{Pair, Sequential, Verdict as Judged};
use rand::seq::SliceRandom;

use super::Stage;
use super::answer::{Answer, Measure};
use super::knob_outcome::KnobOutcome;
use super::left_out::NotNeeded;
use super::runner::{Halt, SearchRunner, WindowOutcome};
use super::set::Set;
use crate::arm::Arm;

/// The share of the budget that may be used when this stage ends. The rest is for the confirmation.
const SHARE: f64 = 0.85;
/// The maximum number of blocks in one round.
const BLOCKS_MAX: usize = 200;

/// An undecided knob. `test` compares the set with the knob and the set `without` the knob.
struct Question {
    knob: usize,
    without: Arm,
    test: Sequential,
}

/// Removes unneeded knobs one at a time. If two knobs have the same effect, the set needs one of them.
pub(super) fn trim(runner: &mut SearchRunner<'_>, answer: &mut Answer, set: &mut Set) -> Result<(), Halt> {
    runner.stage = Stage::Trim;
    set.members.retain(|knob| runner.is_in(*knob));
    // The last stage, which compares the set with the unchanged machine, also decides a single knob.
    let claims = set.members.len();
    let mut needed: Vec<usize> = Vec::new();
    while set.members.len() > 1 {
        let mut open = questions(runner, set, &needed, claims)?;
        let Some(gone) = round(runner, answer, set, &mut open, &mut needed)? else { return Ok(()) };
        *set = set.without(gone);
        // The undecided knobs were measured together with the removed knob, which may have hidden their effects.
        for knob in set.members.iter().filter(|knob| !needed.contains(knob)) {
            answer.knobs[*knob].without = None;
        }
    }
    Ok(())
}

fn questions(runner: &SearchRunner<'_>, set: &Set, needed: &[usize], claims: usize) -> Result<Vec<Question>, Halt> {
    let mut questions = Vec::new();
    for knob in set.members.iter().copied().filter(|knob| !needed.contains(knob)) {
        let test = Sequential::new(runner.design.options(claims)).map_err(|error| Halt::Failed(error.to_string()))?;
        questions.push(Question { knob, without: set.without(knob).arm, test });
    }
    Ok(questions)
}

/// Measures blocks until one knob can be removed, and returns that knob. None if the set needs all other knobs.
fn round(
    runner: &mut SearchRunner<'_>,
    answer: &mut Answer,
    set: &Set,
    open: &mut Vec<Question>,
    needed: &mut Vec<usize>,
) -> Result<Option<usize>, Halt> {
    for _ in 0..BLOCKS_MAX {
        if open.is_empty() {
            return Ok(None);
        }
        if !runner.has_room(open.len() + 1, SHARE) {
            break;
        }
        block(runner, set, open)?;
        let mut useless: Option<(usize, f64)> = None;
        for question in open.iter() {
            let seen = question.test.look();
            answer.knobs[question.knob].without =
                (seen.pairs > 0).then(|| Measure::of_look(runner.design, &seen.into()));
            let cost = runner.design.cost(question.test.look().ratio);
            match question.test.verdict() {
                Judged::Same | Judged::Worse if useless.is_none_or(|(_, most)| cost > most) => {
                    useless = Some((question.knob, cost));
                }
                _ => {}
            }
        }
        if let Some((knob, _)) = useless {
            answer.knobs[knob].outcome = KnobOutcome::LeftOut { why: NotNeeded::DoesNothing };
            return Ok(Some(knob));
        }
        let is_shown = |question: &Question| question.test.verdict() == Judged::Better;
        // The search never runs an arm again that was stopped. So the knob stays, but no comparison shows that the set needs it.
        let is_needed = |question: &Question| is_shown(question) || runner.is_banned(&question.without);
        needed.extend(open.iter().filter(|question| is_needed(question)).map(|question| question.knob));
        for question in open.iter().filter(|question| is_shown(question)) {
            answer.knobs[question.knob].is_shown = true;
        }
        open.retain(|question| !is_needed(question));
        runner.known = format!("{} of {} knobs are known to be needed", needed.len(), set.members.len());
    }
    Ok(undecided(runner, answer, open))
}

/// Measures one block in random order: the set, and the set without each undecided knob.
fn block(runner: &mut SearchRunner<'_>, set: &Set, open: &mut [Question]) -> Result<(), Halt> {
    runner.compares(open.iter().map(|question| question.knob));
    let mut order: Vec<Option<usize>> = (0..open.len()).map(Some).chain([None]).collect();
    order.shuffle(&mut runner.chance);
    let (mut whole, mut values) = (None, vec![None; open.len()]);
    for at in order {
        let arm = at.map_or(&set.arm, |at| &open[at].without).clone();
        let WindowOutcome::Value(value) = runner.window(&arm)? else { continue };
        match at {
            Some(at) => values[at] = Some(value),
            None => whole = Some(value),
        }
    }
    for (question, value) in open.iter_mut().zip(values) {
        if let (Some(a), Some(b)) = (value, whole) {
            question.test.add(Pair { a, b }).map_err(|error| Halt::Failed(error.to_string()))?;
        }
    }
    Ok(())
}

/// Decides the knobs that are undecided at the end of the budget.
/// If the weakest knob seems to have no effect, the function returns that knob for removal.
fn undecided(runner: &SearchRunner<'_>, answer: &mut Answer, open: &[Question]) -> Option<usize> {
    let cost = |question: &Question| match question.test.pairs() {
        0 => 0.0,
        _ => runner.design.cost(question.test.look().ratio),
    };
    let weakest = open.iter().max_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    if cost(weakest) <= -runner.design.line() {
        return None;
    }
    let why = NotNeeded::NotShown { pairs: weakest.test.pairs() };
    answer.knobs[weakest.knob].outcome = KnobOutcome::LeftOut { why };
    Some(weakest.knob)
}
