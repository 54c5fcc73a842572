//! Whether a CPU that is taken away now and then is taken away by the clock: the period, our share of it, and when that share begins.
//!
//! A thread that spins notes every gap in which it did not run. One gap says nothing: an ordinary neighbour's turn is as long as the
//! slice of a hypervisor. So all gaps of a few seconds are folded over one another, and time without a gap counts as much as a gap does:
//! the model has to say when the CPU is ours and when it is not, and is believed only as far as it agrees with what was seen.
//!
//! | step | where |
//! |---|---|
//! | gaps that count, time that was watched | `observed` |
//! | periods worth a try: peaks of the spectrum of "gone" over watched time | `spectrum` |
//! | period, beginning and length by least squares without outliers | `fit` |
//! | how far the model and what was seen agree (Cohen's kappa) | `agreement` |
//! | where gaps come with jitter: the intervals between them | `intervals` |
//! | following a known model gap by gap, at no cost | [`Tracker`] |
//!
//! [`detect`] takes `5 * seconds * (1/PERIOD_MIN - 1/PERIOD_MAX) * (2 * gaps + 2 * windows)` steps of four multiplications, with at most
//! [`SEARCH_NS`] of time and [`SEARCH_GAPS`] gaps: about 10 ms for two seconds, 150 ms at the very most. It allocates some vectors of the
//! gaps' and the spectrum's length, which a [`Detector`] keeps for the next time. It is not for the middle of a tick; [`Tracker::observe`] is: a dozen
//! operations, no allocation.

mod agreement;
mod fit;
mod gap;
mod intervals;
mod observed;
mod spectrum;
mod tracker;

use std::fmt;

use serde::Serialize;

pub use gap::{Gap, Label, PERIOD_MAX_NS, PERIOD_MIN_NS, SEARCH_GAPS, SEARCH_NS, Window};
pub use tracker::Tracker;

use fit::Fit;
use intervals::Cycle;
use observed::Observed;

/// A CPU that is gone for less than this share of the time is ours.
const LOST_MIN: f64 = 0.02;
/// The model must agree at least so far with what was seen; 1 is perfect, 0 is chance.
const AGREEMENT_MIN: f64 = 0.6;
/// So many of its gaps must have been seen,
const SEEN_MIN: u64 = 6;
/// and such a share of those that were to be seen.
const SEEN_SHARE_MIN: f64 = 0.6;
/// Gaps that begin less evenly than this, as a share of the period, are not slots.
const SPREAD_MAX: f64 = 0.08;
/// Where each gap is off by so much that the agreement of times says little: so much of the missing time must be in gaps that begin near their time,
const IN_TIME_MIN: f64 = 0.8;
/// such a share of the expected gaps must have been seen,
const SEEN_SHARE_MIN_JITTER: f64 = 0.8;
/// and such a share of the intervals between gaps must be alike,
const REGULAR_MIN: f64 = 0.75;
/// of at least so many,
const INTERVALS_MIN: u64 = 10;
/// with a standard deviation of no more than this share of the period.
const JITTER_MAX: f64 = 0.13;
/// Beginnings that are off by less than this share of the period keep their times well enough.
const WANDER_MIN: f64 = 0.01;
/// Independent beginnings spread 0.71 times as far as the intervals between them.
const WANDER_RATIO: f64 = 1.1;
/// The periods by times and by intervals may differ by this share.
const SAME_PERIOD: f64 = 0.05;
/// A period that is a whole number of ticks to within this is taken for the scheduler's own, where that can be.
const TICK_TOLERANCE: f64 = 3e-4;
/// So much of what a limit would take must be missing before it is blamed.
const LIMIT_BITES: f64 = 0.5;

/// Which gaps count; time in the others counts as not watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// Those that nobody inside the guest took, and those of which it is not known.
    #[default]
    Foreign,
    /// All.
    All,
}

/// A limit of CPU time that the watching thread is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The CPU time in each period, in nanoseconds.
    pub quota_ns: u64,
    /// The period, in nanoseconds.
    pub period_ns: u64,
    /// How often it ran out while somebody watched; none if nobody counts.
    pub throttled: Option<u64>,
}

/// What is known beside the gaps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Which gaps count.
    pub count: Count,
    /// The limit that the thread is under.
    pub limit: Option<Limit>,
    /// The scheduler's tick in nanoseconds, if gaps that count may be turns of other threads in the same guest: the scheduler ends
    /// turns at its tick, so that they are periodic too. None for a real-time thread.
    pub turns_end_at_ns: Option<u64>,
}

