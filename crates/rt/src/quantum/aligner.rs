//! `Aligner`: decides when to search for a quantum, which phases of the ticks to try, and where to hold the ticks.
//! The aligner reads no clock: callers pass times and get moves, so a test can simulate an hour in a moment.

use evenkeel_stats::periodicity::{Gap, Label, Model, Periodicity, Slots};

use super::grid::{Followed, Grid, step_ns};
use super::trial::{FINALS, PLACES_MAX, Trial, Verdict};
use super::watch::Watch;
use super::{Aligned, Alignment, GapsSeen, Quantum, Slot};

const SECOND_NS: u64 = 1_000_000_000;
/// When to judge the gaps found so far, counted from the beginning of a search. Each later judgement has more gaps.
const LOOKS_NS: [u64; 3] = [3 * SECOND_NS / 2, 3 * SECOND_NS, 5 * SECOND_NS];
/// The average time between two wake-ups before each judgement.
/// The first step costs 1 % of a CPU. Later steps cost 2 %, and see shorter gaps too.
const STEPS_NS: [u64; 3] = [500_000, 250_000, 250_000];
/// The minimum time between the last wake-up and the tick.
const CLEAR_NS: u64 = 300_000;
/// Minimum confidence to accept detected slots.
const CONFIDENT: f64 = 0.7;
/// Stop following slots if fewer than this share of the last gaps came when predicted.
const TRUSTED: f64 = 0.5;
/// A tick counts as disturbed if it begins this late, or if other threads keep it from running for this long.
const HURT_NS: u64 = 300_000;
/// At the first share of disturbed ticks, a search is worth its cost. At the second, we try all phases even without a period.
const HURTS: f64 = 0.1;
const HURTS_MUCH: f64 = 0.25;
/// How fast the share of disturbed ticks decays.
const MEMORY: f64 = 1.0 / 32.0;
/// If held ticks get longer by this factor, we try the phases again.
const LONGER: f64 = 1.25;
/// The wait after a search without success. The wait grows with each further failure.
const WAIT_NS: u64 = 15 * SECOND_NS;
const WAIT_MAX_NS: u64 = 600 * SECOND_NS;
/// When followed slots are lost, the wait stays short this many times.
/// The slots are likely to come back soon, and the hypervisor's clock runs on meanwhile.
const LOST_LOOKS: u32 = 20;
/// The earliest time at which a tick is due after the CPU comes back, in nanoseconds.
const AFTER_START_NS: f64 = 30_000.0;
/// The additional distance in mean deviations, so that a tick rarely comes before the CPU is back.
/// For evenly spread starts, two deviations cover all.
const DEVIATIONS: f64 = 2.5;
/// A search shifts each tick by at most the period divided by this.
const ASIDE_STEPS: u64 = 10;
/// How many ticks run at one place in a row during a trial.
const TURN_TICKS: u32 = 6;
/// The time limit of a sweep, in nanoseconds. Sixteen places take about forty turns.
const SWEEP_NS: u64 = 6 * SECOND_NS;
const SWEEP_TURNS: u64 = 40;
/// The gain that a place must have: with accepted slots, under a limit, and without any other evidence.
/// Next to noisy neighbours, two equal places differ by chance. Without this rule, an hour of ticks was 6 % longer at the chosen place.
const GAIN_SLOTS: f64 = 0.97;
const GAIN_LIMIT: f64 = 0.98;
const GAIN_ALONE: f64 = 0.96;
/// A period this close to a whole number of scheduler ticks may come from the time slices of other threads.
const TICK_TOLERANCE: f64 = 3e-4;
/// The maximum number of parts into which we divide the slots' period to match the ticks' period. The second value is for a CPU limit.
const SLOT_PARTS: u32 = 3;
const LIMIT_PARTS: u32 = 16;

/// The times of a tick that the aligner uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) due_ns: u64,
    pub(super) began_ns: u64,
    pub(super) done_ns: u64,
    /// How long the tick was kept from running inside the guest while it worked, in nanoseconds.
    pub(super) lost_ns: u64,
}

