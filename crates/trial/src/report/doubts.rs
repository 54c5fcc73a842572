//! What a sceptic should know of a session, the gravest first.

use std::collections::BTreeMap;

use evenkeel_stats::median;

use super::{ByArm, Outcome, Report};
use crate::arm::ArmName;
use crate::beside;
use crate::conditions::Conditions;
use crate::engaged;
use crate::rules::DropReason;
use crate::session::{Dropped, Ended, Left, LeftWhy, Stretch};

/// Above this share of dropped pairs the machine was too unsteady to trust what is left without saying so.
const DROPPED_SHARE_DOUBTFUL: f64 = 0.2;
/// Above this share of stolen time in the median window the hypervisor's part in the numbers is worth a word.
const STEAL_SHARE_DOUBTFUL: f64 = 0.02;

pub(super) fn doubts(report: &Report, no_value: ByArm) -> Vec<String> {
    let mut doubts = Vec::new();
    // Whatever else is said of a run that failed, it is said of a part of it.
    if let Ended::Failed { why } = &report.ended {
        doubts.push(format!("it failed after {} of {} pairs: {why}", report.pairs, report.design.stop.pairs_max()));
    }
    if let Some(control) = report.control_stretch.as_ref().filter(|control| control.is_claimed) {
        doubts.push(format!(
            "the machine compared with itself was called {}: something carries over from one window to the next, or the machine \
             is too unsteady; do not trust this run",
            control.verdict
        ));
    }
    doubts.extend(of_no_cpu(report.no_cpu_by_arm));
    doubts.extend(of_no_value(no_value));
    doubts.extend(engaged::doubts(&report.mechanism, report.verdict));
    of_guards(report, &mut doubts);
    if let Some(Left { why: LeftWhy::Harm { guard }, .. }) = &report.left
        && report.verdict == Outcome::Undecided
    {
        doubts.push(format!("it had no further windows once {guard} was harmed: what it does otherwise was left open"));
    }
    of_end(report, &mut doubts);
    of_drops(report, &mut doubts);
    if report.effect.is_some_and(|effect| effect.high.is_none() || effect.low.is_none()) {
        doubts.push(format!("{} pairs are too few for an interval at this confidence", report.pairs));
    }
    doubts.extend(report.settle.doubt());
    doubts.extend(beside::doubts(others(report)));
    of_conditions(report, &mut doubts);
    doubts
}

/// However few: these windows were the worst of their arm, and are in no number.
fn of_no_cpu(no_cpu: ByArm) -> Option<String> {
    let windows =
        |count: usize, what: &str| format!("{count} {} {what}", if count == 1 { "window" } else { "windows" });
    let (with, without) = (windows(no_cpu.b, "with the settings"), windows(no_cpu.a, "without them"));
    let told =
        |first: &str, rest: &str| format!("the server was given no CPU in {first} and {rest}, which have no number: ");
    match (no_cpu.a, no_cpu.b, no_cpu.only()) {
        (0, 0, _) => None,
        (_, _, Some(ArmName::A)) => Some(
            told(&windows(no_cpu.a, "without the settings"), "in none with them")
                + "they may be what gave it one, and the windows that are left can't show that they do nothing or harm",
        ),
        (_, _, Some(_)) => Some(
            told(&with, "in none without them")
                + "they may be what took its CPU, and the windows that are left can't show that they help or do nothing",
        ),
        _ => Some(told(&with, &without) + "somebody else has its CPU at times (`evenkeel measure gaps` tells who)"),
    }
}

/// Of one arm alone: where both lose windows, how many were dropped says it.
fn of_no_value(no_value: ByArm) -> Option<String> {
    let (with, count) = match no_value.only()? {
        ArmName::A => ("without the settings", no_value.a),
        _ => ("with the settings", no_value.b),
    };
    Some(format!(
        "{count} windows {with} had no value to compare, and none of the others: what the settings did there is in no number"
    ))
}

fn of_guards(report: &Report, doubts: &mut Vec<String>) {
    for guard in &report.guards {
        let name = &guard.metric.name;
        match guard.verdict {
            Outcome::Worse if report.vetoed_by.is_none() => doubts.push(format!("{name} got worse")),
            Outcome::Undecided | Outcome::NotEngaged if report.verdict == Outcome::Better => {
                let percent = guard.harm_ratio * 100.0;
                doubts.push(format!("whether {name} is {percent:.0} % worse could not be told"));
            }
            _ => {}
        }
    }
}

fn of_end(report: &Report, doubts: &mut Vec<String>) {
    let (counted, wanted) = (report.pairs, report.design.stop.pairs_max());
    match &report.ended {
        Ended::Whole | Ended::Decided | Ended::Failed { .. } => {}
        Ended::OutOfTime => doubts.push(format!("the time was over after {counted} of at most {wanted} pairs")),
        Ended::OutOfSpares => {
            doubts.push(format!("only {counted} of {wanted} pairs count: the spare ones were used up"));
        }
        Ended::Stopped => doubts.push(format!("it was stopped after {counted} of {wanted} pairs")),
        Ended::CutOff => doubts.push(format!("it was cut off after {counted} of {wanted} pairs")),
    }
}

fn of_drops(report: &Report, doubts: &mut Vec<String>) {
    let in_trial: Vec<&Dropped> = report.dropped.iter().filter(|dropped| dropped.stretch == Stretch::Trial).collect();
    let dropped = in_trial.len();
    let tried = report.pairs + dropped;
    if tried > 0 && dropped as f64 / tried as f64 > DROPPED_SHARE_DOUBTFUL {
        let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
        for dropped in in_trial {
            *by_kind.entry(dropped.reason.kind()).or_default() += 1;
        }
        let whys: Vec<String> = by_kind.into_iter().map(|(kind, count)| format!("{kind} in {count}")).collect();
        doubts.push(format!("{dropped} of {tried} pairs were dropped: {}", whys.join("; ")));
    }
    // However few: it goes on after the trial, where nobody looks.
    let changed = report.dropped.iter().filter_map(|dropped| match &dropped.reason {
        DropReason::Changed { what } => Some(what),
        _ => None,
    });
    let changed: Vec<&String> = changed.collect();
    if let Some(what) = changed.first() {
        doubts.push(format!(
            "somebody else wrote a setting of the trial in {} of its windows, first {what}: an agent that keeps settings would undo it for good too",
            changed.len()
        ));
    }
}

/// The other trials beside each window that was measured; beside the dropped ones too, which another trial may have spoiled.
fn others(report: &Report) -> impl Iterator<Item = &[String]> {
    let control = report.control_stretch.iter().flat_map(|control| &control.windows);
    let counted = report.windows.iter().chain(control).map(|window| &window.conditions.beside[..]);
    counted.chain(report.dropped.iter().map(|dropped| &dropped.beside[..]))
}

fn of_conditions(report: &Report, doubts: &mut Vec<String>) {
    let medians = |of: fn(&Conditions) -> Option<f64>| {
        let seen: Vec<f64> = report.windows.iter().filter_map(|window| of(&window.conditions)).collect();
        median(&seen)
    };
    if let Some(steal) = medians(|conditions| conditions.steal_share).filter(|steal| *steal > STEAL_SHARE_DOUBTFUL) {
        doubts.push(format!("{:.0} % of CPU time was stolen by the hypervisor in the median window", steal * 100.0));
    }
    if report.pairs > 0 && medians(|conditions| conditions.cpu_pressure_share).is_none() {
        doubts.push("/proc/pressure is not readable here: waiting for CPUs was not watched".into());
    }
}
