//! The loop of a session. It finds the settle time, compares the machine with itself, then compares A with the other arms.
//! The loop runs block by block in the order that the seed determines.
//! If the design requests it, it tests after every block. A block of two arms is a pair.

use std::time::Duration;

use evenkeel_stats::{BlockDesign, Order, PairDesign, VALUE_RANGE};
use evenkeel_workload::{Sample, WorkloadError};

use crate::arm::{Arm, ArmName};
use crate::design::Settle;
use crate::effect::Effect;
use crate::error::TrialError;
use crate::outcome::Outcome;
use crate::schedule::{Elapsed, Pace};
use crate::session::session_log::Line;
use crate::session::{
    ArmSoFar, ArmState, Detectable, Dropped, Ended, Mishap, MultiArmTest, NetworkPath, Progress, Record, Stretch,
    Trial, Window, settle,
};

/// The position in the seed's stream from which the orders of the A/A phase are drawn.
/// The position is far beyond the positions of any trial, so a longer A/A phase does not change the trial's orders.
const CONTROL_ORDERS: u64 = 1 << 32;

/// Runs a session. A session that ends early returns the measurements so far. The caller must end the switch and the workload.
///
/// # Errors
/// Fails only if the design can't be run, or the workload does not measure its metrics.
pub fn run(trial: &mut Trial<'_, '_>, on_progress: &mut dyn FnMut(&Progress)) -> Result<Record, TrialError> {
    let network = NetworkPath::from_workload(trial.workload);
    let record = Record::new(trial.design, trial.arms.clone(), trial.watch.knobs(), network);
    resume(trial, record, on_progress)
}

/// Continues a session that ended early. Its pairs count, and the next pairs come in the order that the design gives them.
///
/// # Errors
/// Fails as [`run`] does.
pub fn resume(
    trial: &mut Trial<'_, '_>,
    record: Record,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Record, TrialError> {
    trial.design.check_for(trial.arms.len())?;
    let mut session = Session::new(trial, record)?;
    let ended = match session.stretches(on_progress) {
        Ok(ended) => ended,
        // Before the first window, these are usage errors. Later, only the server can cause them.
        Err(error @ (TrialError::NoSuchMetric { .. } | TrialError::ShortBudget { .. }))
            if session.record.is_empty() =>
        {
            return Err(error);
        }
        // Ctrl-C also reaches the server, so the server may end before the window does. That is not a failure.
        Err(_) if (session.trial.stop)() => Ended::Stopped,
        Err(error) => Ended::Failed { why: error.to_string() },
    };
    session.trial.keep.note(&Line::Ended(ended.clone()));
    session.trial.keep.sync();
    let mut record = session.record;
    record.ended = ended;
    record.mishaps.extend(trial.keep.trouble().map(|why| Mishap::File(why.to_owned())));
    Ok(record)
}

/// The session fails after this many consecutive windows without a value.
const WITHOUT_VALUE_MAX: usize = 8;

struct Session<'t, 'a, 'b> {
    trial: &'t mut Trial<'a, 'b>,
    record: Record,
    test: MultiArmTest,
    /// When the session began, on the trial's clock.
    begun: Duration,
    /// The number of consecutive windows without a value, up to this moment.
    without_value: usize,
    /// The duration of the earlier part of a continued session, in microseconds.
    before_us: f64,
    /// How long a switch takes. The session measures this only if there is a budget.
    pace: Pace,
    /// The number of windows in this run, and their total duration including switches and waits.
    took: (u32, Duration),
    /// The smallest effect that the pairs in the budget can detect. None if unknown.
    detectable: Option<Detectable>,
}

/// The windows of one pair or block.
struct BlockEnd {
    /// The windows that no rule dropped. Empty if fewer than two windows remain.
    counts: Vec<Window>,
    /// The dropped windows.
    dropped: Vec<Dropped>,
}

