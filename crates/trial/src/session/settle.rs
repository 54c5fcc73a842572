//! Finds the settle time: how long a metric keeps moving after a knob changes. We switch a few times and record short windows after each
//! switch. We compare early windows with late windows of the same switch, so a real effect of the knob is never mistaken for drift.

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

/// The maximum number of attempts. A second one follows if the number seems to move after a switch: the effect of a switch repeats, that of
/// a neighbour does not.
const LOOKS: usize = 2;
/// Short windows after each switch that are compared with the last few.
const TESTED: usize = 5;
/// The largest difference of a median over [`SWITCHES`] from its level that noise explains, in standard deviations of a
/// short window. Ten such medians are tested. On recorded machines with heavy tails, noise exceeds this in at most 5 of
/// 100 settings, over both attempts.
const NOISE_FACTOR: f64 = 2.0;

/// The values of the short windows after each switch, without dropped ones.
type Series = Vec<(ArmName, Vec<Option<f64>>)>;

/// Finds it, unless the user stops. `elapsed` is the used part of the budget.
pub(crate) fn find(trial: &mut Trial<'_, '_>, pace: Pace, elapsed: Duration) -> Result<Option<SettleSeen>, TrialError> {
    let Settle::Found { least, most } = trial.design.settle else {
        return Ok(Some(SettleSeen::fixed(trial.design.settle.least())));
    };
    let step = settle_step(trial.design, pace);
    let begun = trial.watch.clock().now();
    // A settle time for which the budget has no room would leave no pairs.
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
            // If the server is gone, the first window reports it again.
            // Measurements from before that count.
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
        // If a second attempt does not fit, the first one may give too long a settle time. That costs windows, but the result stays
        // correct.
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

/// Whether the budget, if there is one, has this much time left.
fn allows(design: &Design, pace: Pace, takes: Duration) -> bool {
    design.settle_room(pace).is_none_or(|room| takes <= room)
}

/// How the measurement after some switches ended.
enum Followed {
    Whole,
    Stopped,
    /// The reason why a window could not be measured.
    Failed(TrialError),
}

/// Switches [`SWITCHES`] times to each arm, and adds the short windows after each to `series`.
fn switches(trial: &mut Trial<'_, '_>, step: Duration, series: &mut Series) -> Result<Followed, TrialError> {
    for _ in 0..SWITCHES {
        for arm in ArmName::further(trial.arms.len()).rev().chain([ArmName::A]) {
            if (trial.stop)() {
                return Ok(Followed::Stopped);
            }
            trial.switch.to(&trial.arms[arm as usize], trial.workload)?;
            match follow(trial, step) {
                Ok(values) => series.push((arm, values)),
                // The wait ended early.
                Err(_) if (trial.stop)() => return Ok(Followed::Stopped),
                Err(error) => return Ok(Followed::Failed(error)),
            }
        }
    }
    Ok(Followed::Whole)
}

/// The interleaves of each window: the requested number if a switch with its settle time takes at most half of an interleave, else 1.
/// Measures the switch itself by going to each arm and back, because a workload may restart for its setting. A workload that restarts, or
/// opens new sockets, does so as rarely as possible: a new process behaves unlike one that has run for days.
pub(crate) fn interleaves(trial: &mut Trial<'_, '_>, settle: &SettleSeen) -> Result<u32, TrialError> {
    let asked = trial.design.interleaves;
    if asked <= 1 || settle.how == SettleHow::Unsettled || matches!(settle.how, SettleHow::Guessed { .. }) {
        return Ok(1);
    }
    let ways = |arm| trial.switch.ways(arm);
    if trial.arms.iter().flat_map(ways).any(|way| way > Reach::AtOnce) {
        return Ok(1);
    }
    // Each arm gets the shorter of two durations: if the machine is taken away meanwhile, a duration only grows.
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

/// The values of the short windows after one switch, without dropped ones.
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

/// The first position without drift from there on; none if the last tested position drifts. Also the drift of each
/// position, in logarithms.
fn settled_at(series: &[(ArmName, Vec<Option<f64>>)], smallest_effect_ratio: f64) -> (Option<usize>, Vec<f64>) {
    let arms = ArmName::ALL.map(|arm| away_from_level(series.iter().filter(|(of, _)| *of == arm)));
    // The difference between two switches to the same arm, at the same position. It contains only the machine's noise,
    // because both contain the effect of the switch. The windows of a level are as far apart as those compared with it,
    // so slow noise counts in full. The factor turns it into a standard deviation, for normal noise.
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

/// Each switch's first windows minus the level that follows, in logarithms. A switch without a level has none.
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

/// The absolute difference between every two switches at this position.
fn differences(away: &[Vec<Option<f64>>], at: usize) -> Vec<f64> {
    let values = at_position(away, at);
    let of_two =
        |(nth, one): (usize, &f64)| values.iter().skip(nth + 1).map(|two| (one - two).abs()).collect::<Vec<_>>();
    values.iter().enumerate().flat_map(of_two).collect()
}

#[cfg(test)]
mod tests;
