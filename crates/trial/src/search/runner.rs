//! `SearchRunner`: measures the windows of a search. It first replays the windows in the log.
//! The runner checks the budget and the guards, and remembers which arms must not run again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use evenkeel_stats::{Direction, median};
use evenkeel_workload::Sample;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::design::SearchDesign;
use super::knob_outcome::KnobOutcome;
use super::log::{Entry, Log};
use super::window_result::has_a_ratio;
use super::{SearchProgress, Stage, Subject, Tools, WindowResult};
use crate::arm::{Arm, Level};
use crate::comparison::{GuardNumbers, guard_numbers};
use crate::rules::DropReason;

/// Guards compare with this many recent windows of the unchanged machine. Older windows are not used, because the machine drifts.
const RECENT: usize = 9;
/// The search gives up after this many consecutive windows that were dropped or lost.
const LOST_MAX: usize = 40;

/// Why a search ends before its last stage.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Halt {
    /// The user stopped the search.
    Stopped,
    /// The budget has no room for another window.
    OutOfBudget,
    /// An error ended the search, for this reason.
    Failed(String),
}

/// The result of a window.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum WindowOutcome {
    /// The value of the metric in the window.
    Value(f64),
    /// The window has no value: it was dropped, or a setting was refused.
    Nothing,
    /// The arm did too much harm, so the search never runs it again.
    Hurt,
}

/// Whether the server got no CPU in a window. The arm may be the cause of that.
fn is_starved(seen: &WindowResult) -> bool {
    matches!(seen, WindowResult::Dropped { reason: Some(DropReason::NoCpu { .. }), .. })
}

pub(super) struct SearchRunner<'a> {
    pub(super) design: &'a SearchDesign,
    /// The source of all random orders.
    pub(super) chance: ChaCha8Rng,
    pub(super) stage: Stage,
    /// The results so far as text, for progress reports.
    pub(super) known: String,
    subject: &'a mut dyn Subject,
    log: &'a mut Log,
    stop: &'a dyn Fn() -> bool,
    on_progress: &'a mut dyn FnMut(&SearchProgress),
    /// The number of windows so far.
    used: usize,
    spent: Duration,
    /// The number of windows, and the time, when the duration of windows last changed.
    pace_from: (usize, Duration),
    /// How long a window takes if the switch before it needs a restart. None if no knob was left out because of its restarts.
    with_restart: Option<Duration>,
    by_stage: BTreeMap<Stage, usize>,
    /// Arms that are never run again, with the reasons.
    banned: BTreeMap<Arm, String>,
    /// Knobs that are no longer switched, with their outcomes.
    out: BTreeMap<usize, KnobOutcome>,
    recent: VecDeque<f64>,
    /// The values of the guards in recent windows of the unchanged machine.
    recent_guards: VecDeque<GuardNumbers>,
    /// The values of the guards in the last requested window.
    last_guards: GuardNumbers,
    lost: usize,
    /// Whether an arm is forbidden as soon as the server has ended once in this arm. Otherwise the arm gets a second window.
    pub(super) believes_one_death: bool,
}

