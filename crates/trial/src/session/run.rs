//! The loop of a session: how long a switch is felt, then the machine against itself, then A against B, pair by pair in the order
//! of the seed, looked at after every pair where the design says so.

use std::time::{Duration, Instant};

use evenkeel_stats::{Order, PairDesign, Verdict};

use crate::arm::{Arm, ArmName};
use crate::design::{Settle, Stop};
use crate::error::TrialError;
use crate::report::{Effect, Outcome};
use crate::session::kept::Line;
use crate::session::{Dropped, Ended, Judge, NetworkPath, Progress, Record, Stretch, Trial, Window, pairs_of, settle};

/// The coins of the control stretch lie here in the stream of the seed: far beyond those of any trial, so that a longer control
/// stretch does not change the trial's order.
const CONTROL_COINS: u64 = 1 << 32;
/// A run that is decided for the better goes on for a guard that looks harmed until it has so many times the pairs.
const GUARD_PATIENCE: usize = 2;

/// Runs a session. Whatever ends it early, what was measured until then comes back; the caller ends switch and workload.
///
/// # Errors
/// Only if the design can't be run, or the workload does not measure its metrics.
pub fn run(trial: &mut Trial<'_, '_>, on_progress: &mut dyn FnMut(&Progress)) -> Result<Record, TrialError> {
    let network = match trial.workload.passes_network_devices() {
        true => NetworkPath::Devices,
        false => NetworkPath::Loopback,
    };
    let record = Record::new(trial.design, trial.arms.clone(), trial.watch.knobs(), network);
    resume(trial, record, on_progress)
}

/// Goes on with a session that ended early: the pairs that it has count, the next ones follow in the same order.
///
/// # Errors
/// As [`run`].
pub fn resume(
    trial: &mut Trial<'_, '_>,
    record: Record,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Record, TrialError> {
    trial.design.check()?;
    let mut session = Session::new(trial, record)?;
    let ended = match session.stretches(on_progress) {
        Ok(ended) => ended,
        // Found out at the first window it is a wrong question; later it is something that happened to the server.
        Err(error @ TrialError::NoSuchMetric { .. }) if session.record.is_empty() => return Err(error),
        // Ctrl-C reaches the server too, which may be gone before its window ends.
        Err(_) if (session.trial.stop)() => Ended::Stopped,
        Err(error) => Ended::Failed { why: error.to_string() },
    };
    session.trial.keep.note(&Line::Ended(ended.clone()));
    session.trial.keep.sync();
    let mut record = session.record;
    record.ended = ended;
    record.mishaps.extend(trial.keep.trouble().map(str::to_owned));
    Ok(record)
}

struct Session<'t, 'a, 'b> {
    trial: &'t mut Trial<'a, 'b>,
    record: Record,
    judge: Judge,
    guards: Vec<Judge>,
    begun: Instant,
    /// What was measured before this session was gone on with took so long, in microseconds.
    before_us: f64,
    /// The pairs that it took to decide, if it is decided.
    decided_at: Option<usize>,
}

/// How one pair ended.
enum PairEnd {
    Counts(Vec<Window>),
    Dropped(Dropped),
    Stopped,
}