/// Facts that are known at the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given {
    /// The limit on CPU time: quota and period in nanoseconds.
    pub(super) limit: Option<(u64, u64)>,
    /// The scheduler's tick in nanoseconds.
    pub(super) tick_ns: Option<u64>,
}

/// Why the aligner tries phases.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Why {
    /// The detector is confident that the CPU has slots.
    Believed,
    /// The slots may be time slices of an ordinary thread. They are real only if ticks take longer in the supposed gap.
    Unproven {
        /// The original place of the ticks.
        home_ns: f64,
    },
    /// The control group has a CPU limit.
    Limit,
    /// Many ticks are disturbed, and no period explains the delays.
    Hurt,
}

impl Why {
    /// Whether places are relative to slots that the aligner follows.
    fn follows(self) -> bool {
        matches!(self, Why::Believed | Why::Unproven { .. })
    }
}

#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, and nothing may be allocated")]
enum Activity {
    Looking { since_ns: u64, look: usize, asked: bool },
    Trying { trial: Trial, grid: Grid, why: Why },
    Watching,
}

/// The phase at which ticks are held.
#[derive(Clone, Copy, Debug)]
struct Hold {
    grid: Grid,
    offset_ns: f64,
    follows: bool,
    /// False if the clock holds ticks only until they are back at their old phase.
    stays: bool,
    /// The mean time from due to done, in nanoseconds: first during the trial, then recently.
    tried_ns: f64,
    lately_ns: f64,
}

/// The state of the decisions that the module describes.
#[derive(Debug)]
pub(super) struct Aligner {
    given: Given,
    period_ns: u64,
    watch: Watch,
    activity: Activity,
    followed: Option<Followed>,
    hold: Option<Hold>,
    quantum: Quantum,
    /// The recent share of disturbed ticks. The next value is the recent share of the time from due to done in which ticks did not run.
    hurt: f64,
    next_look_ns: u64,
    wait_ns: u64,
    /// How many more searches for lost slots start after a short wait.
    soon: u32,
    /// The tick before which the thread has already waited for the CPU to come back.
    looked_out_ns: u64,
    is_lookout: bool,
    /// How far the ticks are shifted for a search, in nanoseconds.
    aside_ns: i64,
    has_no_multiple: bool,
    chance: u64,
    moves: u64,
    probes: u64,
    gaps: GapsSeen,
}

impl Aligner {
    pub(super) fn new(now_ns: u64, period_ns: u64, given: Given) -> Aligner {
        let limit = given.limit.filter(|(quota_ns, period_ns)| quota_ns < period_ns);
        let given = Given { limit, ..given };
        let quantum =
            limit.map_or(Quantum::Unknown, |(quota_ns, period_ns)| Quantum::TokenBucket { quota_ns, period_ns });
        // Under a limit, a search would use up the ticks' own quota, and would find nothing.
        let activity = match limit {
            Some(_) => Activity::Watching,
            None => Activity::Looking { since_ns: now_ns, look: 0, asked: false },
        };
        Aligner {
            given,
            period_ns,
            watch: Watch::new(),
            activity,
            followed: None,
            hold: None,
            quantum,
            hurt: 0.0,
            next_look_ns: now_ns,
            wait_ns: WAIT_NS,
            soon: 0,
            looked_out_ns: 0,
            is_lookout: false,
            aside_ns: 0,
            has_no_multiple: false,
            chance: now_ns | 1,
            moves: 0,
            probes: 0,
            gaps: GapsSeen::default(),
        }
    }

    pub(super) fn report(&self) -> Aligned {
        let alignment = match self.activity {
            Activity::Looking { .. } if self.hold.is_none() => Alignment::Looking,
            Activity::Trying { .. } => Alignment::Trying,
            _ if self.hold.is_some() => Alignment::Held,
            _ if self.has_no_multiple => Alignment::NoMultiple,
            _ => Alignment::Free,
        };
        let quantum = match (self.quantum, &self.followed) {
            (Quantum::FixedSlot(_), Some(followed)) => Quantum::FixedSlot(slot(followed)),
            (quantum, _) => quantum,
        };
        Aligned { quantum, alignment, moves: self.moves, probes: self.probes, gaps: self.gaps }
    }

