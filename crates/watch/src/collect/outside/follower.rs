//! `Follower`: counts the ticks of one known loop.
//! The follower takes the records of consecutive stretches of time, and counts each tick once.
//! The follower is a pure function of these records, so the records may be live or recorded.

use std::ops::Range;

use evenkeel_measure::meters::ticks::account::{Account, DueTime, Outcome};
use evenkeel_measure::meters::ticks::loops::TickLoop;
use evenkeel_measure::meters::ticks::stream::{Stream, ThreadLog};
use evenkeel_measure::meters::ticks::tempo::{NoTick, Pacing};
use evenkeel_measure::meters::ticks::tick_account;
use evenkeel_measure::meters::ticks::views::Workers;
use evenkeel_measure::meters::ticks::wakes::Wake;
use evenkeel_stats::quantile;

use super::held_up::HeldUp;
use super::woken::{ready_after, ready_ns};
use crate::sample::{DueSample, LateWas, OutsideLate, OutsideSample, SlicesSample, TelemetrySample, late_bound_ns};

/// The minimum length of a stretch of records, in periods. The loop cannot be followed through a shorter stretch.
const PERIODS_MIN: f64 = 10.0;
/// Ticks are counted up to this many periods before the newest record, because a later record may still belong to a late tick.
const OPEN_PERIODS: f64 = 2.0;
/// Keeps this many periods of records before the uncounted records, because the phase is known from them.
const BEFORE_PERIODS: f64 = 6.0;
/// A loop counts as lost if none of its ticks was counted for this many nanoseconds, and for this many periods (the next constant).
const LOST_NS: f64 = 8e9;
const LOST_PERIODS: f64 = 40.0;
/// If the uncounted records span more than this multiple of the time after which a loop counts as lost, the clock has jumped.
const JUMP_FACTOR: f64 = 4.0;
/// A stretch of records with fewer ticks does not change the expected rate.
const TEMPO_TICKS_MIN: u64 = 12;
/// The maximum number of late ticks that are listed in a sample.
const LATE_MAX: usize = 64;
/// The quantile of tick lengths that is taken as the usual length. A few very long ticks do not change it.
const USUAL: f64 = 0.9;

/// A missed tick counts as one whose thread was ready if the thread was ready for at least this share of the time after the due time.
const READY: f64 = 0.8;

/// What is known while the ticks of a stretch are counted.
struct Seen<'a> {
    all: &'a [DueTime],
    /// The usual length of a tick.
    usual_ns: u64,
    held_up: Option<HeldUp<'a>>,
    /// The thread that does the ticks. None if there are several.
    thread: Option<&'a ThreadLog>,
}

/// Follows one loop.
#[derive(Debug)]
pub(super) struct Follower {
    tick: TickLoop,
    /// How long after the requested time the earliest ticks begin, if known.
    asked_ns: Option<f64>,
    /// The records that are not counted yet, and the records of some periods before these.
    held: Stream,
    /// The times in which records were lost, sorted.
    lossy: Vec<Range<u64>>,
    /// The lateness from which a tick counts as late, if the user gave one.
    late_after_ns: Option<u64>,
    counted: OutsideSample,
}

impl Follower {
    /// Starts with the stretch of records in which the loop was found. `realtime_ns` identifies this follower.
    pub(super) fn new(tick: TickLoop, found_in: Stream, late_after_ns: Option<u64>, realtime_ns: u64) -> Follower {
        let asked_ns = tick_account(&found_in, &tick, None).ok().and_then(|account| account.asked_ns);
        let ticks = TelemetrySample {
            session: String::new(),
            began_realtime_ns: realtime_ns,
            ticks: 0,
            missed: 0,
            last: None,
            period_ns: None,
            period_changes: 0,
            slices: SlicesSample::Unknown,
            major_faults: None,
            thread: None,
            waits: None,
            late_run_delay_ns: None,
            counts: Default::default(),
            lateness: Default::default(),
            work: Default::default(),
            due_to_done: Default::default(),
        };
        let counted = OutsideSample {
            ticks,
            workers: tick.workers(),
            tid: match tick.of {
                Workers::Thread(tid) => Some(tid),
                Workers::Pool(_) | Workers::Process | Workers::Function(_) => None,
            },
            due: DueSample::Unknown,
            hidden: 0,
            counted_from_ns: found_in.from_ns,
            counted_to_ns: found_in.from_ns,
            waited_awake_ns: 0,
            timer_slack_ns: None,
            late: Vec::new(),
            late_beyond: 0,
            missed_waiting: Vec::new(),
            missed_ready: None,
            wakers: Default::default(),
            lost: 0,
            uncounted: 0,
        };
        let lossy = lossy(&Stream::default(), &found_in).into_iter().collect();
        Follower { tick, asked_ns, held: found_in, lossy, late_after_ns, counted }
    }

