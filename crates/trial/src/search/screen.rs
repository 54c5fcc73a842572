//! The first stage: it screens all knobs at once. Every window counts for every knob.

use std::collections::BTreeMap;

use evenkeel_stats::designs::{Design, Fit, Level as Sign, Run, Term, fit, screening};
use rand::RngExt;

use super::answer::{Answer, Measure};
use super::design::SearchDesign;
use super::guard::{find_culprit, take_out_harmful};
use super::knob_outcome::KnobOutcome;
use super::left_out::NotNeeded;
use super::rows::{ERRORS, Rows};
use super::runner::{Halt, SearchRunner, WindowOutcome};
use super::set::Set;
use super::{Stage, engaged};
use crate::arm::{Arm, Level};

/// The minimum number of pairs if the search compares all candidates together first.
pub(super) const WHOLE_PAIRS_MIN: usize = 8;
/// The number of windows of the unchanged machine at the beginning. They show the usual value, and how much windows of equal arms differ.
const BASELINE_WINDOWS: usize = 8;
/// The share of the budget that may be used when the screening ends. The rest is for choosing and confirming a set.
const SHARE: f64 = 0.5;
/// The share of the budget if the search compared all candidates together first.
const SHARE_AFTER_WHOLE: f64 = 0.65;
/// The share of the budget if no knob looks effective so far. Then nothing needs a confirmation, so the undecided knobs get the time.
const SHARE_WITHOUT_ANY: f64 = 0.9;
/// After knobs were left out, the duration of a window is known again after this many windows.
const PACE_WINDOWS: usize = 4;
/// The minimum number of draws of the design.
/// A single draw could not distinguish the joint effect of two knobs from the effect of a third knob.
const DRAWS_MIN: usize = 2;
/// The minimum degrees of freedom: the number of pairs of windows minus the number of knobs.
/// With fewer degrees, the error of an effect is unknown.
const DEGREES_MIN: usize = 10;
/// The maximum number of draws, however noisy the machine is.
const DRAWS_MAX: usize = 400;
/// The screening ends when the error is at most this share of the smallest effect that matters.
pub(super) const ERROR_SHARE: f64 = 0.2;
/// A knob has moved the metric if its effect is at least [`ERRORS`] errors,
/// and at least this share of the smallest effect that matters.
/// If two knobs help only together, each of them shows half of their joint effect.
const EFFECT_SHARE: f64 = 0.5;
/// The maximum number of knobs that enter the next stage.
const SURVIVORS_MAX: usize = 8;
/// The error probability, over all pairs of knobs together, below which two knobs continue because of their joint effect.
/// Neither knob needs an effect of its own.
const PAIR_ERROR: f64 = 0.05;

/// Measures the unchanged machine a few times.
pub(super) fn baseline(runner: &mut SearchRunner<'_>, answer: &mut Answer) -> Result<(), Halt> {
    runner.stage = Stage::Baseline;
    let baseline = runner.design.baseline();
    let mut costs = Vec::new();
    for _ in 0..BASELINE_WINDOWS {
        if let WindowOutcome::Value(value) = runner.window(&baseline)? {
            costs.push(runner.design.cost(value));
        }
    }
    answer.noise_of(&costs);
    Ok(())
}

/// The state of a screening, with which it can be continued.
pub(super) struct Screening {
    /// The design, with a column for each of the knobs.
    base: Design,
    /// The indices of the knobs.
    knobs: Vec<usize>,
    pub(super) seen: Rows,
}

impl Screening {
    /// A screening of these knobs.
    pub(super) fn of(knobs: Vec<usize>) -> Result<Screening, Halt> {
        let base = screening(knobs.len()).map_err(|error| Halt::Failed(error.to_string()))?;
        Ok(Screening { base, knobs, seen: Rows::default() })
    }

    /// A row of the design as the levels of all candidates. Candidates that are not screened are off.
    fn levels(&self, row: &[Sign], candidates: usize) -> Vec<Sign> {
        let mut levels = vec![Sign::Low; candidates];
        for (knob, sign) in self.knobs.iter().zip(row) {
            levels[*knob] = *sign;
        }
        levels
    }
}

/// Finds the knobs that move the metric.
pub(super) fn screen(runner: &mut SearchRunner<'_>, answer: &mut Answer) -> Result<(Set, Screening), Halt> {
    runner.stage = Stage::Screen;
    let knobs = as_many_as_fit(runner, answer)?;
    let mut screening = Screening::of((0..knobs).collect())?;
    let fit = draws(runner, answer, &mut screening, |runner, answer, fit, screening| {
        if stands_out(runner, answer, fit, &screening.seen, knobs) { share(runner.design) } else { SHARE_WITHOUT_ANY }
    })?;
    let set = survivors(runner, answer, &fit, &screening.seen, knobs);
    Ok((set, screening))
}