/// How a CPU is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// It is ours.
    None,
    /// At set times, as a hypervisor does that gives each virtual CPU a slot.
    FixedSlot,
    /// When a budget has run out, until it is filled again.
    TokenBucket,
    /// At no times that could be told.
    Irregular,
}

/// Slots of a fixed place in time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slots {
    /// From one beginning of our share to the next, in nanoseconds.
    pub period_ns: f64,
    /// The standard error of that.
    pub period_error_ns: f64,
    /// How much of the period is ours, from 0 to 1.
    pub share: f64,
    /// A moment in which our share began, about the middle of what was watched, on the gaps' clock.
    pub share_start_ns: u64,
    /// How far the period is from the nearest tenth of a millisecond, in millionths: how fast its clock and ours go apart.
    pub drift_ppm: f64,
    /// The standard deviation of the beginnings, in nanoseconds.
    pub spread_ns: f64,
    /// How many of its gaps were seen,
    pub seen: u64,
    /// of so many that were to be seen.
    pub expected: u64,
}

impl Slots {
    /// The first beginning of our share at `ns` or later. Good for about `spread / period_error` periods.
    pub fn next_start_ns(&self, ns: u64) -> u64 {
        let since = ns as f64 - self.share_start_ns as f64;
        let turns = (since / self.period_ns).ceil();
        self.share_start_ns.saturating_add_signed((turns * self.period_ns).round() as i64)
    }
}

/// A period with its jitter. Where the gaps come at set times there are [`Slots`] too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Period {
    /// From one beginning of our share to the next, the mean, in nanoseconds.
    pub period_ns: f64,
    /// The standard error of that.
    pub period_error_ns: f64,
    /// How much of the period is ours, from 0 to 1.
    pub share: f64,
    /// The standard deviation of the beginnings as a share of the period: around their set times, or, where there are none, around a period after
    /// the beginning before. Beginnings that are off by up to J either way, evenly, have 0.58 J.
    pub jitter: f64,
}

/// Why the answer is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing was watched.
    Unwatched,
    /// Less is missing than counts.
    LittleMissing,
    /// The gaps come at set times.
    Periodic,
    /// The gaps come a period after one another, and at no set times.
    Wandering,
    /// No period explains the gaps.
    NoPeriod,
    /// The period is the scheduler's tick, and other threads can have had their turns.
    OwnTick,
    /// A limit is set, and time is missing as it would take it.
    LimitBites,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Unwatched => "nothing was watched",
            Reason::LittleMissing => "too little time is missing",
            Reason::Periodic => "gaps come at set times",
            Reason::Wandering => "gaps come a period after one another, at no set times, so that there is no phase",
            Reason::NoPeriod => "no period explains the gaps",
            Reason::OwnTick => "the gaps follow the scheduler tick, like time slices of other threads",
            Reason::LimitBites => "a CPU limit is set, and it ran out",
        })
    }
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What the gaps say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Periodicity {
    /// The answer.
    pub model: Model,
    /// The period of [`Model::FixedSlot`]; none for every other.
    pub period: Option<Period>,
    /// Its slots, where they kept their times while they were watched. With [`Reason::Wandering`] they will not keep them for long.
    pub slots: Option<Slots>,
    /// How sure it is, from 0 to 1.
    pub confidence: f64,
    /// The share of watched time in which the CPU was gone, from 0 to 1.
    pub lost_share: f64,
    /// How far the best period agrees with what was seen: 1 is perfect, 0 is chance.
    pub agreement: f64,
    /// Watched time, in nanoseconds, less the gaps that were set aside.
    pub watched_ns: u64,
    /// Gaps that counted.
    pub counted: usize,
    /// Gaps that did not.
    pub set_aside: usize,
    /// Why.
    pub why: Reason,
}

/// Says how the CPU is taken away. `windows` and `gaps` are in the order of time and do not overlap; each gap lies in a window.
pub fn detect(windows: &[Window], gaps: &[Gap], known: &Known) -> Periodicity {
    Detector::default().detect(windows, gaps, known)
}

/// [`detect`] with room that is used again: with enough of it at the start it allocates nothing more.
#[derive(Debug, Default)]
pub struct Detector {
    observed: Observed,
    spectrum: spectrum::Room,
    fit: fit::Room,
    intervals: intervals::Room,
}