    /// Adds the next stretch. Returns the counts up to shortly before the end of the stretch.
    ///
    /// # Errors
    /// The reason why the loop is lost.
    pub(super) fn take(&mut self, next: Stream) -> Result<&OutsideSample, NoTick> {
        let held = std::mem::take(&mut self.held);
        self.lossy.extend(lossy(&held, &next));
        self.held = held.joined(next);
        self.count()?;
        Ok(&self.counted)
    }

    /// Counts the held records, if there are enough.
    ///
    /// # Errors
    /// The reason why the loop is lost.
    pub(super) fn count(&mut self) -> Result<&OutsideSample, NoTick> {
        self.counted.late.clear();
        self.counted.late_beyond = 0;
        self.counted.missed_waiting.clear();
        self.counted.missed_ready = None;
        self.counted.counted_from_ns = self.counted.counted_to_ns;
        let period_ns = self.tick.tempo.period_ns;
        let open_ns = self.held.to_ns.saturating_sub(self.counted.counted_to_ns) as f64;
        if open_ns < PERIODS_MIN * period_ns {
            return Ok(&self.counted);
        }
        let lost_ns = LOST_NS.max(LOST_PERIODS * period_ns);
        // The clock may jump by hours, for example if the machine was paused.
        // Otherwise each period of that time would count as a missed tick.
        if open_ns > JUMP_FACTOR * lost_ns {
            return Err(NoTick::FewWakes);
        }
        let account = tick_account(&self.held, &self.tick, self.asked_ns);
        if let Ok(account) = &account {
            self.add(account);
        }
        // The thread may have no CPU for a moment, so the loop is only lost after a longer time.
        let is_stuck = self.counted.counted_to_ns == self.counted.counted_from_ns;
        match is_stuck && open_ns > lost_ns {
            true => Err(account.err().unwrap_or(NoTick::FewWakes)),
            false => Ok(&self.counted),
        }
    }

    fn add(&mut self, account: &Account) {
        self.asked_ns = account.asked_ns.or(self.asked_ns);
        if account.ticks >= TEMPO_TICKS_MIN {
            self.tick.tempo = account.tempo;
        }
        let period_ns = self.tick.tempo.period_ns;
        let until_ns = self.held.to_ns.saturating_sub((OPEN_PERIODS * period_ns) as u64);
        let closed = account.due_times.iter().rev().find(|due| due.expected_ns <= until_ns);
        // Stop counting in the middle between two due times. So a small change of the phase does not move a due time across the border.
        let Some(end_ns) = closed.map(|due| due.expected_ns.saturating_add((period_ns / 2.0) as u64)) else { return };
        let from_ns = self.counted.counted_from_ns;
        let is_new = |due: &&DueTime| (from_ns..end_ns).contains(&due.expected_ns);
        self.counted.due = account.due.into();
        self.counted.ticks.period_ns = Some(period_ns as u64);
        let usual_ns = quantile(&account.wall_ns.iter().map(|ns| *ns as f64).collect::<Vec<f64>>(), USUAL);
        let usual_ns = usual_ns.unwrap_or(0.0) as u64;
        let thread = self.held.threads.iter().find(|thread| Some(thread.tid) == self.counted.tid).cloned();
        let held_up = thread.as_ref().and_then(|thread| HeldUp::new(thread, &account.due_times, self.bound_ns()));
        let seen = Seen { all: &account.due_times, usual_ns, held_up, thread: thread.as_ref() };
        for due in account.due_times.iter().filter(is_new) {
            self.add_one(due, &seen);
        }
        let own = self.held.threads.iter().filter(|thread| Some(thread.tid) == self.counted.tid);
        let ended = own.flat_map(|thread| &thread.wakes).filter(|wake| (from_ns..end_ns).contains(&wake.end_ns));
        let waited_ns = ended.map(waited_ns).fold(0, u64::saturating_add);
        self.counted.waited_awake_ns = self.counted.waited_awake_ns.saturating_add(waited_ns);
        self.counted.counted_to_ns = end_ns;
        self.counted.lost = self.counted.lost.saturating_add(self.held.unseen.records + self.held.unseen.wakes);
        self.forget(end_ns.saturating_sub((BEFORE_PERIODS * period_ns) as u64));
    }

