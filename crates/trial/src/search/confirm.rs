//! The confirmation: compares the chosen set with the unchanged machine, on separate pairs of windows that were not used for the choice.

use evenkeel_stats::{Pair, Verdict as Judged};
use rand::RngExt;

use super::Stage;
use super::answer::{Answer, Measure, Whole};
use super::guard::find_culprit;
use super::knob_outcome::KnobOutcome;
use super::runner::{Halt, SearchRunner, WindowOutcome};
use super::screen::{WHOLE_PAIRS_MIN, fits};
use super::set::Set;
use crate::arm::Arm;
use crate::comparison::{ArmTest, GuardNumbers};
use crate::error::TrialError;

/// The maximum number of pairs. On any usable machine, fewer pairs show a difference that matters.
const PAIRS_MAX: usize = 2000;

/// The share of the budget for comparing all candidates together. The rest is for finding the candidates that matter.
const WHOLE_SHARE: f64 = 0.2;

/// Compares all candidates together with the unchanged machine. Returns whether to continue with finding the candidates that matter.
pub(super) fn whole(runner: &mut SearchRunner<'_>, answer: &mut Answer) -> Result<bool, Halt> {
    if !runner.design.whole_first {
        return Ok(true);
    }
    runner.stage = Stage::Whole;
    let members: Vec<usize> = (0..runner.design.candidates.len()).collect();
    let set = Set { arm: Arm::planned(members.len()), members };
    let compared = compare(runner, &set, |runner, pairs| {
        pairs < WHOLE_PAIRS_MIN || runner.has_room(2, WHOLE_SHARE) && fits(runner)
    })?;
    if runner.is_banned(&set.arm) {
        find_culprit(runner, &set.arm)?;
    }
    let Some(seen) = compared.test.judge.look() else { return compared.ended.map(|()| true) };
    let effect = Measure::of_look(runner.design, &seen);
    answer.whole = Some(Whole { effect, verdict: seen.verdict.into() });
    answer.take_outcomes(runner);
    compared.ended?;
    if seen.verdict != Judged::Same || runner.is_banned(&set.arm) {
        return Ok(true);
    }
    for knob in members_in(runner) {
        answer.knobs[knob].outcome = KnobOutcome::NoEffect;
    }
    Ok(false)
}

fn members_in(runner: &SearchRunner<'_>) -> Vec<usize> {
    (0..runner.design.candidates.len()).filter(|knob| runner.is_in(*knob)).collect()
}

/// A comparison of a set with the unchanged machine, and the result so far.
struct Compared {
    test: ArmTest,
    ended: Result<(), Halt>,
}

/// Measures pairs until the test is decided, `has_room` returns false, or the search ends.
fn compare(
    runner: &mut SearchRunner<'_>,
    set: &Set,
    has_room: impl Fn(&SearchRunner<'_>, usize) -> bool,
) -> Result<Compared, Halt> {
    let failed = |error: TrialError| Halt::Failed(error.to_string());
    let judge = runner.design.judge(1).map_err(failed)?;
    let mut test = ArmTest::new(judge, runner.design.guards_at_end());
    let baseline = runner.design.baseline();
    runner.compares(set.members.iter().copied());
    let mut ended = Ok(());
    for _ in 0..PAIRS_MAX {
        let pairs = test.judge.look().map_or(0, |seen| seen.pairs);
        if !has_room(runner, pairs) {
            break;
        }
        let a_first = runner.chance.random::<bool>();
        match pair(runner, [&baseline, &set.arm], a_first) {
            Ok(Some((pair, [a, b]))) => {
                test.add(pair, [&a, &b]).map_err(failed)?;
                test.note_decision(1);
            }
            Ok(None) if runner.is_banned(&set.arm) => break,
            Ok(None) => continue,
            Err(halt) => {
                ended = Err(halt);
                break;
            }
        }
        if let Some(seen) = test.judge.look() {
            runner.known =
                format!("with the set, the metric is {:.3} times its old value ({} pairs)", seen.ratio, seen.pairs);
        }
        if test.judge.verdict() != Judged::Undecided && !test.waits_for_guards() {
            break;
        }
    }
    Ok(Compared { test, ended })
}

/// Measures pairs until the set is confirmed or rejected, or until the budget is used up.
pub(super) fn confirm(runner: &mut SearchRunner<'_>, answer: &mut Answer, set: &Set) -> Result<(), Halt> {
    runner.stage = Stage::Confirm;
    answer.choose(runner.design, set);
    let from = runner.used();
    let Compared { test, ended } = compare(runner, set, |_, _| true)?;
    if let Some(seen) = test.judge.look() {
        answer.proved(runner, set, Measure::of_look(runner.design, &seen), seen.verdict, from);
    }
    if runner.is_banned(&set.arm) {
        answer.stopped_by_the_guard();
    }
    answer.guarded(&test.guards);
    if let Some((guard, seen)) = test.guards.harmed() {
        answer.vetoed(format!("{} is {:.2} times what it was", guard.metric.name, seen.ratio));
    }
    ended
}

/// A pair with the guards' values in both windows.
type Both = (Pair, [GuardNumbers; 2]);

fn pair(runner: &mut SearchRunner<'_>, arms: [&Arm; 2], a_first: bool) -> Result<Option<Both>, Halt> {
    let [a, b] = arms;
    let (mut values, mut guarded) = ([None; 2], [Vec::new(), Vec::new()]);
    for (at, arm) in if a_first { [(0, a), (1, b)] } else { [(1, b), (0, a)] } {
        if let WindowOutcome::Value(value) = runner.window(arm)? {
            values[at] = Some(value);
            guarded[at] = runner.last_guards();
        }
    }
    Ok(match values {
        [Some(a), Some(b)] => Some((Pair { a, b }, guarded)),
        _ => None,
    })
}