impl Detector {
    /// With room for so many windows and gaps. More are no error: they take what they need.
    pub fn with_room(windows: usize, gaps: usize) -> Detector {
        Detector {
            observed: Observed::with_room(windows, gaps),
            spectrum: spectrum::Room::of(windows, gaps),
            fit: fit::Room::of(gaps),
            intervals: intervals::Room::of(gaps),
        }
    }

    /// The same as the function [`detect`].
    pub fn detect(&mut self, windows: &[Window], gaps: &[Gap], known: &Known) -> Periodicity {
        let limit = known.limit.filter(|limit| bites(windows, gaps, limit));
        // What a limit takes is preempted, or not known: neither says anything of a hypervisor then.
        match limit {
            Some(_) => self.observed.fill(windows, gaps, |label| label == Label::Foreign),
            None => {
                let counts = |label| known.count == Count::All || label != Label::Preempted;
                self.observed.fill(windows, gaps, counts);
            }
        }
        let (mut best, mut cycle) = (None, None);
        if self.observed.lost_share() >= LOST_MIN {
            best = self.best_fit();
            cycle = intervals::cycle(&self.observed, &mut self.intervals);
        }
        judged(&self.observed, gaps, known, limit, (best, cycle.filter(is_regular)))
    }

    /// The period that agrees best with what was seen.
    fn best_fit(&mut self) -> Option<Fit> {
        let periods = spectrum::periods(&self.observed, &mut self.spectrum);
        let periods = periods.into_iter().filter(|period| *period > 0.0);
        let fits = periods.filter_map(|period| fit::refine(&self.observed, period, &mut self.fit));
        fits.max_by(|one, other| one.agreement.total_cmp(&other.agreement))
    }
}

fn judged(
    observed: &Observed,
    gaps: &[Gap],
    known: &Known,
    limit: Option<Limit>,
    (best, cycle): (Option<Fit>, Option<Cycle>),
) -> Periodicity {
    let lost_share = observed.lost_share();
    let found = best.filter(|fit| is_periodic(fit) || cycle.is_some_and(|cycle| is_periodic_with_jitter(fit, &cycle)));
    // The scheduler's turns are alike, too: without set times there is nothing to tell them from a hypervisor's.
    let is_own_tick =
        known.turns_end_at_ns.is_some_and(|tick_ns| found.map_or(cycle.is_some(), |fit| fit.is_multiple(tick_ns)));
    let wandering = cycle.filter(|cycle| found.is_none_or(|fit| wanders(&fit, cycle)));
    let agreement = best.map_or(0.0, |fit| fit.agreement);
    let of_limit = |fit: Fit| limit.is_some_and(|limit| fit.is_multiple(limit.period_ns));
    let (model, why, confidence) = match (found, cycle) {
        _ if observed.watched_ns() <= 0.0 && limit.is_none() => (Model::None, Reason::Unwatched, 0.0),
        // A limit that runs out takes the CPU at times of its own period: that these are regular, or on ticks, is no news.
        (Some(fit), _) if of_limit(fit) => (Model::TokenBucket, Reason::LimitBites, 0.9),
        (Some(_), _) | (None, Some(_)) if is_own_tick => (Model::Irregular, Reason::OwnTick, 0.5),
        (Some(fit), cycle) => {
            let by_intervals = cycle.map_or(0.0, Cycle::confidence);
            let why = if wandering.is_some() { Reason::Wandering } else { Reason::Periodic };
            (Model::FixedSlot, why, if is_periodic(&fit) { fit.confidence() } else { by_intervals })
        }
        (None, None) if limit.is_some() => (Model::TokenBucket, Reason::LimitBites, 0.9),
        (None, Some(cycle)) => (Model::FixedSlot, Reason::Wandering, cycle.confidence()),
        (None, None) => {
            // A long look at nothing is surer than a short one; a period that nearly did makes it less so.
            let sure = (1.0 - (-observed.watched_ns() / 3e8).exp()) * (1.0 - agreement.max(0.0));
            match lost_share < LOST_MIN {
                true => (Model::None, Reason::LittleMissing, sure),
                false => (Model::Irregular, Reason::NoPeriod, sure),
            }
        }
    };
    let is_slot = model == Model::FixedSlot;
    Periodicity {
        model,
        period: wandering.map(Cycle::period).or(found.map(|fit| fit.period())).filter(|_| is_slot),
        slots: found.filter(|_| is_slot).map(|fit| fit.slots(observed.base_ns)),
        confidence,
        lost_share,
        agreement,
        watched_ns: observed.watched_ns() as u64,
        counted: observed.gaps.len(),
        set_aside: gaps.len().saturating_sub(observed.gaps.len()),
        why,
    }
}