    fn add_one(&mut self, due: &DueTime, seen: &Seen<'_>) {
        let Seen { all, usual_ns, held_up, thread } = seen;
        let bound_ns = self.bound_ns();
        let waited = |due_ns: u64| held_up.as_ref().and_then(|held_up| held_up.at(due_ns));
        let is_lossy = self.lossy.iter().any(|lossy| lossy.contains(&due.expected_ns));
        let ticks = &mut self.counted.ticks;
        match due.outcome {
            // The records of this tick may be lost.
            // Without its records, the tick would look missed, or a later wake of the thread would look like a late tick.
            Outcome::Missed if is_lossy => self.counted.uncounted += 1,
            Outcome::Begun { lateness_ns: Some(ns), .. } if is_lossy && ns >= bound_ns => self.counted.uncounted += 1,
            Outcome::Begun { wake, lateness_ns } => {
                ticks.ticks += 1;
                ticks.work.add(wake.on_cpu_ns);
                if let Some(lateness_ns) = lateness_ns {
                    ticks.lateness.add(lateness_ns);
                    ticks.due_to_done.add(lateness_ns.saturating_add(wake.end_ns.saturating_sub(wake.start_ns)));
                    if lateness_ns >= bound_ns {
                        let due_ns = wake.start_ns.saturating_sub(lateness_ns);
                        let was = waited(due_ns).unwrap_or(LateWas::Off);
                        let ready_ns = thread.and_then(|thread| ready_ns(thread, wake.start_ns));
                        self.late(OutsideLate { due_ns, lateness_ns, cpu: wake.cpu as usize, was, ready_ns });
                    }
                }
            }
            Outcome::Hidden(wake) => {
                ticks.ticks += 1;
                self.counted.hidden += 1;
                let lateness_ns = self.behind_ns(due, &wake, all, *usual_ns).filter(|ns| *ns >= bound_ns);
                if let Some(lateness_ns) = lateness_ns {
                    self.counted.ticks.lateness.add(lateness_ns);
                    let (on_cpu_ns, waited_ns) = (wake.on_cpu_ns, waited_ns(&wake));
                    let was = LateWas::Awake { on_cpu_ns, waited_ns, began_late_ns: began_late_ns(&wake, all) };
                    let (due_ns, cpu) = (due.expected_ns, wake.cpu as usize);
                    self.late(OutsideLate { due_ns, lateness_ns, cpu, was, ready_ns: None });
                }
            }
            Outcome::Missed => {
                ticks.missed += 1;
                let due_ns = due.expected_ns;
                let next_ns = due_ns.saturating_add(self.tick.tempo.period_ns as u64);
                if let Some((all_ns, ready_ns)) = thread.and_then(|thread| ready_after(thread, due_ns, next_ns)) {
                    let is_ready = ready_ns as f64 >= all_ns as f64 * READY;
                    let count = self.counted.missed_ready.get_or_insert_default();
                    *count += u64::from(is_ready && waited(due_ns).is_none());
                }
                let was = waited(due_ns).filter(|_| self.counted.missed_waiting.len() < LATE_MAX);
                // The tick had to wait at most until the next one was due. If the thread was ready before that, its wait ended then.
                let ready_ns = held_up.as_ref().and_then(|held_up| held_up.ended_ns(due_ns)).unwrap_or(u64::MAX);
                let lateness_ns = ready_ns.saturating_sub(due_ns).min(self.tick.tempo.period_ns as u64);
                let missed = was.map(|was| OutsideLate { due_ns, lateness_ns, cpu: 0, was, ready_ns: None });
                self.counted.missed_waiting.extend(missed);
            }
        }
    }