impl<'t, 'a, 'b> Session<'t, 'a, 'b> {
    fn new(trial: &'t mut Trial<'a, 'b>, record: Record) -> Result<Session<'t, 'a, 'b>, TrialError> {
        let mut judge = Judge::of_metric(trial.design)?;
        for pair in pairs_of(&record.windows, |window| Some(window.value)) {
            judge.add(pair)?;
        }
        let mut guards = Judge::of_guards(trial.design)?;
        for (guard, judge) in trial.design.guards.iter().zip(&mut guards) {
            for pair in pairs_of(&record.windows, |window| window.sample.get(guard.metric.name.as_ref()).copied()) {
                // A guard's number may be one without a ratio, such as no loss at all: such a pair tells nothing of it.
                let _ = judge.add(pair);
            }
        }
        let windows = record.control.iter().chain(&record.windows);
        let before_us = windows.map(|window| window.start_us + window.conditions.span_us).fold(0.0, f64::max);
        Ok(Session { trial, record, judge, guards, begun: Instant::now(), before_us, decided_at: None })
    }

    fn stretches(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Result<Ended, TrialError> {
        self.watch_decision();
        let was_found = self.record.settle.step_ms.is_some();
        if matches!(self.trial.design.settle, Settle::Found { .. }) && !was_found {
            on_progress(&self.progress(Stretch::Settling));
            let Some(seen) = settle::find(self.trial)? else { return Ok(Ended::Stopped) };
            self.trial.keep.note(&Line::Settle(seen.clone()));
            self.record.settle = seen;
        }
        if let Some(ended) = self.control(on_progress)? {
            return Ok(ended);
        }
        self.pairs(on_progress)
    }

    /// The machine as it was against itself, by the same path. Too unsteady a machine is told by what was dropped; the trial goes on.
    fn control(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Result<Option<Ended>, TrialError> {
        let wanted = self.trial.design.control_pairs;
        while self.record.control.len() / 2 < wanted && self.record.tried(Stretch::Control) < wanted * 2 {
            on_progress(&self.progress(Stretch::Control));
            if self.is_out_of_time() {
                return Ok(Some(Ended::OutOfTime));
            }
            match self.pair(Stretch::Control)? {
                PairEnd::Counts(windows) => {
                    self.trial.keep.note(&Line::Control(windows.clone()));
                    self.record.control.extend(windows);
                }
                PairEnd::Dropped(dropped) => self.drop_pair(dropped),
                PairEnd::Stopped => return Ok(Some(Ended::Stopped)),
            }
        }
        Ok(None)
    }

    fn pairs(&mut self, on_progress: &mut dyn FnMut(&Progress)) -> Result<Ended, TrialError> {
        let wanted = self.trial.design.stop.pairs_max();
        loop {
            on_progress(&self.progress(Stretch::Trial));
            if self.is_decided() {
                return Ok(Ended::Decided);
            }
            if self.record.windows.len() / 2 >= wanted {
                return Ok(Ended::Whole);
            }
            if self.record.tried(Stretch::Trial) >= wanted + self.trial.design.spare_pairs {
                return Ok(Ended::OutOfSpares);
            }
            if self.is_out_of_time() {
                return Ok(Ended::OutOfTime);
            }
            match self.pair(Stretch::Trial)? {
                PairEnd::Counts(windows) => self.count(windows)?,
                PairEnd::Dropped(dropped) => self.drop_pair(dropped),
                PairEnd::Stopped => return Ok(Ended::Stopped),
            }
        }
    }

    fn count(&mut self, windows: Vec<Window>) -> Result<(), TrialError> {
        for pair in pairs_of(&windows, |window| Some(window.value)) {
            self.judge.add(pair)?;
        }
        for (guard, judge) in self.trial.design.guards.iter().zip(&mut self.guards) {
            for pair in pairs_of(&windows, |window| window.sample.get(guard.metric.name.as_ref()).copied()) {
                let _ = judge.add(pair);
            }
        }
        self.trial.keep.note(&Line::Pair(windows.clone()));
        self.record.windows.extend(windows);
        self.watch_decision();
        Ok(())
    }

    fn drop_pair(&mut self, dropped: Dropped) {
        self.trial.keep.note(&Line::Dropped(dropped.clone()));
        self.record.dropped.push(dropped);
    }

    fn watch_decision(&mut self) {
        let pairs = self.record.windows.len() / 2;
        let Stop::Sequential { pairs_min, .. } = self.trial.design.stop else { return };
        if self.decided_at.is_none() && pairs >= pairs_min && self.judge.is_decided() {
            self.decided_at = Some(pairs);
        }
    }

    fn is_decided(&self) -> bool {
        let Some(at) = self.decided_at else { return false };
        let for_the_better = self.judge.look().is_some_and(|seen| seen.verdict == Verdict::Better);
        let waits =
            for_the_better && self.record.windows.len() / 2 < at * GUARD_PATIENCE && self.a_guard_looks_harmed();
        !waits
    }

    /// Whether a guard is not decided, and the best guess at it is a harm.
    fn a_guard_looks_harmed(&self) -> bool {
        let guards = self.trial.design.guards.iter().zip(&self.guards);
        guards.into_iter().any(|(guard, judge)| {
            let harm = |ratio: f64| match guard.metric.better {
                evenkeel_stats::Direction::Lower => ratio >= 1.0 + guard.harm_ratio,
                evenkeel_stats::Direction::Higher => ratio <= 1.0 / (1.0 + guard.harm_ratio),
            };
            !judge.is_decided() && judge.look().is_some_and(|seen| harm(seen.ratio))
        })
    }

    /// Whether the next pair would end after the time is over.
    fn is_out_of_time(&self) -> bool {
        let Stop::Sequential { budget: Some(budget), .. } = self.trial.design.stop else { return false };
        let a_pair = (self.trial.design.window + self.record.settle.time()) * 2;
        self.begun.elapsed() + a_pair > budget
    }

    fn pair(&mut self, stretch: Stretch) -> Result<PairEnd, TrialError> {
        let pair = self.record.tried(stretch);
        let coins = PairDesign::new(self.trial.design.stop.pairs_max() as u64, self.trial.design.seed);
        let coin = if stretch == Stretch::Control { CONTROL_COINS + pair as u64 } else { pair as u64 };
        let names = match coins.order_of_pair(coin) {
            Order::AFirst => [ArmName::A, ArmName::B],
            Order::BFirst => [ArmName::B, ArmName::A],
        };
        let mut windows = Vec::with_capacity(2);
        let mut broken = None;
        // The second window is measured even if the first is to be dropped: the arms keep their turns.
        for arm in names {
            if (self.trial.stop)() {
                return Ok(PairEnd::Stopped);
            }
            let does = match stretch {
                Stretch::Control => &self.trial.arms[ArmName::A as usize],
                Stretch::Settling | Stretch::Trial => &self.trial.arms[arm as usize],
            };
            let window = self.window(pair, arm, &does.clone())?;
            if let Some(reason) = self.trial.design.rules.judge(self.trial.design.window, &window.conditions) {
                broken = broken.or(Some(Dropped { pair, arm, reason, stretch }));
            }
            windows.push(window);
        }
        Ok(broken.map_or(PairEnd::Counts(windows), PairEnd::Dropped))
    }

    fn window(&mut self, pair: usize, arm: ArmName, does: &Arm) -> Result<Window, TrialError> {
        let Session { trial, record, begun, before_us, .. } = self;
        trial.switch.to(does, trial.workload)?;
        let mut start = trial.watch.begin_window();
        let mut start_us = 0.0;
        let sample = trial.workload.window(record.settle.time(), trial.design.window, &mut || {
            start = trial.watch.begin_window();
            start_us = *before_us + begun.elapsed().as_secs_f64() * 1e6;
        })?;
        let mut conditions = trial.watch.end_window(&start);
        conditions.counters.extend(trial.switch.read_back());
        let number = |name: &str| {
            sample.get(name).copied().ok_or_else(|| TrialError::NoSuchMetric {
                metric: name.to_owned(),
                given: sample.keys().cloned().collect::<Vec<_>>().join(", "),
            })
        };
        for guard in &trial.design.guards {
            number(guard.metric.name.as_ref())?;
        }
        let value = number(trial.design.metric.name.as_ref())?;
        Ok(Window { pair, arm, start_us, value, sample, conditions })
    }

    fn progress(&self, stretch: Stretch) -> Progress {
        let design = self.trial.design;
        let (pairs, of) = match stretch {
            Stretch::Settling => (0, 0),
            Stretch::Control => (self.record.control.len() / 2, design.control_pairs),
            Stretch::Trial => (self.record.windows.len() / 2, design.stop.pairs_max()),
        };
        let elapsed = self.begun.elapsed();
        let seen = self.judge.look();
        Progress {
            stretch,
            pairs,
            of,
            dropped: self.record.dropped.len(),
            elapsed,
            left: self.left(elapsed),
            effect: seen.as_ref().map(|seen| Effect::of(seen, &self.judge)),
            verdict: seen.map_or(Outcome::Undecided, |seen| seen.verdict.into()),
        }
    }

    fn left(&self, elapsed: Duration) -> Duration {
        let design = self.trial.design;
        let count = |pairs: usize| u32::try_from(pairs).unwrap_or(u32::MAX);
        let tried = self.record.tried(Stretch::Control) + self.record.tried(Stretch::Trial);
        let missing = design.control_pairs.saturating_sub(self.record.control.len() / 2)
            + design.stop.pairs_max().saturating_sub(self.record.windows.len() / 2);
        let planned = (design.window + self.record.settle.time()) * 2;
        let a_pair = if tried == 0 { planned } else { planned.max(elapsed / count(tried)) };
        let left = a_pair.saturating_mul(count(missing));
        match design.stop {
            Stop::Sequential { budget: Some(budget), .. } => left.min(budget.saturating_sub(elapsed)),
            _ => left,
        }
    }
}
