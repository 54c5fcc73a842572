//! Builds a report from a record. It reads nothing from the machine, so a stored record always gives the same report.

use std::collections::BTreeSet;

use evenkeel_stats::median;

use super::caveats::caveats;
use super::choice::Choice;
use super::verdict::{Found, verdict};
use super::{ArmReport, ByArm, ControlReport, Cost, GuardReport, Report};
use crate::arm::ArmName;
use crate::caveat::Caveat;
use crate::design::Design;
use crate::effect::Effect;
use crate::engaged;
use crate::error::TrialError;
use crate::outcome::Outcome;
use crate::rules::DropReason;
use crate::session::{ArmState, Dropped, Ended, MultiArmTest, Record, Stretch, Window, blocks};
use crate::titles::Titles;

/// The reports of all arms against A, and the choice among them.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// The report of each arm against A, in order.
    pub reports: Vec<Report>,
    /// The choice among several arms. None with two arms.
    pub choice: Option<Choice>,
}

/// A cost: its name, its title, and the function that reads it from a window.
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

/// The number of windows without a value for this reason, by arm. They may be the worst windows of their arm.
#[derive(Clone, Copy)]
struct Lost {
    no_cpu: ByArm,
    no_value: ByArm,
}

impl Lost {
    fn both(self) -> ByArm {
        ByArm { a: self.no_cpu.a + self.no_value.a, b: self.no_cpu.b + self.no_value.b }
    }
}

impl Record {
    /// Makes the report of arm B, the first arm after A.
    ///
    /// # Errors
    /// Fails if the value of a window can't be compared (zero, negative or not finite).
    pub fn report(self, design: &Design, titles: Titles) -> Result<Report, TrialError> {
        let mut answers = self.answers(design, titles)?;
        match answers.reports.is_empty() {
            true => Err(TrialError::Design("there is no arm besides A".to_owned())),
            false => Ok(answers.reports.swap_remove(0)),
        }
    }

    /// Makes the report of each arm against A, and chooses the best of several arms.
    ///
    /// # Errors
    /// Fails as [`Record::report`] does.
    pub fn answers(self, design: &Design, titles: Titles) -> Result<Answers, TrialError> {
        let test = MultiArmTest::from_record(design, &self)?;
        let had = test.further().iter().map(|state| state.test.judge.pairs()).max().unwrap_or(0);
        let control = ControlReport::new(design, &self.control, test.further().len(), had)?;
        let of = |state: &ArmState| {
            let view = self.against_a(&test, state, &titles);
            let lost = Lost {
                no_cpu: self.lost(state, |reason| matches!(reason, DropReason::NoCpu { .. })),
                no_value: self.lost(state, |reason| matches!(reason, DropReason::NoValue { .. })),
            };
            view.judged(&test, state, design, &titles, control.clone(), lost)
        };
        let reports = test.further().iter().map(of).collect::<Result<Vec<Report>, _>>()?;
        let choice = (reports.len() > 1).then(|| Choice::new(design, &test, &reports, &titles));
        Ok(Answers { reports, choice })
    }

    /// The record of A and one other arm. The report calls that arm B, as in a trial of two arms.
    fn against_a(&self, test: &MultiArmTest, state: &ArmState, titles: &Titles) -> Record {
        let is_in = |arm: ArmName| arm == ArmName::A || arm == state.name;
        let named = |arm: ArmName| if arm == state.name { ArmName::B } else { arm };
        let mut view = Record {
            windows: Vec::new(),
            dropped: Vec::new(),
            control: Vec::new(),
            arms: [ArmName::A, state.name].iter().filter_map(|arm| self.arms.get(*arm as usize)).cloned().collect(),
            ..self.clone()
        };
        let last = state.left.as_ref().map_or(usize::MAX, |left| left.block);
        for block in blocks(&self.windows).filter(|block| block[0].pair <= last) {
            let two: Vec<&Window> = block.iter().filter(|window| is_in(window.arm)).collect();
            if two.len() == 2 {
                view.windows.extend(two.into_iter().map(|window| Window { arm: named(window.arm), ..window.clone() }));
            }
        }
        // Count a dropped pair once, even if the rules reject both of its windows.
        let mut seen = BTreeSet::new();
        for dropped in &self.dropped {
            let concerns = dropped.stretch != Stretch::Trial || (is_in(dropped.arm) && dropped.pair <= last);
            let at = (dropped.stretch, dropped.pair);
            if concerns && seen.insert(at) {
                let arm = if dropped.stretch == Stretch::Trial { named(dropped.arm) } else { dropped.arm };
                view.dropped.push(Dropped { arm, ..dropped.clone() });
            }
        }
        if let Some(away) = titles.away.get(state.name as usize) {
            view.knobs.retain(|knob| away.knobs.contains(knob));
        }
        // The end of the session does not affect an arm that was decided earlier.
        let is_cut =
            matches!(view.ended, Ended::Whole | Ended::OutOfTime | Ended::OutOfSpares | Ended::Stopped | Ended::CutOff);
        if test.further().len() > 1 && is_cut && test.is_settled(state) {
            view.ended = Ended::Decided;
        }
        view
    }

    /// The number of windows of A and of one arm that were dropped for such a reason. Both windows of a dropped pair count.
    fn lost(&self, state: &ArmState, is_one: fn(&DropReason) -> bool) -> ByArm {
        let last = state.left.as_ref().map_or(usize::MAX, |left| left.block);
        let of = |arm: ArmName| {
            let is_counted = |dropped: &&Dropped| {
                let is_of_trial = dropped.stretch == Stretch::Trial && dropped.pair <= last;
                is_of_trial && dropped.arm == arm && is_one(&dropped.reason)
            };
            self.dropped.iter().filter(is_counted).count()
        };
        ByArm { a: of(ArmName::A), b: of(state.name) }
    }