    /// The minimum lateness of a tick that a long tick delayed.
    /// The long tick is assumed to fill the whole wake, except for the usual length of each tick that follows in the same wake.
    /// `None` if the wake did not begin with a tick, because the start of the hidden tick is unknown.
    fn behind_ns(&self, due: &DueTime, wake: &Wake, all: &[DueTime], usual_ns: u64) -> Option<u64> {
        if self.tick.tempo.pacing != Pacing::FixedTimes {
            return None;
        }
        let of_wake = |one: &&DueTime| match one.outcome {
            Outcome::Begun { wake: its, .. } | Outcome::Hidden(its) => its.start_ns == wake.start_ns,
            Outcome::Missed => false,
        };
        let begins = |one: &DueTime| matches!(one.outcome, Outcome::Begun { .. });
        let began_with_a_tick = all.iter().filter(of_wake).any(begins);
        let rest = all.iter().filter(of_wake).filter(|one| one.expected_ns >= due.expected_ns).count() as u64;
        let began_ns = wake.end_ns.saturating_sub(rest.saturating_mul(usual_ns));
        began_with_a_tick.then(|| began_ns.saturating_sub(due.expected_ns))
    }

    fn bound_ns(&self) -> u64 {
        let period_ns = self.tick.tempo.period_ns as u64;
        late_bound_ns(self.late_after_ns, Some(period_ns)).unwrap_or(period_ns)
    }

    fn late(&mut self, late: OutsideLate) {
        match self.counted.late.len() < LATE_MAX {
            true => self.counted.late.push(late),
            false => self.counted.late_beyond += 1,
        }
    }

    /// Drops the records of wakes that ended before this time.
    fn forget(&mut self, before_ns: u64) {
        for thread in &mut self.held.threads {
            thread.wakes.retain(|wake| wake.end_ns >= before_ns);
            thread.asked.retain(|asked| asked.at_ns >= before_ns);
            thread.woken.retain(|woken| woken.at_ns >= before_ns);
        }
        self.held.threads.retain(|thread| !thread.is_over);
        self.lossy.retain(|lossy| lossy.end >= before_ns);
        self.held.from_ns = self.held.from_ns.max(before_ns);
        self.held.unseen = Default::default();
    }
}

/// The time in which records of a stretch may be missing.
/// If the record of a wake's end is lost, the whole wake is missing. That wake may have begun in the stretch `before`.
fn lossy(before: &Stream, next: &Stream) -> Option<Range<u64>> {
    if next.unseen.is_nothing() {
        return None;
    }
    let last_ns = before.threads.iter().filter_map(|thread| thread.wakes.last()).map(|wake| wake.end_ns).max();
    Some(last_ns.map_or(next.from_ns, |ns| ns.min(next.from_ns))..next.to_ns)
}

/// How late the first tick of a wake began. `None` if that is unknown, or if the tick before it was missed.
fn began_late_ns(wake: &Wake, all: &[DueTime]) -> Option<u64> {
    let mut before = None;
    for one in all {
        match one.outcome {
            Outcome::Begun { wake: its, lateness_ns } if its.start_ns == wake.start_ns => {
                return lateness_ns.filter(|_| before != Some(Outcome::Missed));
            }
            outcome => before = Some(outcome),
        }
    }
    None
}

fn waited_ns(wake: &Wake) -> u64 {
    wake.end_ns.saturating_sub(wake.start_ns).saturating_sub(wake.on_cpu_ns)
}
