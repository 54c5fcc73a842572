//! The proof: what was chosen against the machine as it was, on pairs of windows that chose nothing.

use evenkeel_stats::{Options, Pair, Sequential, Verdict as Judged, compare};
use rand::RngExt;

use super::Stage;
use super::answer::{Answer, Measure};
use super::desk::{Desk, Got, Halt};
use super::screen::Set;
use crate::design::Guard;

/// Pairs at most: after so many a difference that matters has shown itself on any machine that can be measured on.
const PAIRS_MAX: usize = 2000;

/// Measures pairs until it is decided, or the budget is used up.
pub(super) fn confirm(desk: &mut Desk<'_>, answer: &mut Answer, set: &Set) -> Result<(), Halt> {
    desk.stage = Stage::Confirm;
    answer.choose(desk.design, set);
    let from = desk.used();
    let failed = |error: evenkeel_stats::StatsError| Halt::Failed(error.to_string());
    let mut test = Sequential::new(desk.design.options(1)).map_err(failed)?;
    let baseline = desk.design.baseline();
    let mut ended = Ok(());
    let mut guarded: Vec<Vec<Pair>> = vec![Vec::new(); desk.design.guards.len()];
    for _ in 0..PAIRS_MAX {
        let a_first = desk.chance.random::<bool>();
        match pair(desk, [&baseline, &set.arm], a_first) {
            Ok(Some(pair)) => {
                test.add(pair).map_err(failed)?;
                for (guard, pairs) in desk.design.guards.iter().zip(&mut guarded) {
                    let both = desk.last_two(&guard.metric.name, [&baseline, &set.arm]);
                    pairs.extend(both.map(|[a, b]| Pair { a, b }));
                }
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
            break;
        }
    }
    if test.pairs() > 0 {
        answer.proved(desk, set, Measure::of_look(desk.design, &test.look()), test.verdict(), from);
    }
    if desk.is_banned(&set.arm) {
        answer.stopped_by_the_guard();
    }
    if let Some(harmed) = desk.design.guards.iter().zip(&guarded).find_map(|(guard, pairs)| harm(guard, pairs)) {
        answer.vetoed(harmed);
    }
    ended
}

/// What a guard has against the set: its number got worse, and by as much as vetoes. A number without ratios has nothing to say.
fn harm(guard: &Guard, pairs: &[Pair]) -> Option<String> {
    let options = Options { smallest_effect_ratio: guard.harm_ratio, ..Options::new(guard.metric.better) };
    let comparison = compare(pairs, options).ok()?;
    let (name, ratio) = (&guard.metric.name, comparison.ratio);
    (comparison.verdict == Judged::Worse).then(|| format!("{name} is {ratio:.2} times what it was"))
}

fn pair(desk: &mut Desk<'_>, arms: [&crate::arm::Arm; 2], a_first: bool) -> Result<Option<Pair>, Halt> {
    let [a, b] = arms;
    let mut values = [None; 2];
    for (at, arm) in if a_first { [(0, a), (1, b)] } else { [(1, b), (0, a)] } {
        if let Got::Value(value) = desk.window(arm)? {
            values[at] = Some(value);
        }
    }
    Ok(match values {
        [Some(a), Some(b)] => Some(Pair { a, b }),
        _ => None,
    })
}
