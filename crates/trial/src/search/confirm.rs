//! The proof: what was chosen against the machine as it was, on pairs of windows that chose nothing.

use evenkeel_stats::{Pair, Sequential, Verdict as Judged};
use rand::RngExt;

use super::Stage;
use super::answer::{Answer, Measure};
use super::desk::{Desk, Got, Halt};
use super::guard::Guarded;
use super::screen::Set;

/// Pairs at most: after so many a difference that matters has shown itself on any machine that can be measured on.
const PAIRS_MAX: usize = 2000;
/// A set that is decided for the better goes on for a guard that looks harmed until it has so many times the pairs.
const GUARD_PATIENCE: usize = 2;

/// Measures pairs until it is decided, or the budget is used up.
pub(super) fn confirm(desk: &mut Desk<'_>, answer: &mut Answer, set: &Set) -> Result<(), Halt> {
    desk.stage = Stage::Confirm;
    answer.choose(desk.design, set);
    let from = desk.used();
    let failed = |error: evenkeel_stats::StatsError| Halt::Failed(error.to_string());
    let mut test = Sequential::new(desk.design.options(1)).map_err(failed)?;
    let baseline = desk.design.baseline();
    desk.compares(set.members.iter().copied());
    let mut ended = Ok(());
    let (mut guarded, mut decided_at) = (Guarded::default(), None);
    let (guards, confidence) = (&desk.design.guards, desk.design.confidence);
    for _ in 0..PAIRS_MAX {
        let a_first = desk.chance.random::<bool>();
        match pair(desk, [&baseline, &set.arm], a_first) {
            Ok(Some((pair, [a, b]))) => {
                test.add(pair).map_err(failed)?;
                guarded.add(&a, &b);
            }
            Ok(None) if desk.is_banned(&set.arm) => break,
            Ok(None) => continue,
            Err(halt) => {
                ended = Err(halt);
                break;
            }
        }
        let look = test.look();
        desk.known = format!("the set is at {:.3} of what was after {} pairs", look.ratio, look.pairs);
        if look.decided {
            let at = *decided_at.get_or_insert(look.pairs);
            let waits = look.verdict == Judged::Better
                && look.pairs < at * GUARD_PATIENCE
                && guarded.looks_harmed(guards, confidence);
            if !waits {
                break;
            }
        }
    }
    if test.pairs() > 0 {
        answer.proved(desk, set, Measure::of_look(desk.design, &test.look()), test.verdict(), from);
    }
    if desk.is_banned(&set.arm) {
        answer.stopped_by_the_guard();
    }
    answer.guarded(&guarded, desk.design);
    if let Some(harmed) = guarded.harm(guards, confidence) {
        answer.vetoed(harmed);
    }
    ended
}

/// A pair with what the guards read in both windows.
type Both = (Pair, [Vec<Option<f64>>; 2]);

fn pair(desk: &mut Desk<'_>, arms: [&crate::arm::Arm; 2], a_first: bool) -> Result<Option<Both>, Halt> {
    let [a, b] = arms;
    let (mut values, mut guarded) = ([None; 2], [Vec::new(), Vec::new()]);
    for (at, arm) in if a_first { [(0, a), (1, b)] } else { [(1, b), (0, a)] } {
        if let Got::Value(value) = desk.window(arm)? {
            values[at] = Some(value);
            guarded[at] = desk.last_guards();
        }
    }
    Ok(match values {
        [Some(a), Some(b)] => Some((Pair { a, b }, guarded)),
        _ => None,
    })
}