    /// When to wake next in the idle time from `now_ns` to the tick at `due_ns`. `None` means to sleep until the tick.
    pub(super) fn next_wake_ns(&mut self, now_ns: u64, due_ns: u64) -> Option<u64> {
        self.is_lookout = false;
        if let Activity::Looking { look, .. } = self.activity {
            // The step is random, so that the wake-ups have no period of their own.
            let step_ns = STEPS_NS[look] / 2 + self.random() % STEPS_NS[look];
            return Some(now_ns + step_ns).filter(|wake_ns| wake_ns + CLEAR_NS <= due_ns && !self.watch.is_full());
        }
        if self.looked_out_ns == due_ns {
            return None;
        }
        self.looked_out_ns = due_ns;
        let wake_ns = self.followed.as_ref()?.lookout_ns(due_ns);
        self.is_lookout = wake_ns > now_ns && wake_ns < due_ns;
        self.is_lookout.then_some(wake_ns)
    }

    /// The thread runs at `now_ns`, and idle time follows.
    pub(super) fn idle_from(&mut self, now_ns: u64) {
        if let Activity::Looking { .. } = self.activity {
            self.watch.open(now_ns);
        }
    }

    /// A sleep in idle time should have ended at `wanted_ns` and ended at `woke_ns`.
    /// `label` says who took the CPU for a given number of nanoseconds.
    pub(super) fn woke(&mut self, wanted_ns: u64, woke_ns: u64, label: impl FnOnce(u64) -> Label) {
        self.probes += 1;
        if self.is_lookout {
            if let Some(followed) = &mut self.followed {
                followed.looked_out(woke_ns);
            }
            return;
        }
        self.slept(wanted_ns, woke_ns, label);
    }

    fn slept(&mut self, wanted_ns: u64, woke_ns: u64, label: impl FnOnce(u64) -> Label) {
        if let Some(gap) = self.watch.woke(wanted_ns, woke_ns, label) {
            self.count(gap.label);
        }
    }

    /// The sleep before a tick should have ended at `due_ns` and ended at `began_ns`. The tick's work begins now.
    pub(super) fn began(&mut self, due_ns: u64, began_ns: u64, label: impl FnOnce(u64) -> Label) {
        if let Activity::Looking { .. } = self.activity {
            self.slept(due_ns, began_ns, label);
        }
    }

    /// The tick's work reached a checkpoint. `gap` is the CPU gap before the checkpoint, if any.
    pub(super) fn passed(&mut self, now_ns: u64, gap: Option<Gap>) {
        if let Activity::Looking { .. } = self.activity {
            self.watch.ran(now_ns, gap);
        }
        if let Some(gap) = gap {
            self.count(gap.label);
        }
    }

    fn count(&mut self, label: Label) {
        match label {
            Label::Foreign => self.gaps.foreign += 1,
            Label::Preempted => self.gaps.preempted += 1,
            Label::Unknown => self.gaps.unknown += 1,
        }
    }

    /// If it is time to judge the gaps, returns the watch that holds them.
    pub(super) fn asks(&mut self, now_ns: u64) -> Option<&Watch> {
        match &mut self.activity {
            Activity::Looking { since_ns, look, asked }
                if !*asked && (now_ns >= *since_ns + LOOKS_NS[*look] || self.watch.is_full()) =>
            {
                *asked = true;
                Some(&self.watch)
            }
            _ => None,
        }
    }

    /// The finder was busy, so the aligner asks again later.
    pub(super) fn not_asked(&mut self) {
        if let Activity::Looking { asked, .. } = &mut self.activity {
            *asked = false;
        }
    }

