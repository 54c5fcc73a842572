//! Finds the settle time: how long a metric keeps moving after a knob changes.
//! We switch a few times and record short windows after each switch.
//! We compare early windows with late windows of the same switch, so a real effect of the knob is never mistaken for drift.

use std::time::Duration;

use evenkeel_stats::median;

use crate::arm::ArmName;
use crate::design::{Design, Settle};
use crate::error::TrialError;
use crate::schedule::{Pace, STEPS, SWITCHES, is_shared, settle_step, switches_followed};
use crate::session::Trial;
use crate::session::settled::{SettleHow, SettleSeen, as_ms};
use crate::switch::Reach;
use crate::window::Measured;

/// The maximum number of attempts. A second attempt follows if the metric seems to move after a switch.
/// If a switch is the cause, the movement repeats.
/// If a neighbour was the cause, the movement does not repeat.
const LOOKS: usize = 2;
/// The number of short windows after each switch that are compared with the last few windows.
const TESTED: usize = 5;
/// How far a median over [`SWITCHES`] may be from its level through noise alone, in standard deviations of a short window.
/// The test covers ten such medians.
/// On recorded machines with heavy tails, noise exceeds this limit in at most 5 of 100 settings, over both attempts.
const NOISE_FACTOR: f64 = 2.0;

/// For each switch: the arm, and the values of the short windows after it. Dropped windows are None.
type Series = Vec<(ArmName, Vec<Option<f64>>)>;

/// Finds the settle time. None if the user stopped the session. `elapsed` is the used part of the budget.
pub(crate) fn find(trial: &mut Trial<'_, '_>, pace: Pace, elapsed: Duration) -> Result<Option<SettleSeen>, TrialError> {
    let Settle::Found { least, most } = trial.design.settle else {
        return Ok(Some(SettleSeen::fixed(trial.design.settle.least())));
    };
    let step = settle_step(trial.design, pace);
    let begun = trial.watch.clock().now();
    // Too long a settle time would leave no time for pairs in the budget.
    let room = |trial: &Trial<'_, '_>| {
        let gone = elapsed.saturating_add(trial.watch.clock().since(begun));
        trial.design.quiet_max(pace, gone).unwrap_or(Duration::MAX)
    };
    let mut series = Vec::with_capacity(trial.arms.len() * SWITCHES * LOOKS);
    let (mut position, mut drift) = (None, Vec::new());
    for look in 1..=LOOKS as u32 {
        match switches(trial, step, &mut series)? {
            Followed::Whole => {}
            Followed::Stopped => return Ok(None),
            // If the server has ended, the first window of the trial will report this. Earlier measurements are still used.
            Followed::Failed(_) if !drift.is_empty() => break,
            Followed::Failed(why) => {
                let most = most.min(room(trial)).max(least);
                let time = (trial.design.window / 2).clamp(least, most);
                let how = SettleHow::Guessed { why: format!("windows of {step:?} were not measured: {why}") };
                return Ok(Some(SettleSeen { how, ..SettleSeen::fixed(time) }));
            }
        }
        (position, drift) = settled_at(&series, trial.design.smallest_effect_ratio);
        let took =
            (trial.watch.clock().since(begun) / look).max(step * STEPS as u32 * switches_followed(trial.arms.len()));
        // If the budget has no room for a second attempt, the settle time of the first attempt may be too long.
        // Too long a settle time reduces the number of windows, but the result stays correct.
        if position == Some(0) || !allows(trial.design, pace, took * (look + 1)) {
            break;
        }
    }
    let (how, steps) = position.map_or((SettleHow::Unsettled, STEPS), |position| (SettleHow::Found, position));
    let wanted = (step * u32::try_from(steps).unwrap_or(u32::MAX)).max(least);
    let time = wanted.min(most).min(room(trial)).max(least);
    let how = if time < wanted { SettleHow::Unsettled } else { how };
    let drift_ratios = drift.into_iter().map(f64::exp_m1).collect();
    let step_ms = Some(as_ms(step));
    Ok(Some(SettleSeen { settle_ms: as_ms(time), how, drift_ratios, step_ms, interleaves: None }))
}

/// Whether the budget has this much time left. True without a budget.
fn allows(design: &Design, pace: Pace, takes: Duration) -> bool {
    design.settle_room(pace).is_none_or(|room| takes <= room)
}

/// The result of measuring after some switches.
enum Followed {
    Whole,
    Stopped,
    /// The reason why a window could not be measured.
    Failed(TrialError),
}

/// Switches [`SWITCHES`] times to each arm, and adds the short windows after each switch to `series`.
fn switches(trial: &mut Trial<'_, '_>, step: Duration, series: &mut Series) -> Result<Followed, TrialError> {
    for _ in 0..SWITCHES {
        for arm in ArmName::further(trial.arms.len()).rev().chain([ArmName::A]) {
            if (trial.stop)() {
                return Ok(Followed::Stopped);
            }
            trial.switch.to(&trial.arms[arm as usize], trial.workload)?;
            match follow(trial, step) {
                Ok(values) => series.push((arm, values)),
                // The user stopped the wait.
                Err(_) if (trial.stop)() => return Ok(Followed::Stopped),
                Err(error) => return Ok(Followed::Failed(error)),
            }
        }
    }
    Ok(Followed::Whole)
}