    fn judged(
        self,
        test: &MultiArmTest,
        state: &ArmState,
        design: &Design,
        titles: &Titles,
        control_stretch: Option<ControlReport>,
        lost: Lost,
    ) -> Result<Report, TrialError> {
        let seen = state.test.judge.look();
        let guards = guards(state);
        let mechanism = engaged::mechanisms(&self);
        let harmed = guards.iter().find(|guard| guard.verdict == Outcome::Worse);
        let (verdict, vetoed_by) = verdict(Found {
            seen: seen.map_or(Outcome::Undecided, |seen| seen.verdict.into()),
            is_too_short: is_too_short(&self.ended, design, state.test.judge.pairs()),
            harmed_guard: harmed.map(|guard| guard.metric.name.as_ref()),
            arm_without_numbers: lost.both().only(),
            none_acted: engaged::none_engaged(&mechanism),
        });
        let title = match test.further().len() {
            1 => titles.title.clone(),
            _ => format!("{}: {}", state.name, titles.values_of(state.name)),
        };
        let of_arm = |arm: ArmName| self.dropped.iter().filter(|dropped| dropped.arm == arm).count();
        let values = [ArmName::A, state.name].map(|arm| titles.values_of(arm));
        let mut report = Report {
            title,
            metric: design.metric.clone(),
            arms: [ArmName::A, ArmName::B].map(|arm| self.arm(arm, values[arm as usize])).to_vec(),
            pairs: state.test.judge.pairs(),
            effect: seen.map(|seen| Effect::from_pairs(&seen, &state.test.judge)),
            verdict,
            vetoed_by,
            guards,
            costs: costs(&self.windows),
            mechanism,
            control_stretch,
            dropped_by_arm: ByArm { a: of_arm(ArmName::A), b: of_arm(ArmName::B) },
            no_cpu_by_arm: lost.no_cpu,
            left: state.left.clone(),
            dropped: self.dropped,
            caveats: self.mishaps.iter().map(|mishap| Caveat::Other { what: mishap.to_string() }).collect(),
            seed: design.seed,
            design: design.clone(),
            settle: self.settle,
            ended: self.ended,
            workload: titles.workload.clone(),
            identity: titles.identity.clone(),
            windows: self.windows,
        };
        let found = caveats(&report, lost.no_value);
        let same = titles.same_already.iter().map(|what| Caveat::SameAlready { what: what.clone() });
        report.caveats.splice(0..0, same.chain(found));
        report.name(state.name);
        Ok(report)
    }

    fn arm(&self, arm: ArmName, values: &str) -> ArmReport {
        let of = |number: fn(&Window) -> Option<f64>| median_of(&self.windows, arm, number);
        ArmReport {
            arm,
            does: self.arms.get(arm as usize).cloned().unwrap_or_default(),
            values: values.to_owned(),
            median: of(|window| Some(window.value)),
            cpu_share: of(|window| window.sample.get("cpu_share").copied()),
        }
    }
}

impl Report {
    /// Gives the arm its own name again instead of B, if there are several arms.
    fn name(&mut self, arm: ArmName) {
        let own = |name: &mut ArmName| {
            if *name == ArmName::B {
                *name = arm;
            }
        };
        self.arms.iter_mut().for_each(|report| own(&mut report.arm));
        self.windows.iter_mut().for_each(|window| own(&mut window.arm));
        // Before the trial phase, both arms were the unchanged machine.
        let of_trial = self.dropped.iter_mut().filter(|dropped| dropped.stretch == Stretch::Trial);
        of_trial.for_each(|dropped| own(&mut dropped.arm));
    }
}

/// Whether the session ended before it had the minimum number of pairs.
/// Then a counter that did not move proves nothing either, because with few windows this can be chance.
fn is_too_short(ended: &Ended, design: &Design, pairs: usize) -> bool {
    !matches!(ended, Ended::Whole | Ended::Decided) && pairs < design.stop.pairs_min()
}

fn guards(state: &ArmState) -> Vec<GuardReport> {
    let judged = state.test.guards.iter().map(|(guard, judge)| {
        let seen = judge.look();
        GuardReport {
            metric: guard.metric.clone(),
            harm_ratio: guard.harm_ratio,
            pairs: seen.map_or(0, |seen| seen.pairs),
            effect: seen.map(|seen| Effect::from_pairs(&seen, judge)),
            verdict: seen.map_or(Outcome::Undecided, |seen| seen.verdict.into()),
        }
    });
    judged.collect()
}

fn costs(windows: &[Window]) -> Vec<Cost> {
    let cost = |(name, title, of): &Price| {
        let (a, b) = (median_of(windows, ArmName::A, *of)?, median_of(windows, ArmName::B, *of)?);
        Some(Cost { name: (*name).to_owned(), title: (*title).to_owned(), a, b })
    };
    PRICES.iter().filter_map(cost).collect()
}

/// The median of a number over the windows of an arm.
fn median_of(windows: &[Window], arm: ArmName, number: impl Fn(&Window) -> Option<f64>) -> Option<f64> {
    let of_arm = windows.iter().filter(|window| window.arm == arm);
    median(&of_arm.filter_map(number).collect::<Vec<_>>())
}