    /// Takes the finder's result for the gaps.
    pub(super) fn found(&mut self, now_ns: u64, due_ns: u64, said: &Periodicity) {
        let Activity::Looking { since_ns, look, .. } = self.activity else { return };
        if let Some(slots) = said.slots.filter(|_| said.confidence >= CONFIDENT) {
            let followed = Followed::new(&slots, said.confidence, self.watch.gaps().iter().map(end_ns));
            let believed = self.is_believed(&slots);
            self.watch.clear();
            return self.follow(now_ns, due_ns, followed, believed);
        }
        let is_quiet = look > 0 && said.model == Model::None && self.hurt < HURTS;
        if look + 1 < LOOKS_NS.len() && !is_quiet && !self.watch.is_full() {
            self.activity = Activity::Looking { since_ns, look: look + 1, asked: false };
            return;
        }
        self.watch.clear();
        self.activity = Activity::Watching;
        self.quantum = if said.model == Model::None { Quantum::None } else { Quantum::Irregular };
        self.has_no_multiple = false;
        if self.hurt >= HURTS_MUCH && self.hold.is_none() {
            self.sweep(due_ns, self.period_ns as f64, Why::Hurt);
        } else {
            self.wait(now_ns);
        }
    }

    /// Whether the period cannot come from threads' time slices, which the scheduler ends at its own tick.
    fn is_believed(&self, slots: &Slots) -> bool {
        let gaps = self.watch.gaps();
        let foreign = gaps.iter().filter(|gap| gap.label == Label::Foreign).count();
        let is_multiple = self.given.tick_ns.is_some_and(|tick_ns| {
            let turns = (slots.period_ns / tick_ns as f64).round().max(1.0);
            let apart_ns = (slots.period_ns - turns * tick_ns as f64).abs();
            apart_ns <= TICK_TOLERANCE * slots.period_ns + 3.0 * slots.period_error_ns
        });
        foreign * 2 > gaps.len() || !is_multiple
    }

    /// Follows slots that were found, and tests at which of their places ticks finish soonest.
    fn follow(&mut self, now_ns: u64, due_ns: u64, followed: Followed, believed: bool) {
        self.followed = Some(followed);
        if believed {
            self.quantum = Quantum::FixedSlot(slot(&followed));
        }
        let step = step_ns(self.period_ns, followed.period_ns(), SLOT_PARTS);
        self.has_no_multiple = step.is_none();
        self.activity = Activity::Watching;
        let Some(step_ns) = step else {
            self.hold = None;
            return self.wait(now_ns);
        };
        let grid = Grid { step_ns, base_ns: 0 };
        let home_ns = grid.offset_ns(self.followed.as_ref(), due_ns);
        let later_ns = AFTER_START_NS + DEVIATIONS * followed.deviation_ns;
        let count = if later_ns > 2.0 * AFTER_START_NS { 2 } else { 1 };
        let others = [AFTER_START_NS, later_ns].into_iter().take(count);
        let (came_from_ns, why) = match believed {
            true => (home_ns, Why::Believed),
            false => (step_ns - (followed.gone_ns() / 2.0).min(step_ns / 2.0), Why::Unproven { home_ns }),
        };
        if let Some(trial) = Trial::new(came_from_ns, others, TURN_TICKS, self.period_ns) {
            let trial = trial.prefers_first(GAIN_SLOTS);
            self.activity = Activity::Trying { trial, grid, why };
        }
    }

    /// Tries ticks at places spread over `over_ns`, and holds the best place.
    fn sweep(&mut self, due_ns: u64, over_ns: f64, why: Why) {
        let parts = if why == Why::Limit { LIMIT_PARTS } else { 1 };
        let step_ns = step_ns(self.period_ns, over_ns, parts).unwrap_or(self.period_ns as f64);
        // After this many ticks, the ticks meet the limit's period at the same point again.
        let cycle = (over_ns / step_ns).round().clamp(1.0, f64::from(LIMIT_PARTS)) as u64;
        let turn = (SWEEP_NS / (SWEEP_TURNS * self.period_ns)).clamp(4, 12).next_multiple_of(cycle);
        let grid = Grid { step_ns, base_ns: due_ns };
        let others = (1..PLACES_MAX).map(|at| at as f64 * step_ns / PLACES_MAX as f64);
        if let Some(trial) = Trial::new(0.0, others, turn as u32, self.period_ns) {
            self.activity = Activity::Trying { trial, grid, why };
        }
    }