/// The number of interleaves of each window.
/// The result is the requested number if a switch with its settle time takes at most half of an interleave, else 1.
/// To measure the switch, the trial goes to each arm and back, because a workload may restart for a setting.
/// The number is 1 for a workload that restarts or opens new sockets.
/// A new process behaves differently from a process that has run for days.
pub(crate) fn interleaves(trial: &mut Trial<'_, '_>, settle: &SettleSeen) -> Result<u32, TrialError> {
    let asked = trial.design.interleaves;
    if asked <= 1 || settle.how == SettleHow::Unsettled || matches!(settle.how, SettleHow::Guessed { .. }) {
        return Ok(1);
    }
    let ways = |arm| trial.switch.ways(arm);
    if trial.arms.iter().flat_map(ways).any(|way| way > Reach::AtOnce) {
        return Ok(1);
    }
    // Each arm gets the shorter of two measurements. A pause of the machine can only lengthen a measurement.
    let mut took = vec![Duration::MAX; trial.arms.len()];
    for _ in 0..2 {
        for arm in ArmName::further(trial.arms.len()).chain([ArmName::A]) {
            let begun = trial.watch.clock().now();
            trial.switch.to(&trial.arms[arm as usize], trial.workload)?;
            took[arm as usize] = took[arm as usize].min(trial.watch.clock().since(begun));
        }
    }
    let longest = took.into_iter().max().unwrap_or_default();
    Ok(if is_shared(trial.design, longest + settle.time()) { asked } else { 1 })
}

/// Measures the short windows after one switch. Dropped windows are None.
fn follow(trial: &mut Trial<'_, '_>, step: Duration) -> Result<Vec<Option<f64>>, TrialError> {
    let Design { metric, rules, .. } = trial.design;
    let mut values = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        let Measured { sample, conditions, .. } = trial.watch.measure(trial.workload, Duration::ZERO, step)?;
        let sample = sample.unwrap_or_default();
        let value = sample.get(metric.name.as_ref()).copied().filter(|value| value.is_finite() && *value > 0.0);
        values.push(value.filter(|_| rules.judge(step, &conditions).is_none()));
    }
    Ok(values)
}

/// The first position from which on there is no drift. None if the last tested position still drifts.
/// The function also returns the drift at each position, in logarithms.
fn settled_at(series: &[(ArmName, Vec<Option<f64>>)], smallest_effect_ratio: f64) -> (Option<usize>, Vec<f64>) {
    let arms = ArmName::ALL.map(|arm| away_from_level(series.iter().filter(|(of, _)| *of == arm)));
    // Two switches to the same arm have the same effect. So at the same position, their difference has only the machine's noise.
    // The windows of a level are as far apart in time as the windows that are compared with it. So slow noise is fully included.
    // For normal noise, the factor turns the median into a standard deviation.
    let apart = arms.iter().flat_map(|away| (0..TESTED).flat_map(|at| differences(away, at)));
    let noise = median(&apart.collect::<Vec<_>>()).unwrap_or(0.0) * 1.048;
    let switches = arms.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let less = (SWITCHES as f64 / switches as f64).sqrt();
    let bound = (NOISE_FACTOR * noise * less).max((smallest_effect_ratio / 2.0).ln_1p());
    let drift_of = |away: &Vec<Vec<Option<f64>>>, at| median(&at_position(away, at)).map_or(0.0, f64::abs);
    let drift: Vec<f64> =
        (0..TESTED).map(|at| arms.iter().map(|away| drift_of(away, at)).fold(0.0, f64::max)).collect();
    let position = drift.iter().rposition(|drift| *drift > bound).map_or(0, |last| last + 1);
    ((position < TESTED).then_some(position), drift)
}

/// For each switch: how far each of its first windows is from the level of the later windows (their median), in logarithms.
/// A switch whose later windows have no values is left out.
fn away_from_level<'a>(series: impl Iterator<Item = &'a (ArmName, Vec<Option<f64>>)>) -> Vec<Vec<Option<f64>>> {
    let of_switch = |(_, values): &(ArmName, Vec<Option<f64>>)| {
        let logs: Vec<Option<f64>> = values.iter().map(|value| value.map(f64::ln)).collect();
        let level = median(&logs.iter().skip(TESTED).flatten().copied().collect::<Vec<_>>())?;
        Some(logs.iter().take(TESTED).map(|log| log.map(|log| log - level)).collect())
    };
    series.filter_map(of_switch).collect()
}

fn at_position(away: &[Vec<Option<f64>>], at: usize) -> Vec<f64> {
    away.iter().filter_map(|logs| logs.get(at).copied().flatten()).collect()
}

/// The absolute difference between every two switches, at this position.
fn differences(away: &[Vec<Option<f64>>], at: usize) -> Vec<f64> {
    let values = at_position(away, at);
    let of_two =
        |(nth, one): (usize, &f64)| values.iter().skip(nth + 1).map(|two| (one - two).abs()).collect::<Vec<_>>();
    values.iter().enumerate().flat_map(of_two).collect()
}

#[cfg(test)]
mod tests;