impl<'a> SearchRunner<'a> {
    pub(super) fn new(design: &'a SearchDesign, tools: Tools<'a>) -> SearchRunner<'a> {
        let Tools { subject, log, stop, on_progress } = tools;
        SearchRunner {
            design,
            chance: ChaCha8Rng::seed_from_u64(design.seed),
            stage: Stage::Baseline,
            known: String::new(),
            subject,
            log,
            stop,
            on_progress,
            used: 0,
            spent: Duration::ZERO,
            pace_from: (0, Duration::ZERO),
            with_restart: None,
            by_stage: BTreeMap::new(),
            banned: BTreeMap::new(),
            out: BTreeMap::new(),
            recent: VecDeque::new(),
            recent_guards: VecDeque::new(),
            last_guards: Vec::new(),
            lost: 0,
            believes_one_death: false,
        }
    }

    /// The number of windows so far.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn by_stage(&self) -> &BTreeMap<Stage, usize> {
        &self.by_stage
    }

    pub(super) fn spent(&self) -> Duration {
        self.spent
    }

    /// The number of windows that may still be measured, if they take as long as the windows so far.
    pub(super) fn left(&self) -> usize {
        self.left_of(self.window_takes())
    }

    /// The number of windows that may still be measured, if each takes this long.
    fn left_of(&self, each: Duration) -> usize {
        let by_count = self.design.budget.windows.saturating_sub(self.used);
        let Some(time_ms) = self.design.budget.time_ms else { return by_count };
        let left = Duration::from_millis(time_ms).saturating_sub(self.spent);
        by_count.min((left.as_secs_f64() / each.as_secs_f64()) as usize)
    }

    /// How long a window takes including the switch and the wait, by the average so far.
    pub(super) fn window_takes(&self) -> Duration {
        let planned = self.design.window() + self.design.settle();
        let (from, before) = self.pace_from;
        let each = match u32::try_from(self.used.saturating_sub(from)) {
            Ok(windows) if windows > 0 => self.spent.saturating_sub(before) / windows,
            _ => planned,
        };
        each.max(Duration::from_micros(1))
    }

    /// Forgets the average duration of a window, because windows take a different time from now on.
    pub(super) fn forget_pace(&mut self) {
        self.pace_from = (self.used, self.spent);
    }

    /// Knobs that need restarts are out from now on. Remembers how long a window with a restart takes.
    pub(super) fn restarts_end(&mut self) {
        self.with_restart = Some(self.window_takes());
        self.forget_pace();
    }

    /// How long a window with a restart takes. None if no knob was left out because of its restarts.
    pub(super) fn with_restart(&self) -> Option<Duration> {
        self.with_restart
    }

    /// Whether the rest of the budget has room for `windows` windows, each with a restart.
    pub(super) fn has_room_with_restarts(&self, windows: usize) -> bool {
        self.with_restart.is_some_and(|each| windows <= self.left_of(each))
    }

    /// Whether `windows` more windows can be measured before this share of the budget is used up.
    pub(super) fn has_room(&self, windows: usize, share: f64) -> bool {
        let total = self.used + self.left();
        (self.used + windows) as f64 <= total as f64 * share
    }

    /// Whether a knob may still be switched.
    pub(super) fn is_in(&self, knob: usize) -> bool {
        !self.out.contains_key(&knob)
    }

    /// The outcome of a knob that is no longer switched. None if the knob may be switched.
    pub(super) fn outcome(&self, knob: usize) -> Option<&KnobOutcome> {
        self.out.get(&knob)
    }

    pub(super) fn take_out(&mut self, knob: usize, outcome: KnobOutcome) {
        self.out.entry(knob).or_insert(outcome);
    }

    /// Allows a knob again that was taken out.
    pub(super) fn take_back(&mut self, knob: usize) {
        self.out.remove(&knob);
    }

    pub(super) fn is_banned(&self, arm: &Arm) -> bool {
        self.banned.contains_key(arm)
    }

    /// Allows an arm again, because the machine was the cause and not the arm.
    pub(super) fn pardon(&mut self, arm: &Arm) {
        self.banned.remove(arm);
    }

    /// The median of windows of the unchanged machine. None before the first such window.
    pub(super) fn usual(&self) -> Option<f64> {
        let recent: Vec<f64> = self.recent.iter().copied().collect();
        median(&recent)
    }

    /// Whether a value is so much worse than usual that its arm must not run again.
    pub(super) fn is_harm(&self, value: f64) -> bool {
        let Some(usual) = self.usual() else { return false };
        match self.design.metric.better {
            Direction::Lower => value > usual * self.design.guard_ratio,
            Direction::Higher => value < usual / self.design.guard_ratio,
        }
    }

    /// Announces that the arms of the next windows differ only in these knobs.
    /// The wait after a switch is then the settle time of these knobs.
    /// All arms of one comparison must run between two such calls, so that they have the same wait.
    pub(super) fn compares(&mut self, knobs: impl IntoIterator<Item = usize>) {
        let knobs: Vec<usize> = knobs.into_iter().filter(|knob| self.is_in(*knob)).collect();
        self.subject.compares(&knobs);
    }

    /// Measures one window of an arm. Knobs that are no longer switched keep their original values.
    pub(super) fn window(&mut self, arm: &Arm) -> Result<WindowOutcome, Halt> {
        let mut arm = arm.clone();
        for knob in self.out.keys() {
            if let Some(level) = arm.0.get_mut(*knob) {
                *level = Level::AsItWas;
            }
        }
        if self.is_banned(&arm) {
            return Ok(WindowOutcome::Hurt);
        }
        let mut seen = self.next(&arm)?;
        if self.may_be_accident(&arm, &seen) {
            // A server may end once by accident. If the arm is the cause, the server also ends in the next window.
            seen = self.next(&arm)?;
            if let WindowResult::Dropped { why, .. } = &seen
                && is_starved(&seen)
                && !arm.is_as_it_was()
            {
                self.banned.insert(arm, why.clone());
                return Ok(WindowOutcome::Hurt);
            }
        }
        if let Some(why) = self.wrecked(&arm, &seen) {
            // A single bad window may be an accident. If the arm is the cause, the next window is also bad.
            let is_cause = match self.may_repeat(&arm) {
                true => {
                    let again = self.next(&arm)?;
                    self.wrecked(&arm, &again)
                }
                false => Some(why),
            };
            if let Some(why) = is_cause {
                self.banned.insert(arm, why);
                return Ok(WindowOutcome::Hurt);
            }
        }
        self.judge(arm, seen)
    }

    /// Whether the arm may get a second window.
    /// If the log of an older version continues with another arm, the replay repeats the decision of that version.
    fn may_repeat(&self, arm: &Arm) -> bool {
        self.log.entries().get(self.used).is_none_or(|next| next.arm == *arm)
    }

    /// Whether the arm gets a second window after the server ended or got no CPU in the first window.
    fn may_be_accident(&self, arm: &Arm, seen: &WindowResult) -> bool {
        let may_be = match seen {
            WindowResult::Died { .. } => !self.believes_one_death || arm.is_as_it_was(),
            seen => is_starved(seen) && !arm.is_as_it_was(),
        };
        may_be && self.may_repeat(arm)
    }

    /// The metric, primary or guard, that is so much worse than usual that the arm must not run again. None if no metric is.
    fn wrecked(&self, arm: &Arm, seen: &WindowResult) -> Option<String> {
        let WindowResult::Measured { value, sample, .. } = seen else { return None };
        if arm.is_as_it_was() {
            return None;
        }
        match self.usual().filter(|_| has_a_ratio(*value) && self.is_harm(*value)) {
            Some(usual) => Some(format!("{value} where {usual} is usual")),
            None => self.wreck(&guard_numbers(&self.design.guards, sample)),
        }
    }

    /// Checks the last requested window, which has already been returned, in the same way.
    pub(super) fn wrecked_last(&self) -> Option<String> {
        self.wreck(&self.last_guards)
    }

    fn wreck(&self, numbers: &[Option<f64>]) -> Option<String> {
        let guards = self.design.guards.iter().zip(numbers).enumerate();
        guards.into_iter().find_map(|(at, (guard, value))| {
            let of = |numbers: &GuardNumbers| numbers.get(at).copied().flatten();
            let usual = median(&self.recent_guards.iter().filter_map(of).collect::<Vec<_>>())?;
            let value = (*value)?;
            let is_wreck = guard.metric.times_worse(value / usual) > self.design.guard_ratio;
            is_wreck.then(|| format!("{} was {value} where {usual} is usual", guard.metric.name))
        })
    }

    /// The values of the guards in the last requested window.
    pub(super) fn last_guards(&self) -> GuardNumbers {
        self.last_guards.clone()
    }

    /// All windows so far.
    pub(super) fn entries(&self) -> &[Entry] {
        self.log.entries().get(..self.used).unwrap_or_default()
    }

    /// All metrics in the windows of a stage that measured this arm. These metrics show the costs of a set.
    pub(super) fn samples(&self, stage_windows: std::ops::Range<usize>, arm: &Arm) -> Vec<Sample> {
        let entries = self.log.entries().get(stage_windows).unwrap_or_default();
        let of_arm = entries.iter().filter(|entry| entry.arm == *arm);
        let sample = |entry: &Entry| match &entry.seen {
            WindowResult::Measured { sample, .. } => Some(sample.clone()),
            _ => None,
        };
        of_arm.filter_map(sample).collect()
    }

    /// The next window of the log, or a new one.
    fn next(&mut self, arm: &Arm) -> Result<WindowResult, Halt> {
        let known = self.log.entries().get(self.used).cloned();
        let entry = match known {
            Some(entry) if entry.arm == *arm => entry,
            Some(_) => {
                let why = format!("window {} of its log is of another arm: it is the log of another search", self.used);
                return Err(Halt::Failed(why));
            }
            None => {
                let entry = self.measure(arm)?;
                self.log.add(entry).map_err(|error| Halt::Failed(error.to_string()))?
            }
        };
        self.used += 1;
        *self.by_stage.entry(self.stage).or_default() += 1;
        self.spent += Duration::from_millis(entry.took_ms);
        Ok(entry.seen)
    }

    fn measure(&mut self, arm: &Arm) -> Result<Entry, Halt> {
        if (self.stop)() {
            return Err(Halt::Stopped);
        }
        if self.left() == 0 {
            return Err(Halt::OutOfBudget);
        }
        let of = self.used + self.left();
        let progress = SearchProgress { stage: self.stage, windows: self.used, of, known: self.known.clone() };
        (self.on_progress)(&progress);
        let begun = self.subject.clock().now();
        let seen = self.subject.window(arm).map_err(|error| match (self.stop)() {
            // The user stopped the search during a wait.
            true => Halt::Stopped,
            false => Halt::Failed(error.to_string()),
        })?;
        let took_ms = u64::try_from(self.subject.clock().since(begun).as_millis()).unwrap_or(u64::MAX);
        Ok(Entry { arm: arm.clone(), seen, took_ms })
    }

    fn judge(&mut self, arm: Arm, seen: WindowResult) -> Result<WindowOutcome, Halt> {
        let is_baseline = arm.is_as_it_was();
        let lost_why = match &seen {
            WindowResult::Dropped { why, .. } => format!("dropped, the last since {why}"),
            _ => "lost".to_owned(),
        };
        if let WindowResult::Measured { sample, .. } = &seen {
            self.last_guards = guard_numbers(&self.design.guards, sample);
        }
        let got = match seen {
            WindowResult::Measured { value, .. } if has_a_ratio(value) => {
                if is_baseline {
                    self.recent.push_back(value);
                    self.recent_guards.push_back(self.last_guards.clone());
                    if self.recent.len() > RECENT {
                        self.recent.pop_front();
                        self.recent_guards.pop_front();
                    }
                }
                WindowOutcome::Value(value)
            }
            // The value is 0 although higher values are better, so the arm did harm.
            WindowResult::Measured { value, .. }
                if value == 0.0 && self.design.metric.better == Direction::Higher && !is_baseline =>
            {
                self.banned.insert(arm, "nothing was done".to_owned());
                return Ok(WindowOutcome::Hurt);
            }
            WindowResult::Measured { value, .. } => {
                let name = &self.design.metric.name;
                return Err(Halt::Failed(format!(
                    "{name} was {value}, which has no ratio to another: choose another metric"
                )));
            }
            WindowResult::Died { why } if is_baseline => {
                return Err(Halt::Failed(format!("twice in a row on the unchanged machine: {why}")));
            }
            WindowResult::Died { why } => {
                self.banned.insert(arm, why);
                return Ok(WindowOutcome::Hurt);
            }
            WindowResult::Refused { setting, why } => {
                if setting >= self.design.candidates.len() || !self.is_in(setting) {
                    return Err(Halt::Failed(why));
                }
                if matches!(arm.level(setting), Level::Value(_)) {
                    // The host accepted the requested value and refuses only this further value.
                    self.banned.insert(arm, why);
                    return Ok(WindowOutcome::Hurt);
                }
                self.take_out(setting, KnobOutcome::Refused { why });
                WindowOutcome::Nothing
            }
            WindowResult::Dropped { .. } => WindowOutcome::Nothing,
        };
        self.lost = if got == WindowOutcome::Nothing { self.lost + 1 } else { 0 };
        if self.lost > LOST_MAX {
            return Err(Halt::Failed(format!("{} windows in a row were {lost_why}", self.lost)));
        }
        Ok(got)
    }
}
