//! Whether a CPU that is sometimes unavailable is taken away periodically: the period, our share of it, and when our slice begins.
//!
//! A spinning thread records every gap in which it did not run.
//! A single gap is no evidence: a neighbour's time slice can be as long as a hypervisor's.
//! So all gaps of a few seconds are folded over one another, and time without gaps counts as much as gaps do.
//! The model must predict when the CPU is available and when not. It is accepted only as far as it agrees with the observation.
//!
//! | step | where |
//! |---|---|
//! | gaps that count, time that was watched | `observed` |
//! | candidate periods: peaks of the spectrum of "gone" over watched time | `spectrum` |
//! | period, beginning and length by least squares without outliers | `fit` |
//! | how well the model agrees with the observation (Cohen's kappa) | `agreement` |
//! | the intervals between gaps, for gaps with jitter | `intervals` |
//! | following a known model gap by gap, at no cost | [`Tracker`] |
//!
//! [`detect`] takes `5 * seconds * (1/PERIOD_MIN - 1/PERIOD_MAX) * (2 * gaps + 2 * windows)` steps of four multiplications.
//! The function uses at most [`SEARCH_NS`] of time and [`SEARCH_GAPS`] gaps: about 10 ms for two seconds, and at most 150 ms.
//! The function allocates some vectors of the length of the gaps and of the spectrum, which a [`Detector`] reuses.
//! Do not call it during a tick. [`Tracker::observe`] is suitable during a tick: it takes a dozen operations and no allocation.

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

/// The minimum share of missing time. Below it, a CPU counts as always available.
const LOST_MIN: f64 = 0.02;
/// Minimum agreement of the model with the observation: 1 is perfect, 0 is chance.
const AGREEMENT_MIN: f64 = 0.6;
/// Minimum number of observed gaps.
const SEEN_MIN: u64 = 6;
/// Minimum share of the expected gaps that must be observed.
const SEEN_SHARE_MIN: f64 = 0.6;
/// Gaps whose starts vary more than this, as a share of the period, are not slots.
const SPREAD_MAX: f64 = 0.08;
/// Minimum share of the missing time in gaps that begin near their predicted time.
/// This and the next constants are for gaps with strong jitter, whose lengths vary so much that `AGREEMENT_MIN` would reject them.
const IN_TIME_MIN: f64 = 0.8;
/// Minimum share of the expected gaps that must be observed, with strong jitter.
const SEEN_SHARE_MIN_JITTER: f64 = 0.8;
/// Minimum share of the intervals between gaps that must be regular.
const REGULAR_MIN: f64 = 0.75;
/// Minimum number of regular intervals.
const INTERVALS_MIN: u64 = 10;
/// Maximum standard deviation of the intervals, as a share of the period.
const JITTER_MAX: f64 = 0.13;
/// Starts that vary less than this share of the period count as fixed times.
const WANDER_MIN: f64 = 0.01;
/// If the starts vary more than this many times as much as the intervals between them, their times are not fixed.
/// Independent starts vary 0.71 times as much as their intervals.
const WANDER_RATIO: f64 = 1.1;
/// The period fitted to the times and the period of the intervals may differ by this share.
const SAME_PERIOD: f64 = 0.05;
/// A period within this distance of a whole number of ticks may be the scheduler's own.
const TICK_TOLERANCE: f64 = 3e-4;
/// A CPU limit explains the gaps if the missing time reaches this share of the time that the limit would take.
const LIMIT_BITES: f64 = 0.5;

/// Which gaps count. The time of other gaps counts as unwatched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// Gaps that came from outside the guest, and gaps of unknown cause.
    #[default]
    Foreign,
    /// All gaps.
    All,
}

/// A CPU limit on the watching thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// The CPU time per period, in nanoseconds.
    pub quota_ns: u64,
    /// The period, in nanoseconds.
    pub period_ns: u64,
    /// How often the limit took effect during the watched time. `None` if nothing counts this.
    pub throttled: Option<u64>,
}

/// Additional knowledge besides the gaps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Which gaps count.
    pub count: Count,
    /// The CPU limit on the thread, if there is one.
    pub limit: Option<Limit>,
    /// The scheduler's tick in nanoseconds, if counted gaps may be time slices of other threads in the same guest.
    /// The scheduler ends slices at its tick, so such slices are periodic too. `None` for a real-time thread.
    pub turns_end_at_ns: Option<u64>,
}

/// How a CPU is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// The CPU is always available.
    None,
    /// The CPU is taken away at fixed times, as by a hypervisor that gives each virtual CPU a slot.
    FixedSlot,
    /// The CPU is taken away from the moment when a budget has run out until the budget is refilled.
    TokenBucket,
    /// The CPU is taken away without a recognisable schedule.
    Irregular,
}

/// Slots at fixed times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slots {
    /// The time from one slice start to the next, in nanoseconds.
    pub period_ns: f64,
    /// The standard error of the period.
    pub period_error_ns: f64,
    /// The available share of the period, from 0 to 1.
    pub share: f64,
    /// A start of the guest's slice near the middle of the watched time, on the gaps' clock.
    pub share_start_ns: u64,
    /// The distance of the period from the nearest tenth of a millisecond, in millionths: the drift between its clock and the guest's.
    pub drift_ppm: f64,
    /// The standard deviation of the starts, in nanoseconds.
    pub spread_ns: f64,
    /// The number of observed gaps, out of `expected`.
    pub seen: u64,
    /// The number of expected gaps.
    pub expected: u64,
}