impl<'t, 'a, 'b> Session<'t, 'a, 'b> {
    fn new(trial: &'t mut Trial<'a, 'b>, record: Record) -> Result<Session<'t, 'a, 'b>, TrialError> {
        let test = MultiArmTest::from_record(trial.design, &record)?;
        let windows = record.control.iter().chain(&record.windows);
        let before_us = windows.map(|window| window.start_us + window.conditions.span_us).fold(0.0, f64::max);
        let begun = trial.watch.clock().now();
        let pace = Pace::new(trial.arms.len());
        let took = (0, Duration::ZERO);
        Ok(Session { trial, record, test, begun, without_value: 0, before_us, pace, took, detectable: None })
    }

    /// With a budget, switches to each arm and back to measure how long that takes, because a server may restart for a switch.
    /// A trial that does not fit in the budget is refused before the first window.
    fn rehearse(&mut self) -> Result<(), TrialError> {
        let Some(budget) = self.trial.design.budget().filter(|_| self.record.is_empty()) else { return Ok(()) };
        let clock = self.trial.watch.clock().clone();
        for arm in ArmName::further(self.trial.arms.len()).chain([ArmName::A]) {
            if (self.trial.stop)() {
                return Ok(());
            }
            let begun = clock.now();
            self.trial.switch.to(&self.trial.arms[arm as usize], self.trial.workload)?;
            self.pace.switch = self.pace.switch.max(clock.since(begun));
        }
        let least = self.trial.design.least_by_itself(self.pace);
        match least > budget {
            true => Err(TrialError::ShortBudget { budget, least, switch: self.pace.switch }),
            false => Ok(()),
        }
    }

    fn stretches(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Result<Ended, TrialError> {
        self.rehearse()?;
        let was_found = self.record.settle.step_ms.is_some();
        if matches!(self.trial.design.settle, Settle::Found { .. }) && !was_found {
            on_progress(&self.progress(Stretch::Settling));
            let elapsed = self.elapsed();
            let Some(seen) = settle::find(self.trial, self.pace, elapsed)? else { return Ok(Ended::Stopped) };
            self.trial.keep.note(&Line::Settle(seen.clone()));
            self.record.settle = seen;
        }
        if self.record.settle.interleaves.is_none() {
            let interleaves = settle::interleaves(self.trial, &self.record.settle)?;
            if interleaves > 1 {
                self.record.settle.interleaves = Some(interleaves);
                self.trial.keep.note(&Line::Settle(self.record.settle.clone()));
            }
        }
        if let Some(ended) = self.control(on_progress)? {
            return Ok(ended);
        }
        let (design, arms) = (self.trial.design, self.trial.arms.len());
        let fit = self.test.pairs() + self.so_far().blocks_that_fit(design, arms);
        self.detectable =
            Detectable::from_control(design, &self.record.control, arms, fit.min(design.stop.pairs_max()));
        self.pairs(on_progress)
    }

    /// Measures the A/A phase.
    /// If the machine is so noisy that too many windows are dropped, the trial continues, and the report shows the dropped windows.
    fn control(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Result<Option<Ended>, TrialError> {
        let wanted = self.trial.design.control_pairs;
        while self.record.control.len() / 2 < wanted && self.record.tried(Stretch::Control) < wanted * 2 {
            on_progress(&self.progress(Stretch::Control));
            if !self.so_far().has_room_for_control(self.trial.design, self.trial.arms.len()) {
                break;
            }
            let Some(end) = self.block(Stretch::Control)? else { return Ok(Some(Ended::Stopped)) };
            self.note_dropped(end.dropped);
            if !end.counts.is_empty() {
                self.trial.keep.note(&Line::Control(end.counts.clone()));
                self.record.control.extend(end.counts);
            }
        }
        Ok(None)
    }

    fn pairs(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Result<Ended, TrialError> {
        let wanted = self.trial.design.stop.pairs_max();
        loop {
            on_progress(&self.progress(Stretch::Trial));
            if self.test.is_over() {
                return Ok(Ended::Decided);
            }
            if self.test.pairs() >= wanted {
                return Ok(Ended::Whole);
            }
            if self.record.tried(Stretch::Trial) >= wanted + self.trial.design.spare_pairs {
                return Ok(Ended::OutOfSpares);
            }
            let (windows, pairs, arms) = (self.test.in_it().len(), self.test.pairs(), self.trial.arms.len());
            if !self.so_far().has_room_for_block(self.trial.design, windows, pairs, arms) {
                return Ok(Ended::OutOfTime);
            }
            let Some(end) = self.block(Stretch::Trial)? else { return Ok(Ended::Stopped) };
            self.note_dropped(end.dropped);
            if !end.counts.is_empty() {
                self.test.add(&end.counts)?;
                self.trial.keep.note(&Line::Pair(end.counts.clone()));
                self.record.windows.extend(end.counts);
            }
        }
    }

    fn note_dropped(&mut self, dropped: Vec<Dropped>) {
        for dropped in dropped {
            self.trial.keep.note(&Line::Dropped(dropped.clone()));
            self.record.dropped.push(dropped);
        }
    }

    fn so_far(&self) -> Elapsed {
        let took = (self.took.0 > 0).then(|| self.took.1 / self.took.0);
        Elapsed::new(self.trial.design, self.pace, &self.record.settle, self.elapsed(), took)
    }

    /// The arms of a block, in an order that the seed determines.
    /// With two arms, this is the order of pairs, so that seeds of older versions give the same orders.
    /// With more arms, the draw includes arms that have left, so that the order of the others does not change.
    fn order(&self, stretch: Stretch, block: usize) -> Result<Vec<ArmName>, TrialError> {
        let (design, arms) = (self.trial.design, self.trial.arms.len());
        let blocks = design.stop.pairs_max() as u64;
        if stretch == Stretch::Control || arms == 2 {
            let order = if stretch == Stretch::Control { CONTROL_ORDERS + block as u64 } else { block as u64 };
            return Ok(match PairDesign::new(blocks, design.seed).order_of_pair(order) {
                Order::AFirst => vec![ArmName::A, ArmName::B],
                Order::BFirst => vec![ArmName::B, ArmName::A],
            });
        }
        let in_it = self.test.in_it();
        let orders = BlockDesign::new(arms, blocks, design.seed)
            .map_err(|error| TrialError::Design(format!("order the arms: {error}")))?;
        let drawn = orders.order_of_block(block as u64).into_iter();
        Ok(drawn.filter_map(|arm| ArmName::ALL.get(arm).copied()).filter(|arm| in_it.contains(arm)).collect())
    }

    /// The number of interleaves of each window.
    fn interleaves(&self) -> u32 {
        self.record.settle.interleaves.unwrap_or(1).max(1)
    }

    /// Measures each arm once, in one or several interleaves. None if the user stopped the session.
    /// One draw gives the order of the whole block, so all orders of the arms are equally likely.
    fn block(&mut self, stretch: Stretch) -> Result<Option<BlockEnd>, TrialError> {
        let block = self.record.tried(stretch);
        let begun = self.trial.watch.clock().now();
        let mut end = BlockEnd { counts: Vec::new(), dropped: Vec::new() };
        let order = self.order(stretch, block)?;
        let mut measured: Vec<Vec<Window>> = vec![Vec::new(); order.len()];
        let length = self.trial.design.window / self.interleaves();
        // Measure all arms even if a rule will drop a window, so that the arms keep alternating.
        for _ in 0..self.interleaves() {
            for (arm, windows) in order.iter().zip(&mut measured) {
                if (self.trial.stop)() {
                    return Ok(None);
                }
                let acts = if stretch == Stretch::Control { ArmName::A } else { *arm };
                let does = self.trial.arms[acts as usize].clone();
                windows.push(self.window(block, *arm, &does, length)?);
            }
        }
        self.took.0 += count(order.len());
        self.took.1 += self.trial.watch.clock().since(begun);
        for (arm, windows) in order.into_iter().zip(measured) {
            let Some(window) = Window::of_interleaves(windows, self.trial.design.metric.name.as_ref()) else {
                continue;
            };
            match self.trial.design.rules.judge(self.trial.design.window, &window.conditions) {
                Some(reason) => {
                    end.dropped.push(Dropped {
                        pair: block,
                        arm,
                        reason,
                        stretch,
                        other_trials: window.conditions.other_trials,
                    });
                }
                None => end.counts.push(window),
            }
        }
        if end.counts.len() < 2 {
            end.counts.clear();
        }
        Ok(Some(end))
    }

    fn window(&mut self, pair: usize, arm: ArmName, does: &Arm, length: Duration) -> Result<Window, TrialError> {
        let Session { trial, record, begun, before_us, .. } = self;
        trial.switch.to(does, trial.workload)?;
        let measured = trial.watch.measure(trial.workload, record.settle.time(), length)?;
        let start_us = *before_us + measured.begun.saturating_sub(*begun).as_secs_f64() * 1e6;
        let mut conditions = measured.conditions;
        conditions.counters.extend(trial.switch.read_back());
        conditions.changed = trial.switch.changed();
        let Some(sample) = measured.sample else {
            return self.window_without_value(Window {
                pair,
                arm,
                start_us,
                value: f64::NAN,
                sample: Sample::new(),
                conditions,
            });
        };
        let number = |name: &str| {
            sample.get(name).copied().ok_or_else(|| TrialError::NoSuchMetric {
                metric: name.to_owned(),
                given: sample.keys().cloned().collect::<Vec<_>>().join(", "),
            })
        };
        for guard in &trial.design.guards {
            number(guard.metric.name.as_ref())?;
        }
        let metric = &trial.design.metric;
        let value = metric.at_resolution(number(metric.name.as_ref())?);
        if !VALUE_RANGE.contains(&value) {
            conditions.no_value = Some(TrialError::NoRatio { metric: metric.name.to_string(), value }.to_string());
            return self.window_without_value(Window { pair, arm, start_us, value: f64::NAN, sample, conditions });
        }
        self.without_value = 0;
        Ok(Window { pair, arm, start_us, value, sample, conditions })
    }

    /// Accepts a window without a value if a rule drops the window anyway. Too many consecutive windows without a value are an error.
    fn window_without_value(&mut self, window: Window) -> Result<Window, TrialError> {
        let Some(why) = &window.conditions.no_value else { return Ok(window) };
        self.without_value += 1;
        if self.without_value < WITHOUT_VALUE_MAX {
            return Ok(window);
        }
        let program = format!("{WITHOUT_VALUE_MAX} windows in a row");
        let why = format!("{why}; choose another metric, or longer windows");
        Err(WorkloadError::NoValue { program, why }.into())
    }

    fn progress(&self, stretch: Stretch) -> Progress {
        let design = self.trial.design;
        let (pairs, of) = match stretch {
            Stretch::Settling => (0, 0),
            Stretch::Control => (self.record.control.len() / 2, design.control_pairs),
            Stretch::Trial => (self.test.pairs(), design.stop.pairs_max()),
        };
        let so_far = |state: &ArmState| {
            let seen = state.test.judge.look();
            ArmSoFar {
                arm: state.name,
                pairs: state.test.judge.pairs(),
                effect: seen.as_ref().map(|seen| Effect::from_pairs(seen, &state.test.judge)),
                verdict: seen.map_or(Outcome::Undecided, |seen| seen.verdict.into()),
                left: state.left.clone(),
            }
        };
        Progress {
            stretch,
            pairs,
            of,
            dropped: self.record.spoiled(),
            elapsed: self.elapsed(),
            left: self.left(stretch),
            arms: self.test.further().iter().map(so_far).collect(),
            detectable: self.detectable,
        }
    }

    fn elapsed(&self) -> Duration {
        self.trial.watch.clock().since(self.begun)
    }

    /// How long all remaining windows would take, at the average so far.
    fn left(&self, stretch: Stretch) -> Duration {
        let design = self.trial.design;
        let control = match stretch {
            // The trial phase measures no missing pairs of the A/A phase.
            Stretch::Trial => 0,
            _ => design.control_pairs.saturating_sub(self.record.control.len() / 2) * 2,
        };
        let missing = control + design.stop.pairs_max().saturating_sub(self.test.pairs()) * self.test.in_it().len();
        let Elapsed { time, window } = self.so_far();
        let left = window.saturating_mul(count(missing));
        design.budget().map_or(left, |budget| left.min(budget.saturating_sub(time)))
    }
}

fn count(windows: usize) -> u32 {
    u32::try_from(windows).unwrap_or(u32::MAX)
}