/// Whether a limit takes what it may: the share that is missing, of whatever cause inside the guest, is of its order.
fn bites(windows: &[Window], gaps: &[Gap], limit: &Limit) -> bool {
    if limit.quota_ns >= limit.period_ns || limit.throttled == Some(0) {
        return false;
    }
    let watched: u64 = windows.iter().map(|window| window.end_ns.saturating_sub(window.start_ns)).sum();
    let inside = gaps.iter().filter(|gap| gap.label != Label::Foreign);
    let missing: u64 = inside.map(|gap| gap.length_ns).sum();
    let takes = 1.0 - limit.quota_ns as f64 / limit.period_ns as f64;
    missing as f64 >= LIMIT_BITES * takes * watched as f64
}

fn is_periodic(fit: &Fit) -> bool {
    fit.agreement >= AGREEMENT_MIN
        && fit.seen >= SEEN_MIN
        && fit.seen as f64 >= SEEN_SHARE_MIN * fit.expected as f64
        && fit.spread_ns <= SPREAD_MAX * fit.period_ns
}

/// The same where each gap is off by a good part of its length, so that the times in which the CPU was gone agree badly.
fn is_periodic_with_jitter(fit: &Fit, cycle: &Cycle) -> bool {
    fit.in_time >= IN_TIME_MIN
        && fit.seen >= INTERVALS_MIN
        && fit.seen as f64 >= SEEN_SHARE_MIN_JITTER * fit.expected as f64
        && fit.spread_ns <= SPREAD_MAX * fit.period_ns
        && (fit.period_ns / cycle.period_ns - 1.0).abs() <= SAME_PERIOD
}

/// Whether beginnings are farther from their set times than they would be if each were off by itself: the times are not set, or change.
fn wanders(fit: &Fit, cycle: &Cycle) -> bool {
    fit.spread_ns > WANDER_MIN * fit.period_ns && fit.spread_ns > WANDER_RATIO * cycle.jitter_ns
}

fn is_regular(cycle: &Cycle) -> bool {
    cycle.intervals >= INTERVALS_MIN && cycle.regular >= REGULAR_MIN && cycle.jitter_ns <= JITTER_MAX * cycle.period_ns
}

impl Cycle {
    fn confidence(self) -> f64 {
        self.regular * (1.0 - (-(self.intervals as f64) / 10.0).exp())
    }

    fn period(self) -> Period {
        let share = 1.0 - self.gone_ns / self.period_ns;
        let jitter = self.jitter_ns / self.period_ns;
        Period { period_ns: self.period_ns, period_error_ns: self.period_error_ns, share, jitter }
    }
}

impl Fit {
    fn period(&self) -> Period {
        let share = 1.0 - self.gone_ns / self.period_ns;
        let jitter = self.spread_ns / self.period_ns;
        Period { period_ns: self.period_ns, period_error_ns: self.period_error_ns, share, jitter }
    }

    fn confidence(&self) -> f64 {
        let agrees = ((self.agreement - 0.5) / 0.35).clamp(0.0, 1.0);
        agrees * (1.0 - (-(self.seen as f64) / 10.0).exp())
    }

    fn is_multiple(&self, tick_ns: u64) -> bool {
        let tick_ns = tick_ns.max(1) as f64;
        let turns = (self.period_ns / tick_ns).round().max(1.0);
        let apart = (self.period_ns - turns * tick_ns).abs();
        apart <= TICK_TOLERANCE * self.period_ns + 3.0 * self.period_error_ns
    }

    fn slots(&self, base_ns: u64) -> Slots {
        const STEP_NS: f64 = 1e5;
        let nominal_ns = (self.period_ns / STEP_NS).round() * STEP_NS;
        Slots {
            period_ns: self.period_ns,
            period_error_ns: self.period_error_ns,
            share: 1.0 - self.gone_ns / self.period_ns,
            share_start_ns: base_ns.saturating_add_signed((self.gone_from_ns + self.gone_ns).round() as i64),
            drift_ppm: (self.period_ns / nominal_ns - 1.0) * 1e6,
            spread_ns: self.spread_ns,
            seen: self.seen,
            expected: self.expected,
        }
    }
}
