//! Measures every combination of the knobs that moved the metric.
//! Two of these knobs may have the same effect, cancel each other, or need each other.
//! The search continues with the combination that is predicted to be the best.

use evenkeel_stats::designs::{Fit, Level as Sign, Run, Term, factorial, fit};
use rand::RngExt;

use super::Stage;
use super::answer::{Answer, Interaction};
use super::knob_outcome::KnobOutcome;
use super::left_out::NotNeeded;
use super::runner::{Halt, SearchRunner, WindowOutcome};
use super::set::Set;
use crate::arm::{Arm, Level};

/// The share of the budget that may be used when this stage ends.
const SHARE: f64 = 0.75;
/// The number of consecutive windows that form a block.
const BLOCK: usize = 4;
/// The minimum and maximum number of draws of the design.
const DRAWS: std::ops::RangeInclusive<usize> = 2..=40;
/// The minimum degrees of freedom: the number of windows minus the number of effects. With fewer degrees, the error of an effect is unknown.
const DEGREES_MIN: usize = 12;
/// The measurement ends when the error is at most this share of the smallest effect that matters.
const ERROR_SHARE: f64 = 0.3;
/// An interaction of two knobs counts if it is at least this many standard errors large.
const ERRORS: f64 = 2.5;

/// Chooses the best combination of the set's knobs. If the budget is too small for the measurement, the whole set remains.
pub(super) fn choose(runner: &mut SearchRunner<'_>, answer: &mut Answer, set: &mut Set) -> Result<(), Halt> {
    runner.stage = Stage::Pairs;
    let members = set.members.clone();
    if members.len() < 2 {
        return Ok(());
    }
    let Ok(base) = factorial(members.len()) else { return Ok(()) };
    let terms = terms(members.len());
    let least = (terms.len() * 4 / 3 + DEGREES_MIN).div_ceil(base.rows().len()).max(*DRAWS.start());
    if !runner.has_room(least * base.rows().len(), SHARE) {
        return Ok(());
    }
    let levels = levels_of(set);
    runner.compares(members.iter().copied());
    let (mut rows, mut costs, mut window) = (Vec::new(), Vec::new(), 0);
    for draw in 0..*DRAWS.end() {
        for row in base.redrawn(runner.chance.random()).rows() {
            let arm = arm_of(set, &levels, row);
            if let WindowOutcome::Value(value) = runner.window(&arm)? {
                rows.push((row.clone(), window / BLOCK));
                costs.push(runner.design.cost(value));
            }
            window += 1;
        }
        if draw + 1 < least {
            continue;
        }
        let runs: Vec<Run<'_>> = rows
            .iter()
            .zip(&costs)
            .map(|((levels, block), value)| Run { levels, block: *block, value: *value })
            .collect();
        let Ok(fit) = fit(&runs, &terms) else { continue };
        let error = fit.estimates.iter().flatten().map(|estimate| estimate.error).fold(0.0, f64::max);
        if error <= ERROR_SHARE * runner.design.line() || !runner.has_room(base.rows().len(), SHARE) {
            note(runner, answer, &members, &fit);
            keep_best(runner, answer, set, &levels, &fit, error);
            break;
        }
    }
    Ok(())
}

/// Stores the joint effect of each pair of knobs in the set, for the report page.
fn note(runner: &SearchRunner<'_>, answer: &mut Answer, members: &[usize], fit: &Fit) {
    let name = |at: usize| members.get(at).map_or_else(String::new, |knob| answer.knobs[*knob].settings.join(" "));
    let of = |estimate: &evenkeel_stats::designs::Estimate| match estimate.term {
        Term::Two(a, b) => Some(Interaction {
            knobs: [name(a), name(b)],
            ratio: runner.design.ratio(estimate.effect),
            p_value: estimate.p_value,
        }),
        Term::Main(_) => None,
    };
    answer.interactions = fit.estimates.iter().flatten().filter_map(of).collect();
}

fn terms(knobs: usize) -> Vec<Term> {
    let pairs = (0..knobs).flat_map(|a| (a + 1..knobs).map(move |b| Term::Two(a, b)));
    (0..knobs).map(Term::Main).chain(pairs).collect()
}

/// The level of each member when it is on.
fn levels_of(set: &Set) -> Vec<Level> {
    let on = |knob: &usize| match set.arm.level(*knob) {
        Level::AsItWas => Level::Planned,
        level => level.clone(),
    };
    set.members.iter().map(on).collect()
}

fn arm_of(set: &Set, levels: &[Level], row: &[Sign]) -> Arm {
    let mut arm = set.arm.clone();
    for ((knob, level), sign) in set.members.iter().zip(levels).zip(row) {
        arm.0[*knob] = if *sign == Sign::High { level.clone() } else { Level::AsItWas };
    }
    arm
}

/// Keeps the combination with the lowest predicted cost.
/// Among combinations within the tolerance, it keeps the combination with the fewest knobs.
/// If the predictions have a large error, the tolerance is zero, and the next stage removes knobs without effect.
fn keep_best(runner: &SearchRunner<'_>, answer: &mut Answer, set: &mut Set, levels: &[Level], fit: &Fit, error: f64) {
    let knobs = set.members.len();
    let all = (0..1_usize << knobs).map(|number| {
        let row: Vec<Sign> = (0..knobs).map(|at| if number >> at & 1 == 1 { Sign::High } else { Sign::Low }).collect();
        let cost = predicted(fit, &row);
        (row, cost)
    });
    let all: Vec<(Vec<Sign>, f64)> = all.filter(|(row, _)| !runner.is_banned(&arm_of(set, levels, row))).collect();
    let least = all.iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
    let tolerance = (runner.design.line() / 2.0 - error).max(0.0);
    let on = |row: &[Sign]| row.iter().filter(|sign| **sign == Sign::High).count();
    let good = all.into_iter().filter(|(_, cost)| *cost <= least + tolerance);
    let Some((best, _)) = good.min_by(|a, b| on(&a.0).cmp(&on(&b.0)).then(a.1.total_cmp(&b.1))) else { return };
    set.arm = arm_of(set, levels, &best);
    for (knob, _) in set.members.iter().zip(&best).filter(|(_, sign)| **sign == Sign::Low) {
        answer.knobs[*knob].outcome = KnobOutcome::LeftOut { why: NotNeeded::AddsNothing };
    }
    set.members.retain(|knob| *set.arm.level(*knob) != Level::AsItWas);
}

/// The predicted cost of a combination, relative to the mean. Uncertain interactions count as zero.
fn predicted(fit: &Fit, row: &[Sign]) -> f64 {
    let of = |estimate: &evenkeel_stats::designs::Estimate| match estimate.term {
        Term::Main(knob) => estimate.effect / 2.0 * row[knob].sign(),
        Term::Two(a, b) if estimate.t().abs() >= ERRORS => estimate.effect / 2.0 * row[a].sign() * row[b].sign(),
        Term::Two(..) => 0.0,
    };
    fit.estimates.iter().flatten().map(of).sum()
}