/// Continues the screening after the confirmation of a set failed, or no knob of the set was needed.
/// The remaining time then decides more of the other knobs.
/// If a knob now looks effective, only another search can confirm this.
pub(super) fn go_on(
    runner: &mut SearchRunner<'_>,
    answer: &mut Answer,
    mut screening: Screening,
    set: &Set,
) -> Result<(), Halt> {
    let line = ERROR_SHARE * runner.design.line();
    let is_coarse = answer.knobs.iter().filter_map(|knob| knob.screening.as_ref()).any(|seen| seen.error > line);
    if !is_coarse || !runner.has_room(2 * screening.base.rows().len(), SHARE_WITHOUT_ANY) {
        return Ok(());
    }
    runner.stage = Stage::Screen;
    let knobs = screening.knobs.len();
    for knob in &set.members {
        runner.take_out(*knob, KnobOutcome::LeftOut { why: NotNeeded::SetNotShown });
    }
    let fit = draws(runner, answer, &mut screening, |_, _, _, _| SHARE_WITHOUT_ANY)?;
    let more = survivors(runner, answer, &fit, &screening.seen, knobs);
    if !more.members.is_empty() {
        answer.is_open();
    }
    Ok(())
}

/// Measures draws of the design until the error is small enough, or until this share of the budget is used.
pub(super) fn draws(
    runner: &mut SearchRunner<'_>,
    answer: &mut Answer,
    screening: &mut Screening,
    share: impl Fn(&SearchRunner<'_>, &Answer, &Fit, &Screening) -> f64,
) -> Result<Fit, Halt> {
    let failed = |error: evenkeel_stats::designs::DesignError| Halt::Failed(error.to_string());
    let candidates = runner.design.candidates.len();
    for draw in 0..DRAWS_MAX {
        runner.compares(screening.knobs.iter().copied());
        for row in screening.base.redrawn(runner.chance.random()).rows() {
            let both = [row.clone(), Design::mirror_of(row)].map(|row| screening.levels(&row, candidates));
            mirrored_pair(runner, both, &mut screening.seen)?;
        }
        let enough = draw + 1 >= DRAWS_MIN && screening.seen.pairs >= screening.knobs.len() + DEGREES_MIN;
        if !enough {
            continue;
        }
        let fit = screening.seen.fit(&screening.knobs).map_err(failed)?;
        answer.screened(runner, &fit);
        runner.known = known(answer);
        let error = fit.estimates.iter().flatten().map(|estimate| estimate.error).fold(0.0, f64::max);
        let share = share(runner, answer, &fit, screening);
        if error <= ERROR_SHARE * runner.design.line() || !runner.has_room(2 * screening.base.rows().len(), share) {
            return Ok(fit);
        }
    }
    screening.seen.fit(&screening.knobs).map_err(failed)
}

/// Whether a knob, or two knobs together, look helpful.
fn stands_out(runner: &SearchRunner<'_>, answer: &Answer, fit: &Fit, seen: &Rows, knobs: usize) -> bool {
    let helps = |knob: usize| {
        let screened = answer.knobs[knob].screening.as_ref();
        runner.is_in(knob) && screened.is_some_and(|measure| measure.cost < 0.0 && has_moved(runner, measure))
    };
    (0..knobs).any(helps) || !partners(runner, fit, seen, knobs).is_empty()
}

/// The share of the budget that may be used when the screening ends.
fn share(design: &SearchDesign) -> f64 {
    if design.whole_first { SHARE_AFTER_WHOLE } else { SHARE }
}

/// Whether the budget still has room to screen all candidates.
pub(super) fn fits(runner: &SearchRunner<'_>) -> bool {
    let windows = screened_in(runner.design.candidates.len()).unwrap_or(usize::MAX / 2);
    runner.has_room(windows, share(runner.design))
}

/// The minimum number of windows with which all candidates of a design can be screened and the search can finish.
pub fn windows_to_screen(design: &SearchDesign) -> usize {
    let screened = screened_in(design.candidates.len()).unwrap_or(0);
    let whole = if design.whole_first { 2 * WHOLE_PAIRS_MIN } else { 0 };
    ((BASELINE_WINDOWS + whole + screened) as f64 / share(design)).ceil() as usize
}

/// The number of windows of the smallest screening with this number of knobs.
pub(super) fn screened_in(knobs: usize) -> Result<usize, evenkeel_stats::designs::DesignError> {
    let rows = screening(knobs)?.rows().len();
    Ok(2 * rows * (knobs + DEGREES_MIN).div_ceil(rows).max(DRAWS_MIN))
}

/// The number of knobs that the budget allows to screen. The last knobs are left out.
/// Knobs whose switch needs a restart are left out first, because every window of a screening would wait for the restart.
fn as_many_as_fit(runner: &mut SearchRunner<'_>, answer: &mut Answer) -> Result<usize, Halt> {
    let all = runner.design.candidates.len();
    let slow: Vec<usize> = runner.design.restarts.iter().copied().filter(|knob| runner.is_in(*knob)).collect();
    let mut fitting = most_that_fit(runner)?;
    if fitting < all && !slow.is_empty() && slow.len() < all {
        let why = format!(
            "each switch of it takes a new start of the server, and a window with that {:.1} s: the budget has no room for it",
            runner.window_takes().as_secs_f64()
        );
        slow.iter().for_each(|knob| runner.take_out(*knob, KnobOutcome::NotTried { why: why.clone() }));
        runner.compares(0..all);
        runner.restarts_end();
        let baseline = runner.design.baseline();
        for _ in 0..PACE_WINDOWS {
            runner.window(&baseline)?;
        }
        fitting = most_that_fit(runner)?;
    }
    if fitting == 0 {
        return Err(Halt::OutOfBudget);
    }
    let why = format!("the budget allows {fitting} of {all} knobs to be screened");
    (fitting..all).for_each(|knob| runner.take_out(knob, KnobOutcome::NotTried { why: why.clone() }));
    answer.take_outcomes(runner);
    Ok(fitting)
}

/// The maximum number of knobs, from the first one on, that fit in the budget.
fn most_that_fit(runner: &SearchRunner<'_>) -> Result<usize, Halt> {
    for knobs in (1..=runner.design.candidates.len()).rev() {
        let windows = screened_in(knobs).map_err(|error| Halt::Failed(error.to_string()))?;
        if runner.has_room(windows, share(runner.design)) {
            return Ok(knobs);
        }
    }
    Ok(0)
}

/// Measures a row and its mirror image, in random order. It measures both rows, even if the first row is dropped.
fn mirrored_pair(runner: &mut SearchRunner<'_>, mut both: [Vec<Sign>; 2], seen: &mut Rows) -> Result<(), Halt> {
    if !runner.chance.random::<bool>() {
        both.reverse();
    }
    let (mut costs, mut guarded) = (Vec::with_capacity(2), Vec::with_capacity(2));
    for row in &both {
        let arm = arm_of(runner, row);
        match runner.window(&arm)? {
            WindowOutcome::Value(value) => {
                costs.push(runner.design.cost(value));
                guarded.push(runner.last_guards());
            }
            WindowOutcome::Nothing => {}
            WindowOutcome::Hurt => find_culprit(runner, &arm)?,
        }
    }
    if costs.len() == 2 {
        // Knobs that were taken out in the meantime have the same level in both rows, as in the measured windows.
        seen.rows.extend(both.map(|row| as_switched(runner, row)));
        seen.costs.extend(costs);
        seen.guarded.extend(guarded);
        seen.pairs += 1;
    }
    Ok(())
}

fn arm_of(runner: &SearchRunner<'_>, row: &[Sign]) -> Arm {
    let mut arm = runner.design.baseline();
    for (knob, sign) in row.iter().enumerate().filter(|(knob, _)| runner.is_in(*knob)) {
        arm.0[knob] = if *sign == Sign::High { Level::Planned } else { Level::AsItWas };
    }
    arm
}

fn as_switched(runner: &SearchRunner<'_>, row: Vec<Sign>) -> Vec<Sign> {
    row.into_iter().enumerate().map(|(knob, sign)| if runner.is_in(knob) { sign } else { Sign::Low }).collect()
}

/// Whether an effect, good or bad, is large enough to keep the knob.
fn has_moved(runner: &SearchRunner<'_>, measure: &Measure) -> bool {
    measure.cost.abs() >= (ERRORS * measure.error).max(EFFECT_SHARE * runner.design.line())
}

pub(super) fn survivors(
    runner: &mut SearchRunner<'_>,
    answer: &mut Answer,
    fit: &Fit,
    seen: &Rows,
    knobs: usize,
) -> Set {
    take_out_harmful(runner, seen, knobs);
    let does_nothing = |runner: &SearchRunner<'_>, knob: usize| {
        let screened = answer.knobs[knob].screening.as_ref();
        screened.is_some_and(|measure| {
            measure.is_within(runner.design.smallest_effect_ratio) && !has_moved(runner, measure)
        })
    };
    engaged::take_out_idle(runner, knobs, does_nothing);
    let mut helping: Vec<(usize, f64)> = Vec::new();
    for knob in (0..knobs).filter(|knob| runner.is_in(*knob)) {
        let Some(measure) = answer.knobs[knob].screening.clone() else { continue };
        if !has_moved(runner, &measure) {
            answer.knobs[knob].outcome = KnobOutcome::NoEffect;
        } else if measure.cost > 0.0 {
            answer.knobs[knob].outcome = KnobOutcome::Hurts;
        } else {
            helping.push((knob, measure.cost));
        }
    }
    for (a, b) in partners(runner, fit, seen, knobs) {
        for knob in [a, b].into_iter().filter(|knob| runner.is_in(*knob)) {
            if !helping.iter().any(|(other, _)| *other == knob) {
                helping.push((knob, 0.0));
            }
        }
    }
    helping.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (knob, _) in helping.drain(SURVIVORS_MAX.min(helping.len())..) {
        answer.knobs[knob].outcome = KnobOutcome::LeftOut { why: NotNeeded::OthersDoMore { others: SURVIVORS_MAX } };
    }
    let mut arm = runner.design.baseline();
    for (knob, _) in &helping {
        arm.0[*knob] = Level::Planned;
        answer.knobs[*knob].outcome = KnobOutcome::Unclear;
    }
    answer.take_outcomes(runner);
    runner.known = known(answer);
    Set { members: helping.into_iter().map(|(knob, _)| knob).collect(), arm }
}

