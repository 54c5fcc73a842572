//! Makes a report of a record. Nothing here looks at a machine: the same record gives the same report, today and from a file.

use evenkeel_stats::median;

use super::doubts::doubts;
use super::{ArmReport, ByArm, ControlReport, Cost, Effect, GuardReport, Outcome, Report, Titles};
use crate::arm::ArmName;
use crate::design::Design;
use crate::engaged::{self, Engaged};
use crate::error::TrialError;
use crate::session::{Judge, Record, Window, pairs_of};

/// What is told as a cost: its name, what it is, and where a window has it.
type Price = (&'static str, &'static str, fn(&Window) -> Option<f64>);

const PRICES: [Price; 6] = [
    ("server_cpu_share", "CPU time of the server, in one CPU's", |window| window.sample.get("cpu_share").copied()),
    ("machine_busy_share", "CPU time of the whole machine that was not idle", |window| window.conditions.busy_share),
    ("idle_polling_share", "time that idle CPUs polled: power, and the host's time", |window| {
        window.conditions.idle_polling_share
    }),
    ("memory_used_bytes", "memory in use on the whole machine", |window| window.conditions.memory_used_bytes),
    ("power_w", "power of the processor packages", |window| window.conditions.power_w),
    ("own_cpu_us", "CPU time of evenkeel itself in a window", |window| window.conditions.own_cpu_us),
];

impl Record {
    /// Judges what was seen.
    ///
    /// # Errors
    /// If a window's number is none that can be compared (zero, negative or not finite).
    pub fn report(self, design: &Design, titles: Titles) -> Result<Report, TrialError> {
        let mut judge = Judge::of_metric(design)?;
        for pair in pairs_of(&self.windows, |window| Some(window.value)) {
            judge.add(pair)?;
        }
        let seen = judge.look();
        let guards = guards(design, &self.windows)?;
        let mechanism = engaged::mechanisms(&self);
        let (verdict, vetoed_by) =
            verdict(seen.map_or(Outcome::Undecided, |seen| seen.verdict.into()), &guards, &mechanism);
        let control_stretch = ControlReport::of(design, &self.control)?;
        let mut report = Report {
            title: titles.title,
            metric: design.metric.clone(),
            arms: [ArmName::A, ArmName::B].map(|arm| self.arm(arm, &titles.values[arm as usize])).to_vec(),
            pairs: self.windows.len() / 2,
            effect: seen.map(|seen| Effect::of(&seen, &judge)),
            verdict,
            vetoed_by,
            guards,
            costs: costs(&self.windows),
            mechanism,
            control_stretch,
            dropped_by_arm: ByArm {
                a: self.dropped.iter().filter(|dropped| dropped.arm == ArmName::A).count(),
                b: self.dropped.iter().filter(|dropped| dropped.arm == ArmName::B).count(),
            },
            dropped: self.dropped,
            doubts: self.mishaps,
            seed: design.seed,
            design: design.clone(),
            settle: self.settle,
            ended: self.ended,
            workload: titles.workload,
            identity: titles.identity,
            windows: self.windows,
        };
        let found = doubts(&report);
        report.doubts.splice(0..0, found);
        Ok(report)
    }

    fn arm(&self, arm: ArmName, values: &str) -> ArmReport {
        let of = |number: fn(&Window) -> Option<f64>| median_of(&self.windows, arm, number);
        ArmReport {
            arm,
            does: self.arms[arm as usize].clone(),
            values: values.to_owned(),
            median: of(|window| Some(window.value)),
            cpu_share: of(|window| window.sample.get("cpu_share").copied()),
        }
    }
}

/// The verdict of the number that decides, after guards and mechanism had their say.
fn verdict(seen: Outcome, guards: &[GuardReport], mechanism: &[engaged::Mechanism]) -> (Outcome, Option<String>) {
    let harmed = guards.iter().find(|guard| guard.verdict == Outcome::Worse);
    match (seen, harmed) {
        // Only a claim can be vetoed: two arms that are alike are then called worse no more often than they are called better.
        (Outcome::Better, Some(guard)) => (Outcome::Worse, Some(guard.metric.name.to_string())),
        // A difference that was seen stands; only its absence has another explanation.
        (Outcome::Same | Outcome::Undecided, _) if none_was_at_work(mechanism) => (Outcome::NotEngaged, None),
        _ => (seen, None),
    }
}

/// Whether of every knob a counter shows that it was not at work.
fn none_was_at_work(mechanism: &[engaged::Mechanism]) -> bool {
    !mechanism.is_empty() && mechanism.iter().all(|knob| matches!(knob.engaged, Engaged::No { .. }))
}

fn guards(design: &Design, windows: &[Window]) -> Result<Vec<GuardReport>, TrialError> {
    let judges = Judge::of_guards(design)?;
    let judged = design.guards.iter().zip(judges).map(|(guard, mut judge)| {
        for pair in pairs_of(windows, |window| window.sample.get(guard.metric.name.as_ref()).copied()) {
            // As in the loop: a pair of numbers without a ratio tells nothing.
            let _ = judge.add(pair);
        }
        let seen = judge.look();
        GuardReport {
            metric: guard.metric.clone(),
            harm_ratio: guard.harm_ratio,
            pairs: seen.map_or(0, |seen| seen.pairs),
            effect: seen.map(|seen| Effect::of(&seen, &judge)),
            verdict: seen.map_or(Outcome::Undecided, |seen| seen.verdict.into()),
        }
    });
    Ok(judged.collect())
}

fn costs(windows: &[Window]) -> Vec<Cost> {
    let cost = |(name, title, of): &Price| {
        let (a, b) = (median_of(windows, ArmName::A, *of)?, median_of(windows, ArmName::B, *of)?);
        Some(Cost { name: (*name).to_owned(), title: (*title).to_owned(), a, b })
    };
    PRICES.iter().filter_map(cost).collect()
}

/// The median over an arm's windows of what a window has.
pub(crate) fn median_of(windows: &[Window], arm: ArmName, number: impl Fn(&Window) -> Option<f64>) -> Option<f64> {
    let of_arm = windows.iter().filter(|window| window.arm == arm);
    median(&of_arm.filter_map(number).collect::<Vec<_>>())
}