impl Slots {
    /// The first slice start at `ns` or later. Valid for about `spread / period_error` periods.
    pub fn next_start_ns(&self, ns: u64) -> u64 {
        let since = ns as f64 - self.share_start_ns as f64;
        let turns = (since / self.period_ns).ceil();
        self.share_start_ns.saturating_add_signed((turns * self.period_ns).round() as i64)
    }
}

/// A period with its jitter. If the gaps come at fixed times, there are [`Slots`] too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Period {
    /// The mean time from one slice start to the next, in nanoseconds.
    pub period_ns: f64,
    /// The standard error of the period.
    pub period_error_ns: f64,
    /// The available share of the period, from 0 to 1.
    pub share: f64,
    /// The standard deviation of the starts as a share of the period.
    /// Starts are compared with their fixed times or, without fixed times, with one period after the previous start.
    /// Uniform jitter of up to J in each direction gives 0.58 J.
    pub jitter: f64,
}

/// Why this is the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum Reason {
    /// Nothing was watched.
    Unwatched,
    /// Too little time is missing.
    LittleMissing,
    /// The gaps come at fixed times.
    Periodic,
    /// The gaps come one period after another, but not at fixed times.
    Wandering,
    /// No period explains the gaps.
    NoPeriod,
    /// The period is the scheduler's tick, and other threads may have run.
    OwnTick,
    /// A limit is set, and the missing time fits it.
    LimitBites,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Unwatched => "nothing was watched",
            Reason::LittleMissing => "too little time is missing",
            Reason::Periodic => "gaps come at set times",
            Reason::Wandering => "gaps come a period after one another, but not at set times, so there is no phase",
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

/// The result for the gaps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Periodicity {
    /// The model.
    pub model: Model,
    /// The period of [`Model::FixedSlot`]. None for others.
    pub period: Option<Period>,
    /// The slots of [`Model::FixedSlot`]. `None` unless the slots had fixed times during the observation.
    /// With [`Reason::Wandering`] those times will soon change.
    pub slots: Option<Slots>,
    /// The confidence in the model, from 0 to 1.
    pub confidence: f64,
    /// The share of the watched time in which the CPU was gone, from 0 to 1.
    pub lost_share: f64,
    /// The agreement of the best period with the observation: 1 is perfect, 0 is chance.
    pub agreement: f64,
    /// Watched time in nanoseconds, without ignored gaps.
    pub watched_ns: u64,
    /// The number of gaps that counted, by [`Known::count`].
    pub counted: usize,
    /// The number of gaps that did not count.
    pub set_aside: usize,
    /// The reason.
    pub why: Reason,
}

/// Finds how the CPU is taken away. `windows` and `gaps` are in order of time and do not overlap; each gap lies in a window.
pub fn detect(windows: &[Window], gaps: &[Gap], known: &Known) -> Periodicity {
    Detector::default().detect(windows, gaps, known)
}

/// [`detect`] with reusable memory: if it is large enough at the start, nothing more is allocated.
#[derive(Debug, Default)]
pub struct Detector {
    observed: Observed,
    spectrum: spectrum::Room,
    fit: fit::Room,
    intervals: intervals::Room,
}

impl Detector {
    /// A detector with memory for this many windows and gaps. More are allowed, but allocate memory.
    pub fn with_room(windows: usize, gaps: usize) -> Detector {
        Detector {
            observed: Observed::with_room(windows, gaps),
            spectrum: spectrum::Room::with_capacity(windows, gaps),
            fit: fit::Room::with_capacity(gaps),
            intervals: intervals::Room::with_capacity(gaps),
        }
    }

    /// Finds how the CPU is taken away, as the function [`detect`] does.
    pub fn detect(&mut self, windows: &[Window], gaps: &[Gap], known: &Known) -> Periodicity {
        let limit = known.limit.filter(|limit| bites(windows, gaps, limit));
        // Under a limit, gaps are preempted or of unknown cause. Neither kind gives evidence about a hypervisor.
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

    /// The period that agrees best with the observation.
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
    // Time slices of the scheduler have similar lengths too. Without fixed times, nothing distinguishes them from a hypervisor's slots.
    let is_own_tick =
        known.turns_end_at_ns.is_some_and(|tick_ns| found.map_or(cycle.is_some(), |fit| fit.is_multiple(tick_ns)));
    let wandering = cycle.filter(|cycle| found.is_none_or(|fit| wanders(&fit, cycle)));
    let agreement = best.map_or(0.0, |fit| fit.agreement);
    let of_limit = |fit: Fit| limit.is_some_and(|limit| fit.is_multiple(limit.period_ns));
    let (model, why, confidence) = match (found, cycle) {
        _ if observed.watched_ns() <= 0.0 && limit.is_none() => (Model::None, Reason::Unwatched, 0.0),
        // An active limit takes the CPU with its own period.
        // So gaps at that period are expected, even if it is a multiple of the scheduler's tick.
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
            // A long observation without a result is more certain than a short one. A period that almost fits lowers the certainty.
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

/// Whether the limit explains the missing time. Counts all gaps whose cause is unknown or inside the guest.
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

/// Like [`is_periodic`], for gaps that jitter by a large part of their length. Their agreement in time is low.
fn is_periodic_with_jitter(fit: &Fit, cycle: &Cycle) -> bool {
    fit.in_time >= IN_TIME_MIN
        && fit.seen >= INTERVALS_MIN
        && fit.seen as f64 >= SEEN_SHARE_MIN_JITTER * fit.expected as f64
        && fit.spread_ns <= SPREAD_MAX * fit.period_ns
        && (fit.period_ns / cycle.period_ns - 1.0).abs() <= SAME_PERIOD
}

/// Whether starts deviate from their fixed times by more than independent jitter explains. Then the times are not fixed, or they change.
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
