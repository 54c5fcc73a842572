//! Collects the caveats of a session, the most serious first.

use std::collections::BTreeMap;

use evenkeel_stats::{median, median_absolute_deviation};

use super::{ByArm, Report};
use crate::arm::ArmName;
use crate::caveat::Caveat;
use crate::concurrent_trials;
use crate::conditions::Conditions;
use crate::engaged;
use crate::outcome::Outcome;
use crate::rules::DropReason;
use crate::session::{Dropped, Ended, Left, LeftWhy, Stretch, Window, pairs_of};

/// A caveat reports an unsteady machine if more than this share of pairs was dropped.
const DROPPED_SHARE_CAVEAT: f64 = 0.2;
/// A caveat names the hypervisor if the median window has more than this share of stolen time.
const STEAL_SHARE_CAVEAT: f64 = 0.02;
/// Other programs' CPU time gets a caveat above this share, and so does the time in which some task waited for a CPU.
const OTHERS_SHARE_CAVEAT: f64 = 0.5;
const PRESSURE_SHARE_CAVEAT: f64 = 0.25;
/// A server fills one CPU or all CPUs if its CPU time is below the maximum by at most this share.
const FULL_SHARE: f64 = 0.05;
/// The noise of a single pair gets a caveat if it is at least this multiple of the smallest effect that matters.
const NOISE_TIMES_CAVEAT: f64 = 3.0;
/// The minimum number of pairs without any difference that gets a caveat. With fewer pairs, chance can be the reason.
const CONSTANT_PAIRS_MIN: usize = 3;
/// The factor from the median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_SD: f64 = 1.4826;

pub(super) fn caveats(report: &Report, no_value: ByArm) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let (pairs, of) = (report.pairs, report.design.stop.pairs_max());
    // This caveat comes first, because the others only concern the part of the run that was measured.
    if let Ended::Failed { why } = &report.ended {
        caveats.push(Caveat::Failed { why: why.clone(), pairs, of });
    }
    if let Some(control) = report.control_stretch.as_ref().filter(|control| control.is_claimed) {
        caveats.push(Caveat::ControlClaimed { verdict: control.verdict });
    }
    // Even a few such windows are reported. They were the worst windows of their arm, and no other number includes them.
    let ByArm { a, b } = report.no_cpu_by_arm;
    if a + b > 0 {
        caveats.push(Caveat::NoCpu { with: b, without: a });
    }
    // The caveat appears only if one arm alone has such windows. If both arms have them, the caveat on dropped pairs covers them.
    caveats.extend(no_value.only().map(|arm| {
        let windows = if arm == ArmName::A { no_value.a } else { no_value.b };
        Caveat::NoValue { arm, windows }
    }));
    caveats.extend(engaged::caveats(&report.mechanism, report.verdict));
    of_guards(report, &mut caveats);
    if let Some(Left { why: LeftWhy::Harm { guard }, .. }) = &report.left
        && report.verdict == Outcome::Undecided
    {
        caveats.push(Caveat::LeftByHarm { guard: guard.clone() });
    }
    caveats.extend(match &report.ended {
        Ended::Whole | Ended::Decided | Ended::Failed { .. } => None,
        Ended::OutOfTime => Some(Caveat::OutOfTime { pairs, of }),
        Ended::OutOfSpares => Some(Caveat::OutOfSpares { pairs, of }),
        Ended::Stopped => Some(Caveat::Stopped { pairs, of }),
        Ended::CutOff => Some(Caveat::CutOff { pairs, of }),
    });
    of_drops(report, &mut caveats);
    of_effect(report, &mut caveats);
    caveats.extend(report.settle.caveat());
    caveats.extend(concurrent_trials::caveats(others(report)));
    of_conditions(report, &mut caveats);
    caveats
}

fn of_guards(report: &Report, caveats: &mut Vec<Caveat>) {
    for guard in &report.guards {
        let metric = guard.metric.name.to_string();
        match guard.verdict {
            Outcome::Worse if report.vetoed_by.is_none() => caveats.push(Caveat::GuardWorse { metric }),
            Outcome::Undecided | Outcome::NotEngaged if report.verdict == Outcome::Better => {
                caveats.push(Caveat::GuardUnknown { metric, harm_ratio: guard.harm_ratio });
            }
            _ => {}
        }
    }
}

fn of_drops(report: &Report, caveats: &mut Vec<Caveat>) {
    let in_trial: Vec<&Dropped> = report.dropped.iter().filter(|dropped| dropped.stretch == Stretch::Trial).collect();
    let dropped = in_trial.len();
    let tried = report.pairs + dropped;
    if tried > 0 && dropped as f64 / tried as f64 > DROPPED_SHARE_CAVEAT {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for dropped in in_trial {
            *reasons.entry(dropped.reason.kind().to_owned()).or_default() += 1;
        }
        caveats.push(Caveat::Dropped { dropped, tried, reasons });
    }
    // Even a few such windows are reported, because the other program may still change the setting after the trial.
    let changed = report.dropped.iter().filter_map(|dropped| match &dropped.reason {
        DropReason::Changed { what } => Some(what),
        _ => None,
    });
    let changed: Vec<&String> = changed.collect();
    if let Some(what) = changed.first() {
        caveats.push(Caveat::Changed { what: (*what).clone(), windows: changed.len() });
    }
}