    /// Records a tick that has ended.
    pub(super) fn ticked(&mut self, seen: &Seen) {
        let late_ns = seen.began_ns.saturating_sub(seen.due_ns);
        let is_hurt = late_ns.max(seen.lost_ns) > HURT_NS;
        self.hurt += MEMORY * (f64::from(u8::from(is_hurt)) - self.hurt);
        let due_to_done_ns = seen.done_ns.saturating_sub(seen.due_ns);
        if let Activity::Trying { trial, grid, why } = &mut self.activity {
            let (grid, why) = (*grid, *why);
            if let Some(verdict) = trial.ticked(due_to_done_ns) {
                self.judge(seen.done_ns, grid, why, &verdict);
            }
            return;
        }
        if let Some(hold) = &mut self.hold {
            let most_ns = 1.5 * self.period_ns as f64;
            hold.lately_ns += MEMORY / 2.0 * ((due_to_done_ns as f64).min(most_ns) - hold.lately_ns);
        }
    }

    fn judge(&mut self, now_ns: u64, grid: Grid, why: Why, verdict: &Verdict) {
        self.activity = Activity::Watching;
        let gain = verdict.after_ns / verdict.before_ns.max(1.0);
        let (most, least_won) = match why {
            // A tick that comes while the CPU is still gone finishes no sooner than one that comes with the CPU.
            // So a later place need not be better than the original place; it only must not be worse.
            Why::Believed if self.is_gone_at(grid, verdict.came_from_ns) => (1.0, FINALS / 2 + 1),
            Why::Believed => (GAIN_SLOTS, FINALS / 2 + 1),
            Why::Limit => (GAIN_LIMIT, FINALS / 2 + 1),
            Why::Unproven { .. } | Why::Hurt => (GAIN_ALONE, FINALS),
        };
        let is_better = verdict.won >= least_won && gain < most;
        let (offset_ns, tried_ns) = match (is_better, why) {
            (true, _) => (verdict.best_ns, verdict.after_ns),
            (false, Why::Unproven { home_ns }) => (home_ns, verdict.before_ns),
            (false, _) => (verdict.came_from_ns, verdict.before_ns),
        };
        // If no place was better and there is no other evidence, ticks go back to their old phase, and the aligner no longer holds them.
        let stays = is_better || matches!(why, Why::Believed | Why::Limit);
        let follows = why.follows();
        self.hold = Some(Hold { grid, offset_ns, follows, stays, tried_ns, lately_ns: tried_ns });
        match &self.followed {
            Some(followed) if stays && follows => self.quantum = Quantum::FixedSlot(slot(followed)),
            _ if !stays => self.quantum = Quantum::Irregular,
            _ => {}
        }
        self.wait(now_ns);
        // Gaps that were hidden behind the ticks' work are now visible in idle time.
        if is_better && why == Why::Hurt {
            self.look(now_ns);
        }
    }

    /// Whether the CPU is away at this offset from a point of the grid. If steps are whole periods, that is the last part of a step.
    fn is_gone_at(&self, grid: Grid, offset_ns: f64) -> bool {
        let is_whole = |followed: &&Followed| grid.step_ns > 0.9 * followed.period_ns();
        self.followed.as_ref().filter(is_whole).is_some_and(|followed| offset_ns > grid.step_ns - followed.gone_ns())
    }

    /// Returns by how much to move the next tick, which is due at `due_ns`, in nanoseconds. Call it once before each tick.
    pub(super) fn move_ns(&mut self, now_ns: u64, due_ns: u64) -> i64 {
        self.reconsider(now_ns, due_ns);
        let (grid, offset_ns, follows) = match (&self.activity, &self.hold) {
            (Activity::Trying { trial, grid, why }, _) => (*grid, trial.offset_ns(), why.follows()),
            (_, Some(hold)) => (hold.grid, hold.offset_ns, hold.follows),
            (_, None) => return self.step_aside(),
        };
        self.aside_ns = 0;
        let followed = self.followed.as_ref().filter(|_| follows);
        let wanted_ns = grid.nearest_ns(followed, due_ns, offset_ns);
        let by_ns = wanted_ns.cast_signed() - due_ns.cast_signed();
        // If no place was better, release the ticks once they are back at their old phase.
        if self.hold.is_some_and(|hold| !hold.stays) && !matches!(self.activity, Activity::Trying { .. }) {
            self.let_go();
        }
        if by_ns.unsigned_abs() as f64 > grid.step_ns / 20.0 {
            self.moves += 1;
            return by_ns;
        }
        // Correct small drifts of the followed slots smoothly.
        by_ns / 4
    }

