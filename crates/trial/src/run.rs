//! The loop of a trial: pairs of windows in the order of the seed, each beside the conditions it was measured in.

use std::time::{Duration, Instant};

use evenkeel_stats::{Order, PairDesign};
use serde::Serialize;

use crate::arm::{Arm, ArmName};
use crate::conditions::{Conditions, Watch};
use crate::design::Design;
use crate::engaged::why_not_engaged;
use crate::error::TrialError;
use crate::rules::DropReason;
use crate::switch::Switch;
use crate::workload::{Sample, Workload};

/// All that one trial needs.
pub struct Trial<'a, 'b> {
    /// What was decided beforehand.
    pub design: &'a Design,
    /// What each arm does to the host; twice the same is a control.
    pub arms: [Arm; 2],
    /// The knobs.
    pub switch: &'a mut Switch<'b>,
    /// The server with its load.
    pub workload: &'a mut dyn Workload,
    /// The machine's conditions.
    pub watch: &'a Watch,
    /// Whether the user asked to stop; looked at before each window.
    pub stop: &'a dyn Fn() -> bool,
}

/// One window of one arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Which pair it belongs to, from 0.
    pub pair: usize,
    /// Which arm was on.
    pub arm: ArmName,
    /// When it began, in microseconds since the trial began.
    pub start_us: f64,
    /// The number that decides.
    pub value: f64,
    /// Everything that the workload measured.
    pub sample: Sample,
    /// What the machine did meanwhile.
    pub conditions: Conditions,
}

/// A pair that was dropped by a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dropped {
    /// The pair.
    pub pair: usize,
    /// The arm whose window broke the rule.
    pub arm: ArmName,
    /// Which rule.
    pub reason: DropReason,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// With all its pairs.
    Whole,
    /// Spare pairs included, too many were dropped.
    OutOfSpares,
    /// The user stopped it.
    Stopped,
    /// Something failed.
    Failed {
        /// What.
        why: String,
    },
}

/// Everything that was seen in one trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// The windows of the pairs that count, in the order they were measured.
    pub windows: Vec<Window>,
    /// The pairs that do not.
    pub dropped: Vec<Dropped>,
    /// How it ended.
    pub ended: Ended,
    /// What each arm did to the host.
    pub arms: [Arm; 2],
    /// Why the knobs were not at work, if a counter shows that they were not.
    pub not_engaged: Option<String>,
}

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Pairs that count so far.
    pub pairs: usize,
    /// Pairs wanted.
    pub of: usize,
    /// Pairs dropped so far.
    pub dropped: usize,
    /// The time that the missing pairs will take at the pace so far.
    pub left: Duration,
}

/// Runs a trial. Whatever ends it early, what was measured until then comes back; the caller ends switch and workload.
///
/// # Errors
/// Only if the design can't be run, or the workload does not measure its metric.
pub fn run(trial: &mut Trial<'_, '_>, on_progress: &mut dyn FnMut(Progress)) -> Result<Record, TrialError> {
    trial.design.check()?;
    let mut record = all_pairs(trial, on_progress)?;
    // Two arms that are the same have nothing to engage.
    let counter = trial.watch.counter().filter(|_| trial.arms[0] != trial.arms[1]);
    record.not_engaged = counter.and_then(|counter| why_not_engaged(counter, &record.windows, trial.workload));
    Ok(record)
}

fn all_pairs(trial: &mut Trial<'_, '_>, on_progress: &mut dyn FnMut(Progress)) -> Result<Record, TrialError> {
    let begun = Instant::now();
    let order = PairDesign::new(trial.design.pairs as u64, trial.design.seed);
    let (windows, dropped) = (Vec::new(), Vec::new());
    let mut record = Record { windows, dropped, ended: Ended::Whole, arms: trial.arms.clone(), not_engaged: None };
    let tries = trial.design.pairs + trial.design.spare_pairs;
    for pair in 0..tries {
        let counted = record.windows.len() / 2;
        on_progress(progress(trial.design, counted, record.dropped.len(), begun.elapsed()));
        if counted == trial.design.pairs {
            return Ok(record);
        }
        match one_pair(trial, pair, order.order_of_pair(pair as u64), begun) {
            Ok(PairEnd::Counts(windows)) => record.windows.extend(windows),
            Ok(PairEnd::Dropped(dropped)) => record.dropped.push(dropped),
            Ok(PairEnd::Stopped) => {
                record.ended = Ended::Stopped;
                return Ok(record);
            }
            Err(error @ TrialError::NoSuchMetric { .. }) => return Err(error),
            Err(error) => {
                record.ended = Ended::Failed { why: error.to_string() };
                return Ok(record);
            }
        }
    }
    if record.windows.len() / 2 < trial.design.pairs {
        record.ended = Ended::OutOfSpares;
    }
    on_progress(progress(trial.design, record.windows.len() / 2, record.dropped.len(), begun.elapsed()));
    Ok(record)
}

enum PairEnd {
    Counts(Vec<Window>),
    Dropped(Dropped),
    Stopped,
}

fn one_pair(trial: &mut Trial<'_, '_>, pair: usize, order: Order, begun: Instant) -> Result<PairEnd, TrialError> {
    let names = match order {
        Order::AFirst => [ArmName::A, ArmName::B],
        Order::BFirst => [ArmName::B, ArmName::A],
    };
    let mut windows = Vec::with_capacity(2);
    let mut broken = None;
    // The second window is measured even if the first is to be dropped: the arms keep their turns.
    for arm in names {
        if (trial.stop)() {
            return Ok(PairEnd::Stopped);
        }
        let window = one_window(trial, pair, arm, begun)?;
        if let Some(reason) = trial.design.rules.judge(trial.design.window, &window.conditions) {
            broken = broken.or(Some(Dropped { pair, arm, reason }));
        }
        windows.push(window);
    }
    Ok(broken.map_or(PairEnd::Counts(windows), PairEnd::Dropped))
}

fn one_window(trial: &mut Trial<'_, '_>, pair: usize, arm: ArmName, begun: Instant) -> Result<Window, TrialError> {
    trial.switch.to(&trial.arms[arm as usize], trial.workload)?;
    let mut start = trial.watch.begin_window();
    let mut start_us = 0.0;
    let sample = trial.workload.window(trial.design.settle, trial.design.window, &mut || {
        start = trial.watch.begin_window();
        start_us = begun.elapsed().as_secs_f64() * 1e6;
    })?;
    let conditions = trial.watch.end_window(&start);
    let name = trial.design.metric.name.as_ref();
    let value = *sample.get(name).ok_or_else(|| TrialError::NoSuchMetric {
        metric: name.to_owned(),
        given: sample.keys().cloned().collect::<Vec<_>>().join(", "),
    })?;
    Ok(Window { pair, arm, start_us, value, sample, conditions })
}

fn progress(design: &Design, pairs: usize, dropped: usize, elapsed: Duration) -> Progress {
    let tried = u32::try_from(pairs + dropped).unwrap_or(u32::MAX);
    let missing = u32::try_from(design.pairs.saturating_sub(pairs)).unwrap_or(u32::MAX);
    let a_pair = if tried == 0 { (design.window + design.settle) * 2 } else { elapsed / tried };
    Progress { pairs, of: design.pairs, dropped, left: a_pair.saturating_mul(missing) }
}