/// Adds the caveats on the estimate and its interval.
fn of_effect(report: &Report, caveats: &mut Vec<Caveat>) {
    let Some(effect) = report.effect else { return };
    caveats.extend(constant(report));
    let Some((low, high)) = effect.low.zip(effect.high) else {
        caveats.push(Caveat::TooFewPairs { pairs: report.pairs });
        return;
    };
    let ratio = effect.ratio;
    if matches!(report.verdict, Outcome::Better | Outcome::Worse) {
        let nearest_ratio = if ratio > 1.0 { low } else { high };
        if report.ended == Ended::Decided && nearest_ratio.ln().abs() < ratio.ln().abs() / 2.0 {
            caveats.push(Caveat::StoppedEarly { ratio, nearest_ratio, pairs: report.pairs });
        }
        let detectable = effect.smallest_visible_ratio.filter(|detectable| ratio.ln().abs() < detectable.ln_1p());
        caveats.extend(detectable.map(|detectable_ratio| Caveat::BelowDetectable { ratio, detectable_ratio }));
    }
    let smallest_effect_ratio = report.design.smallest_effect_ratio;
    let pairs = pairs_of(&report.windows, |window| Some(window.value));
    let logs: Vec<f64> = pairs.iter().map(|pair| (pair.b / pair.a).ln()).filter(|log| log.is_finite()).collect();
    let noise = median_absolute_deviation(&logs).map(|deviation| MAD_TO_SD * deviation);
    if let Some(noise) = noise.filter(|noise| *noise > NOISE_TIMES_CAVEAT * smallest_effect_ratio.ln_1p()) {
        caveats.push(Caveat::WideNoise { noise_ratio: noise.exp_m1(), smallest_effect_ratio });
    }
}

/// Finds a constant metric. A rate, a latency or a size of a real server differs from window to window, at least in its last digits.
fn constant(report: &Report) -> Option<Caveat> {
    let value = report.windows.first()?.value;
    let is_constant = report.pairs >= CONSTANT_PAIRS_MIN && report.windows.iter().all(|window| window.value == value);
    is_constant.then(|| Caveat::Constant { metric: report.metric.name.to_string(), value })
}

/// The other trials that ran during each window. Dropped windows are included, because another trial may have disturbed them too.
fn others(report: &Report) -> impl Iterator<Item = &[String]> {
    let control = report.control_stretch.iter().flat_map(|control| &control.windows);
    let counted = report.windows.iter().chain(control).map(|window| &window.conditions.other_trials[..]);
    counted.chain(report.dropped.iter().map(|dropped| &dropped.other_trials[..]))
}

/// Adds the caveats on the machine and the server in the median window.
fn of_conditions(report: &Report, caveats: &mut Vec<Caveat>) {
    let median_of =
        |of: &dyn Fn(&Window) -> Option<f64>| median(&report.windows.iter().filter_map(of).collect::<Vec<_>>());
    let share = |of: &dyn Fn(&Window) -> Option<f64>, from: f64| median_of(of).filter(|share| *share > from);
    caveats
        .extend(share(&|window| others_share(window), OTHERS_SHARE_CAVEAT).map(|share| Caveat::OthersBusy { share }));
    let pressure = |window: &Window| window.conditions.cpu_pressure_share;
    caveats.extend(share(&pressure, PRESSURE_SHARE_CAVEAT).map(|share| Caveat::Pressure { share }));
    let server = median_of(&|window| window.sample.get("cpu_share").copied());
    let cpus = median_of(&|window| window.conditions.cpus.map(f64::from));
    let is_full = |share: f64| {
        let of = |all: f64| (share / all - 1.0).abs() <= FULL_SHARE;
        of(1.0) || cpus.is_some_and(of)
    };
    caveats.extend(server.filter(|share| is_full(*share)).map(|share| Caveat::ServerFull { share }));
    let ticks = median_of(&|window| window.sample.get("ticks").copied());
    let metrics = [&report.metric].into_iter().chain(report.guards.iter().map(|guard| &guard.metric));
    for metric in metrics {
        if let Some(ticks) = ticks.filter(|ticks| *ticks < ticks_wanted(&metric.name)) {
            caveats.push(Caveat::FewTicks { metric: metric.name.to_string(), ticks: ticks as u64 });
        }
    }
    let steal = |window: &Window| window.conditions.steal_share;
    caveats.extend(share(&steal, STEAL_SHARE_CAVEAT).map(|share| Caveat::Steal { share }));
    // On a simulated machine, evenkeel uses no CPU time and reads no pressure.
    let is_real = median_of(&|window| window.conditions.own_cpu_us).is_some();
    if is_real && median_of(&pressure).is_none() {
        caveats.push(Caveat::NoPressure);
    }
}

/// The CPU time of all other processes, as a share of all CPUs.
fn others_share(window: &Window) -> Option<f64> {
    let Conditions { busy_share, cpus, own_cpu_us, span_us, .. } = &window.conditions;
    let own = own_cpu_us.filter(|_| *span_us > 0.0).map_or(0.0, |own| own / span_us);
    let known = window.sample.get("cpu_share").copied()? + own;
    Some((*busy_share)? - known / f64::from((*cpus)?.max(1)))
}

/// The number of ticks that a window should have for the quantile in this metric's name.
/// The result is twice the number at which one tick is beyond the quantile.
/// The result is 0 for metrics without a quantile.
pub fn ticks_wanted(metric: &str) -> f64 {
    let beyond = [("_p999", 1000.0), ("_p99", 100.0), ("_p95", 20.0), ("_p90", 10.0)];
    beyond.iter().find(|(tail, _)| metric.ends_with(tail)).map_or(0.0, |(_, ticks)| 2.0 * ticks)
}