    /// Idle time cannot show a gap inside the ticks' work. So for the second part of a search, this shifts ticks by half a period, then back.
    /// The ticks move a tenth of a period at a time, because players notice the phase of ticks.
    fn step_aside(&mut self) -> i64 {
        let wanted_ns = match self.activity {
            Activity::Looking { look: 1.., .. } => (self.period_ns / 2).cast_signed(),
            _ => 0,
        };
        let most_ns = (self.period_ns / ASIDE_STEPS).cast_signed();
        let by_ns = (wanted_ns - self.aside_ns).clamp(-most_ns, most_ns);
        self.aside_ns += by_ns;
        by_ns
    }

    fn let_go(&mut self) {
        self.hold = None;
        self.followed = None;
    }

    /// Starts another search or trial if it is time for one.
    fn reconsider(&mut self, now_ns: u64, due_ns: u64) {
        if !matches!(self.activity, Activity::Watching) || self.hold.is_some_and(|hold| !hold.stays) {
            return;
        }
        if self.followed.as_ref().is_some_and(|followed| followed.trust() < TRUSTED) {
            self.let_go();
            (self.wait_ns, self.soon) = (WAIT_NS, LOST_LOOKS);
            return self.look(now_ns);
        }
        if now_ns < self.next_look_ns {
            return;
        }
        let limit = self.given.limit;
        match (&self.hold, limit) {
            (Some(hold), None) if hold.lately_ns < LONGER * hold.tried_ns => {}
            (Some(hold), Some(_)) if hold.lately_ns < LONGER * hold.tried_ns => {}
            (Some(_), Some((_, period_ns))) => self.sweep(due_ns, period_ns as f64, Why::Limit),
            (None, Some((_, period_ns))) if self.hurt >= HURTS => self.sweep(due_ns, period_ns as f64, Why::Limit),
            (None, Some(_)) => {}
            (_, None) => {
                // The held place was the best for no known reason. It is no longer better, so give it up.
                self.hold = None;
                self.look(now_ns);
            }
        }
    }

    fn look(&mut self, now_ns: u64) {
        self.watch.clear();
        self.activity = Activity::Looking { since_ns: now_ns, look: 0, asked: false };
    }

    /// Schedules the next search after a wait, which gets longer each time.
    fn wait(&mut self, now_ns: u64) {
        self.next_look_ns = now_ns + self.wait_ns;
        if self.soon > 0 {
            self.soon -= 1;
        } else {
            self.wait_ns = (self.wait_ns * 2).min(WAIT_MAX_NS);
        }
    }

    /// Records that the ticks have another period from now on.
    pub(super) fn set_period(&mut self, now_ns: u64, due_ns: u64, period_ns: u64) {
        if period_ns == self.period_ns {
            return;
        }
        self.period_ns = period_ns;
        self.hold = None;
        match (self.followed, &self.activity) {
            (_, Activity::Looking { .. }) => {}
            (Some(followed), _) => {
                let believed = matches!(self.quantum, Quantum::FixedSlot(_));
                self.follow(now_ns, due_ns, followed, believed);
            }
            (None, _) => {
                self.activity = Activity::Watching;
                self.next_look_ns = now_ns;
            }
        }
    }

    fn random(&mut self) -> u64 {
        // Marsaglia's xorshift: random enough for the lengths of short sleeps.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }
}

fn slot(followed: &Followed) -> Slot {
    Slot {
        period_ns: followed.period_ns(),
        share: followed.share,
        phase_ns: followed.phase_ns(),
        confidence: followed.confidence * followed.trust(),
    }
}

fn end_ns(gap: &Gap) -> u64 {
    gap.start_ns + gap.length_ns
}
