//! The guards of a search.
//! If an arm with many knobs was stopped, the guards find the knob that caused this.
//! The guards also find knobs, and sets, that make a guard's metric worse.

use evenkeel_stats::designs::{Run, Term, fit};

use super::knob_outcome::KnobOutcome;
use super::rows::{ERRORS, Rows};
use super::runner::{Halt, SearchRunner, WindowOutcome};
use crate::arm::{Arm, Level};

/// Halves the suspected knobs until one knob is left, and takes that knob out of the search.
/// If the machine or several knobs together were the cause, no knob is taken out. Then only the arm stays forbidden.
pub(super) fn find_culprit(runner: &mut SearchRunner<'_>, arm: &Arm) -> Result<(), Halt> {
    // Each further end of the server costs a restart. The first two ends were no accident, so one end is enough from now on.
    runner.believes_one_death = true;
    let found = halve(runner, arm);
    runner.believes_one_death = false;
    found
}

fn halve(runner: &mut SearchRunner<'_>, arm: &Arm) -> Result<(), Halt> {
    let baseline = runner.design.baseline();
    if let WindowOutcome::Value(value) = runner.window(&baseline)?
        && (runner.is_harm(value) || runner.wrecked_last().is_some())
    {
        runner.pardon(arm);
        return Ok(());
    }
    let mut suspects: Vec<usize> =
        (0..arm.0.len()).filter(|knob| *arm.level(*knob) != Level::AsItWas && runner.is_in(*knob)).collect();
    let mut is_sure = false;
    while suspects.len() > 1 {
        let other = suspects.split_off(suspects.len() / 2);
        is_sure = hurts(runner, arm, &suspects)?;
        if !is_sure {
            suspects = other;
        }
    }
    let [one] = suspects[..] else { return Ok(()) };
    if is_sure || hurts(runner, arm, &[one])? {
        runner.take_out(one, KnobOutcome::Stopped);
    }
    Ok(())
}

/// Whether the arm is also stopped when it switches only these of its knobs.
fn hurts(runner: &mut SearchRunner<'_>, arm: &Arm, knobs: &[usize]) -> Result<bool, Halt> {
    let mut fewer = runner.design.baseline();
    for knob in knobs {
        fewer.0[*knob] = arm.level(*knob).clone();
    }
    Ok(runner.window(&fewer)? == WindowOutcome::Hurt)
}

/// Takes out the knobs that make a guard worse by at least its limit.
/// All knobs are estimated together from all windows of the screening.
/// Otherwise a harmful knob could enter the set, and the guard would reject the whole set.
pub(super) fn take_out_harmful(runner: &mut SearchRunner<'_>, seen: &Rows, knobs: usize) {
    let terms: Vec<Term> = (0..knobs).map(Term::Main).collect();
    let design = runner.design;
    for (at, guard) in design.guards.iter().enumerate() {
        let cost = |value: f64| guard.metric.times_worse(value).ln();
        let (mut rows, mut costs) = (Vec::new(), Vec::new());
        for (two, numbers) in seen.rows.chunks_exact(2).zip(seen.guarded.chunks_exact(2)) {
            let of = |window: &Vec<Option<f64>>| window.get(at).copied().flatten();
            if let (Some(first), Some(second)) = (of(&numbers[0]), of(&numbers[1])) {
                rows.extend(two);
                costs.extend([cost(first), cost(second)]);
            }
        }
        let numbers = rows.iter().zip(&costs).enumerate();
        let runs: Vec<Run<'_>> =
            numbers.map(|(at, (levels, value))| Run { levels, block: at / 2, value: *value }).collect();
        let Ok(fit) = fit(&runs, &terms) else { continue };
        let harm = guard.harm_ratio.ln_1p();
        for knob in (0..knobs).filter(|knob| runner.is_in(*knob)).collect::<Vec<_>>() {
            let Some(found) = fit.get(Term::Main(knob)) else { continue };
            if found.effect >= harm && found.effect >= ERRORS * found.error {
                let times = guard.metric.times_worse(found.effect.exp());
                let why = format!(
                    "{} is worse by a factor of {times:.2}, estimated together with all other knobs",
                    guard.metric.name
                );
                runner.take_out(knob, KnobOutcome::Vetoed { why });
            }
        }
    }
}