/// Pairs of knobs that have no effect on average because they cancel each other.
/// Each knob alone may help.
/// The sum of a row and its mirror image shows such interactions, which the difference hides.
/// Two neighbouring sums have similar noise, so they form a block.
fn partners(runner: &SearchRunner<'_>, mains: &Fit, seen: &Rows, knobs: usize) -> Vec<(usize, usize)> {
    let sums: Vec<(&[Sign], f64)> = seen
        .rows
        .chunks_exact(2)
        .zip(seen.costs.chunks_exact(2))
        .map(|(rows, costs)| (rows[0].as_slice(), (costs[0] + costs[1]) / 2.0))
        .collect();
    let runs: Vec<Run<'_>> =
        sums.iter().enumerate().map(|(at, (levels, value))| Run { levels, block: at / 2, value: *value }).collect();
    let effects: BTreeMap<usize, f64> =
        (0..knobs).filter_map(|knob| Some((knob, mains.get(Term::Main(knob))?.effect))).collect();
    let all = (knobs * knobs.saturating_sub(1) / 2).max(1) as f64;
    let of_pair = |(a, b): (usize, usize)| {
        let pair = *fit(&runs, &[Term::Two(a, b)]).ok()?.get(Term::Two(a, b))?;
        let (a_alone, b_alone) = (effects.get(&a)? - pair.effect, effects.get(&b)? - pair.effect);
        let both = effects.get(&a)? + effects.get(&b)?;
        let best = a_alone.min(b_alone).min(both);
        let matters = best <= -runner.design.line() && pair.effect.abs() >= EFFECT_SHARE * runner.design.line();
        (pair.p_value * all <= PAIR_ERROR && matters).then_some(((a, b), pair.p_value))
    };
    let mut found: Vec<((usize, usize), f64)> =
        (0..knobs).flat_map(|a| (0..a).map(move |b| (b, a))).filter_map(of_pair).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    found.into_iter().map(|(pair, _)| pair).take(2).collect()
}

/// The results of the screening so far, as a short text.
fn known(answer: &Answer) -> String {
    let mut moved: Vec<(&str, f64)> = answer
        .knobs
        .iter()
        .filter_map(|knob| Some((knob.name(), knob.screening.as_ref()?)))
        .filter(|(_, measure)| measure.cost < 0.0 && measure.cost.abs() > ERRORS * measure.error)
        .map(|(name, measure)| (name, measure.cost))
        .collect();
    moved.sort_by(|a, b| a.1.total_cmp(&b.1));
    match moved[..] {
        [] => "nothing stands out so far".to_owned(),
        _ => moved.iter().take(3).map(|(name, _)| *name).collect::<Vec<_>>().join(", ") + " may help",
    }
}
