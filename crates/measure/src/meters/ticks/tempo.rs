//! `Tempo`: whether a server's heavier wakes are periodic, and their period.
//! Wakes for packets, or to check for packets, lie between the ticks.
//! The search recognises them because they do little work and are not periodic.
//!
//! | step | how |
//! |---|---|
//! | wakes too light for a tick are removed | less than a third of the wake that marks half of all work |
//! | candidate periods | peaks of the spectrum of the rest, each wake weighted by its work |
//! | the tick's period | the shortest period that has a wake in every slot, more often than by chance: a fraction of the true period has empty slots |
//! | unless packets fill the slots | a shorter period is dropped if the wakes between the ticks of a longer one are both lighter and less punctual |
//! | the pacing | at set times, or each a period after the previous one: see [`pacing`](mod@super::pacing) |

use serde::Serialize;

use super::between::divisor_of;
pub use super::pacing::Pacing;
use super::pacing::{TickTime, pacing};
use super::track::{Beat, Followed, Found, Gate, Pull, Slot, Start, follow};
use evenkeel_stats::{median, median_absolute_deviation};

/// The slowest and the fastest tick to search, in ticks per second.
pub const RATE_HZ: std::ops::RangeInclusive<f64> = 1.0..=520.0;
/// The minimum number of ticks.
pub const TICKS_MIN: usize = 8;

/// A wake with less than this share of the work of a typical wake is not a tick.
const LIGHT_SHARE: f64 = 1.0 / 3.0;
/// The work of a very long wake, such as a change of map, counts as at most this many times the 90th percentile.
const HEAVY_MAX: f64 = 4.0;
/// The maximum number of wakes to search, and (the next constant) the longest stretch.
const SEARCH_MAX: usize = 1024;
const SEARCH_NS: u64 = 8_000_000_000;
/// The maximum number of peaks to try.
const PEAKS_MAX: usize = 12;
/// Lower peaks come from chance, or are not periodic enough.
const PEAK_MIN: f64 = 0.15;
/// The share of slots that must be filled, among the slots that chance leaves empty.
const PRESENCE_MIN: f64 = 0.6;
/// A period must fill at least this share of the slots that the fullest period fills. A period of half the true length fills half of them.
const PRESENCE_OF_BEST: f64 = 0.8;
/// The filled slots must exceed chance by this many standard deviations,
/// because the search tries dozens of periods, each shifted to its best phase.
const DEVIATIONS_MIN: f64 = 6.0;
const DEVIATIONS_KNOWN_MIN: f64 = 3.0;
/// The wakes between the ticks are packets if a tick does this many times as much work.
const LIGHTER_BETWEEN: f64 = 3.0;
/// The two periods must also be a multiple of each other, to within this share.
const MULTIPLE_OFF_MAX: f64 = 0.01;
/// Intervals count as equal if they differ by at most this share.
const USUAL_WIDTH: f64 = 0.02;
/// A period is worth trying if this share of all intervals equals it. The search tries at most this many periods (the next constant).
const USUAL_SHARE_MIN: f64 = 0.15;
const USUAL_MAX: usize = 4;
/// The ticks count as a chain only if a chain fills this much more of the slots than a grid.
const CHAIN_AHEAD: f64 = 0.08;
/// The minimum chance that another wake falls into a slot, even if there are few other wakes.
const CHANCE_MIN: f64 = 0.02;
/// If the ticks contain less than this share of a thread's work, they are not the thread's purpose.
const WORK_SHARE_MIN: f64 = 0.1;

/// The tempo of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tempo {
    /// The time from one tick to the next, in nanoseconds: the usual time for chained ticks, otherwise the mean.
    pub period_ns: f64,
    /// Ticks per second. For chained ticks, the rate is less than the usual time suggests, because a late tick delays all later ticks.
    pub rate_hz: f64,
    /// Whether ticks come at fixed times, or each tick a period after the previous one.
    pub pacing: Pacing,
    /// The deviation of a tick from its time, in nanoseconds: the median absolute deviation.
    pub spread_ns: f64,
    /// The share of slots with a tick at its time, among the slots that chance would leave empty. The value 1 means all slots.
    pub presence: f64,
    /// A wake with less work than this, in nanoseconds, does not count as a tick.
    pub light_ns: f64,
    /// The share of all work in ticks.
    pub work_share: f64,
}

impl Tempo {
    /// Ticks per second.
    pub fn hz(&self) -> f64 {
        self.rate_hz
    }

    /// How close to its due time the search looks for a tick.
    pub(super) fn gate(&self) -> Gate {
        Gate::new(self.period_ns, self.spread_ns)
    }
}

/// Why no tick is recognisable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NoTick {
    /// The thread hardly ever woke.
    FewWakes,
    /// The thread woke at irregular times.
    NoPeriod,
    /// The thread woke so often that the reader stopped watching it.
    TooMany,
    /// The thread never slept, so ticks cannot be separated.
    NeverSleeps,
}

impl std::fmt::Display for NoTick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NoTick::FewWakes => "it hardly woke",
            NoTick::NoPeriod => "it wakes at irregular times, like a server that waits for requests",
            NoTick::TooMany => "it wakes far more often than any tick, like a server that waits for requests",
            NoTick::NeverSleeps => "it never sleeps, so ticks can't be separated",
        })
    }
}

/// Finds the tempo of `beats`, which are in order of time.
///
/// # Errors
/// Returns why the beats have no tempo.
pub fn find(beats: &[Beat]) -> Result<Tempo, NoTick> {
    let light_ns = light(beats);
    let stretch = searched(beats, light_ns);
    let kept: Vec<Beat> = stretch.iter().filter(|beat| beat.weight >= light_ns).copied().collect();
    if kept.len() < TICKS_MIN {
        return Err(NoTick::FewWakes);
    }
    let mut periods = Spectrum::new(&kept).periods(&kept);
    periods.extend(usual_intervals(&kept));
    let judged = periods.into_iter().filter_map(|start| judge(stretch, light_ns, start));
    let holds = |(tempo, _): &(Tempo, Start)| tempo.presence >= PRESENCE_MIN && tempo.work_share >= WORK_SHARE_MIN;
    let held: Vec<(Tempo, Start)> = judged.filter(holds).collect();
    let most = held.iter().map(|(tempo, _)| tempo.presence).fold(0.0, f64::max);
    let full: Vec<_> = held.into_iter().filter(|(tempo, _)| tempo.presence >= PRESENCE_OF_BEST * most).collect();
    // A faster loop that fills fewer slots and contains less of the work than a slower loop adds no explanation.
    let explains_less = |(one, _): &(Tempo, Start)| {
        let is_better = |(other, _): &(Tempo, Start)| {
            other.hz() < one.hz() && other.presence >= one.presence && other.work_share >= one.work_share
        };
        full.iter().any(is_better)
    };
    let is_part = |one: &(Tempo, Start)| {
        explains_less(one) || full.iter().any(|other| fills_between(stretch, light_ns, one, other))
    };
    let whole = full.iter().filter(|one| !is_part(one));
    let fastest = whole.max_by(|(one, _), (other, _)| one.hz().total_cmp(&other.hz())).ok_or(NoTick::NoPeriod)?;
    with_late_ones(stretch, light_ns, *fastest).ok_or(NoTick::NoPeriod)
}

/// If the ticks of `found` are only the ticks in time, returns the tempo of all ticks: see [`between`](super::between).
/// None if these ticks cannot be followed. The slower rate is then known to be wrong.
fn with_late_ones(beats: &[Beat], light_ns: f64, (found, start): (Tempo, Start)) -> Option<Tempo> {
    let followed = follow(beats, light_ns, start, found.gate(), Pull::Some);
    let Some(divisor) = divisor_of(beats, &followed, found.period_ns) else { return Some(found) };
    let period_ns = found.period_ns / f64::from(divisor);
    let (whole, _) = judge(beats, light_ns, Start { period_ns, ..start })?;
    ((whole.period_ns / period_ns - 1.0).abs() <= MULTIPLE_OFF_MAX).then_some(whole)
}

/// The tempo of `beats` at a known rate. None if the beats do not keep this rate.
pub fn at_rate(beats: &[Beat], hz: f64) -> Option<Tempo> {
    let light_ns = light(beats);
    let stretch = searched(beats, light_ns);
    let start = phase(stretch, light_ns, 1e9 / hz)?;
    let (tempo, _) = judge(stretch, light_ns, start)?;
    let is_it = tempo.presence >= PRESENCE_MIN && (tempo.hz() / hz - 1.0).abs() <= MULTIPLE_OFF_MAX;
    is_it.then_some(tempo)
}

/// The phase of a grid's ticks, from the first of the ticks.
pub(super) fn phase(beats: &[Beat], light_ns: f64, period_ns: f64) -> Option<Start> {
    let base_ns = beats.first()?.at_ns;
    let (mut sin, mut cos) = (0.0, 0.0);
    for beat in beats.iter().take_while(|beat| (beat.at_ns - base_ns) as f64 <= 32.0 * period_ns) {
        if beat.weight >= light_ns {
            let turn = (beat.at_ns - base_ns) as f64 / period_ns * std::f64::consts::TAU;
            sin += beat.weight * turn.sin();
            cos += beat.weight * turn.cos();
        }
    }
    let turn = (sin.atan2(cos) / std::f64::consts::TAU).rem_euclid(1.0);
    Some(Start { period_ns, at_ns: base_ns as f64 + turn * period_ns })
}

/// Whether the first period is only a fraction of the other, and packets fill its additional slots.
/// Players who send as often as the server ticks have this effect, and it is not chance.
/// The wakes between the ticks are then lighter than ticks, and less punctual.
/// If a server sends every second tick, its wakes keep the times of both periods.
/// If its sleeps are whole milliseconds, each wake does equal work.
fn fills_between(
    beats: &[Beat],
    light_ns: f64,
    (fast, start): &(Tempo, Start),
    (slow, slow_start): &(Tempo, Start),
) -> bool {
    let times = slow.period_ns / fast.period_ns;
    if times < 1.5 || (times / times.round() - 1.0).abs() > MULTIPLE_OFF_MAX {
        return false;
    }
    let close = Gate::new(fast.period_ns, slow.spread_ns);
    let [ticks, parts] = [slow_start, start].map(|start| follow(beats, light_ns, *start, close, Pull::Some));
    let [kept, kept_between] = [&ticks, &parts].map(|followed| presence(beats, light_ns, followed, close));
    if kept < PRESENCE_MIN || kept_between >= PRESENCE_OF_BEST * kept {
        return false;
    }
    let in_time = |followed: &Followed| followed.slots.iter().filter_map(Slot::at_its_time).collect::<Vec<_>>();
    let ticks = in_time(&ticks);
    let between = in_time(&follow(beats, light_ns, *start, Gate::widest(fast.period_ns), Pull::Some));
    let work = |beats_of: &[usize], is_tick: bool| {
        let of = beats_of.iter().filter(|beat| ticks.binary_search(beat).is_ok() == is_tick);
        median(&of.filter_map(|beat| Some(beats.get(*beat)?.weight)).collect::<Vec<_>>())
    };
    match (work(&ticks, true), work(&between, false)) {
        (Some(tick), Some(packet)) => tick >= LIGHTER_BETWEEN * packet,
        _ => false,
    }
}

/// The threshold below which a wake is too light for a tick.
fn light(beats: &[Beat]) -> f64 {
    let mut weights: Vec<f64> = beats.iter().map(|beat| beat.weight).collect();
    weights.sort_unstable_by(f64::total_cmp);
    let cap = weights.get(weights.len() * 9 / 10).map_or(f64::MAX, |ninetieth| ninetieth * HEAVY_MAX);
    let half = weights.iter().map(|weight| weight.min(cap)).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let typical = weights.iter().find(|weight| {
        sum += weight.min(cap);
        sum >= half
    });
    let light = typical.map_or(0.0, |typical| typical * LIGHT_SHARE);
    // If there are more wakes than the search can handle, take the heaviest.
    let most = weights.len().checked_sub(SEARCH_MAX * 4).and_then(|at| weights.get(at)).copied().unwrap_or(0.0);
    light.max(most)
}

/// The last stretch that is short enough to search.
fn searched(beats: &[Beat], light_ns: f64) -> &[Beat] {
    let Some(last) = beats.last() else { return beats };
    let mut counted = 0;
    let from = beats.iter().rposition(|beat| {
        counted += usize::from(beat.weight >= light_ns);
        counted > SEARCH_MAX || last.at_ns.saturating_sub(beat.at_ns) > SEARCH_NS
    });
    &beats[from.map_or(0, |before| before + 1)..]
}

/// The most frequent intervals as periods. Chained ticks drift away from any grid, so no spectrum over seconds shows their rate.
fn usual_intervals(beats: &[Beat]) -> Vec<Start> {
    let mut intervals: Vec<(f64, u64)> = beats
        .windows(2)
        .map(|pair| (pair[1].at_ns.saturating_sub(pair[0].at_ns) as f64, pair[0].at_ns))
        .filter(|(ns, _)| RATE_HZ.contains(&(1e9 / ns.max(1.0))))
        .collect();
    intervals.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let mut crowds: Vec<(usize, f64, u64)> = Vec::new();
    let mut from = 0;
    for (at, (ns, _)) in intervals.iter().enumerate() {
        while intervals[from].0 < ns * (1.0 - USUAL_WIDTH) {
            from += 1;
        }
        let count = at - from + 1;
        let (middle_ns, begun_ns) = intervals[from + count / 2];
        let is_near = |one: &&mut (usize, f64, u64)| (one.1 / middle_ns - 1.0).abs() < 2.0 * USUAL_WIDTH;
        match crowds.iter_mut().rev().find(is_near) {
            Some(near) if near.0 >= count => {}
            Some(near) => *near = (count, middle_ns, begun_ns),
            None => crowds.push((count, middle_ns, begun_ns)),
        }
    }
    crowds.sort_unstable_by_key(|(count, ..)| std::cmp::Reverse(*count));
    crowds.retain(|(count, ..)| *count as f64 >= USUAL_SHARE_MIN * intervals.len() as f64);
    let starts = crowds.into_iter().take(USUAL_MAX);
    starts.map(|(_, period_ns, at_ns)| Start { period_ns, at_ns: at_ns as f64 }).collect()
}

/// A tempo that follows a period in one way, with the evidence.
struct Judged {
    start: Start,
    followed: Followed,
    closer: Gate,
    presence: f64,
}

/// Follows one period through all beats, as a grid and as a chain.
/// The function follows each way twice: first to refine the period, then to measure how close the ticks are.
fn judge(beats: &[Beat], light_ns: f64, start: Start) -> Option<(Tempo, Start)> {
    let grid = judge_by(beats, light_ns, start, [Pull::Much, Pull::Some]);
    let chain = judge_by(beats, light_ns, start, [Pull::Whole, Pull::Whole]);
    let judged = match (grid, chain) {
        // Ticks that fit a grid fit a chain nearly as well, so a chain must fit better.
        (Some(grid), Some(chain)) if chain.presence > grid.presence + CHAIN_AHEAD => chain,
        (Some(grid), _) => grid,
        (None, chain) => chain?,
    };
    let Judged { start, followed, closer, presence } = judged;
    let seen = |slot: &Slot| {
        let beat = beats.get(slot.beat()?)?;
        Some(TickTime { number: slot.number, start_ns: beat.at_ns, end_ns: beat.until_ns })
    };
    let pacing = pacing(&followed.slots.iter().filter_map(seen).collect::<Vec<_>>());
    let pull = if pacing == Pacing::Chained { Pull::Whole } else { Pull::Little };
    let spread_ns = spread(&follow(beats, light_ns, start, closer, pull))?;
    let work_share = work_share(beats, &followed);
    let rate_hz = rate_hz(beats, &followed, start.period_ns);
    Some((Tempo { period_ns: start.period_ns, rate_hz, pacing, spread_ns, presence, light_ns, work_share }, start))
}

fn judge_by(beats: &[Beat], light_ns: f64, start: Start, [roughly, closely]: [Pull; 2]) -> Option<Judged> {
    let wide = Gate::widest(start.period_ns);
    let first = follow(beats, light_ns, start, wide, roughly);
    let start = again(beats, &first, roughly)?;
    let closer = Gate::new(start.period_ns, spread(&first)?);
    let second = follow(beats, light_ns, start, closer, closely);
    let start = again(beats, &second, closely)?;
    // On a busy machine, many ticks are later than the spread of the ticks in time suggests.
    let presence = presence(beats, light_ns, &second, closer).max(presence(beats, light_ns, &first, wide));
    let is_tick = RATE_HZ.contains(&(1e9 / start.period_ns)) && second.at_their_time() >= TICKS_MIN;
    is_tick.then_some(Judged { start, followed: second, closer, presence })
}

/// The share of all work in ticks.
pub(super) fn work_share(beats: &[Beat], followed: &Followed) -> f64 {
    let in_ticks: f64 = followed.slots.iter().filter_map(|slot| Some(beats.get(slot.beat()?)?.weight)).sum();
    in_ticks / beats.iter().map(|beat| beat.weight).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// Ticks per second. If each tick is counted from the previous one, this is the number of ticks divided by the time.
pub(super) fn rate_hz(beats: &[Beat], followed: &Followed, period_ns: f64) -> f64 {
    if followed.pull != Pull::Whole {
        return 1e9 / period_ns;
    }
    let begun: Vec<u64> = followed.slots.iter().filter_map(|slot| Some(beats.get(slot.beat()?)?.at_ns)).collect();
    let hidden = followed.slots.iter().filter(|slot| matches!(slot.found, Found::Hidden(_))).count();
    let span_ns = begun.last().zip(begun.first()).map_or(0, |(last, first)| last.saturating_sub(*first));
    if span_ns == 0 { 1e9 / period_ns } else { (begun.len() + hidden - 1) as f64 / span_ns as f64 * 1e9 }
}

/// The start of the next pass, from the result so far.
pub(super) fn again(beats: &[Beat], followed: &Followed, pull: Pull) -> Option<Start> {
    if pull == Pull::Whole {
        let begun = |slot: &Slot| Some(beats.get(slot.beat()?)?.at_ns);
        let pairs = followed.slots.windows(2).filter_map(|pair| Some((begun(&pair[0])?, begun(&pair[1])?)));
        let intervals: Vec<f64> = pairs.map(|(one, next)| next.saturating_sub(one) as f64).collect();
        let period_ns = median(&intervals).filter(|period_ns| *period_ns > 0.0)?;
        return Some(Start { period_ns, at_ns: followed.slots.iter().find_map(begun)? as f64 });
    }
    let ticks: Vec<(u64, u64)> =
        followed.slots.iter().filter_map(|slot| Some((slot.number, beats[slot.at_its_time()?].at_ns))).collect();
    let period_ns = slope(&ticks)?;
    Some(Start { period_ns, at_ns: first_due(&ticks, period_ns)? })
}

/// The period, from pairs of ticks that are half of all ticks apart. A few outliers hardly change it.
fn slope(ticks: &[(u64, u64)]) -> Option<f64> {
    let apart = (ticks.len() / 2).max(1);
    let pairs = ticks.iter().zip(ticks.get(apart..)?);
    let slopes: Vec<f64> = pairs
        .filter(|((one, _), (other, _))| other > one)
        .map(|((one, one_ns), (other, other_ns))| (*other_ns as f64 - *one_ns as f64) / (other - one) as f64)
        .collect();
    median(&slopes).filter(|period_ns| *period_ns > 0.0)
}

/// The time of tick number 0, from the first few ticks.
fn first_due(ticks: &[(u64, u64)], period_ns: f64) -> Option<f64> {
    let base_ns = ticks.first()?.1;
    let first = ticks.iter().take(16);
    let back: Vec<f64> = first.map(|(number, at_ns)| (at_ns - base_ns) as f64 - *number as f64 * period_ns).collect();
    Some(base_ns as f64 + median(&back)?)
}

fn spread(followed: &Followed) -> Option<f64> {
    median_absolute_deviation(&followed.slots.iter().filter_map(Slot::off_ns).collect::<Vec<_>>())
}

/// The share of slots with a tick, beyond chance. It is 0 if chance alone may explain the ticks.
fn presence(beats: &[Beat], light_ns: f64, followed: &Followed, gate: Gate) -> f64 {
    presence_by(beats, light_ns, followed, gate, DEVIATIONS_MIN)
}

/// Like [`presence`], for a period that was known before, so only one period is tried.
pub(super) fn presence_of_known(beats: &[Beat], light_ns: f64, followed: &Followed, gate: Gate) -> f64 {
    presence_by(beats, light_ns, followed, gate, DEVIATIONS_KNOWN_MIN)
}

fn presence_by(beats: &[Beat], light_ns: f64, followed: &Followed, gate: Gate, deviations_min: f64) -> f64 {
    let seen = followed.at_their_time() as f64;
    let slots = followed.slots.len().max(1) as f64;
    let span_ns = beats.last().zip(beats.first()).map_or(0, |(last, first)| last.at_ns.saturating_sub(first.at_ns));
    let others = beats.iter().filter(|beat| beat.weight >= light_ns).count() as f64 - seen;
    let by_chance = 1.0 - (-(others.max(0.0) / span_ns.max(1) as f64 * 2.0 * gate.ns)).exp();
    let by_chance = by_chance.clamp(CHANCE_MIN, 1.0 - 1e-9);
    let beyond = seen / slots - by_chance;
    let deviations = beyond * (slots / (by_chance * (1.0 - by_chance))).sqrt();
    if deviations < deviations_min { 0.0 } else { beyond / (1.0 - by_chance) }
}

/// How well each rate explains the wakes.
struct Spectrum {
    base_ns: u64,
    from_hz: f64,
    step_hz: f64,
    /// The upper limit of a wake's work, in nanoseconds.
    cap_ns: f64,
    /// The sum of unit vectors, each weighted by its share.
    values: Vec<(f64, f64)>,
}

impl Spectrum {
    /// Takes at most `4.8 * n * n` steps of four multiplications: 5 million for the largest search.
    fn new(beats: &[Beat]) -> Spectrum {
        let base_ns = beats.first().map_or(0, |beat| beat.at_ns);
        let span_s = beats.last().map_or(0.0, |last| last.at_ns.saturating_sub(base_ns) as f64 / 1e9).max(1e-3);
        let mut weights: Vec<f64> = beats.iter().map(|beat| beat.weight).collect();
        weights.sort_unstable_by(f64::total_cmp);
        let cap_ns = weights[weights.len() * 9 / 10] * HEAVY_MAX;
        let sum = weights.iter().map(|weight| weight.min(cap_ns)).sum::<f64>().max(f64::MIN_POSITIVE);
        let step_hz = 0.25 / span_s;
        let from_hz = RATE_HZ.start().max(0.6 * TICKS_MIN as f64 / span_s);
        // Ticks cannot outnumber the wakes.
        let to_hz = RATE_HZ.end().min(1.2 * beats.len() as f64 / span_s);
        let count = ((to_hz - from_hz) / step_hz).max(0.0) as usize + 2;
        let mut values = vec![(0.0, 0.0); count];
        for beat in beats {
            let at_s = (beat.at_ns - base_ns) as f64 / 1e9;
            let angle = |hz: f64| (hz * at_s).fract() * std::f64::consts::TAU;
            let (mut sin, mut cos) = angle(from_hz).sin_cos();
            let (step_sin, step_cos) = angle(step_hz).sin_cos();
            let weight = beat.weight.min(cap_ns) / sum;
            for value in &mut values {
                value.0 += weight * cos;
                value.1 += weight * sin;
                (cos, sin) = (cos * step_cos - sin * step_sin, sin * step_cos + cos * step_sin);
            }
        }
        Spectrum { base_ns, from_hz, step_hz, cap_ns, values }
    }

    fn height(&self, at: usize) -> f64 {
        self.values.get(at).map_or(0.0, |(cos, sin)| cos.hypot(*sin))
    }

    fn start(&self, hz: f64) -> Start {
        let at = ((hz - self.from_hz) / self.step_hz).round().max(0.0) as usize;
        let (cos, sin) = self.values.get(at).copied().unwrap_or((1.0, 0.0));
        let period_ns = 1e9 / hz;
        let turn = sin.atan2(cos) / std::f64::consts::TAU;
        Start { period_ns, at_ns: self.base_ns as f64 + turn.rem_euclid(1.0) * period_ns }
    }

    /// The highest peaks, and fractions of the very highest peak, because a train of sharp ticks has peaks at all multiples of its rate.
    fn periods(&self, beats: &[Beat]) -> Vec<Start> {
        let mut peaks: Vec<(f64, f64)> = (0..self.values.len())
            .filter(|at| self.height(*at) >= PEAK_MIN)
            .filter(|at| {
                self.height(*at) >= self.height(at + 1) && (*at == 0 || self.height(*at) > self.height(at - 1))
            })
            .map(|at| (self.height(at), self.from_hz + at as f64 * self.step_hz))
            .collect();
        peaks.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
        peaks.truncate(PEAKS_MAX);
        let highest = peaks.first().map(|(_, hz)| *hz);
        let parts = (2..=PEAKS_MAX).filter_map(|times| highest.map(|hz| (times, hz)));
        let parts = parts.filter(|(times, hz)| hz / *times as f64 >= self.from_hz);
        let parts: Vec<Start> = parts.map(|(times, hz)| longer(beats, self.cap_ns, self.start(hz), times)).collect();
        peaks.into_iter().map(|(_, hz)| self.start(hz)).chain(parts).collect()
    }
}

/// A period this many times as long, at the phase of the shorter period that has the most work.
/// A fit to all work would let packets at other times pull the phase away from the ticks.
fn longer(beats: &[Beat], cap_ns: f64, short: Start, times: usize) -> Start {
    let near = Gate::widest(short.period_ns).ns / short.period_ns;
    let mut done = vec![0.0; times];
    for beat in beats {
        let turns = (beat.at_ns as f64 - short.at_ns) / short.period_ns;
        if (turns - turns.round()).abs() <= near {
            let at = (turns.round() as i64).rem_euclid(times as i64) as usize;
            done[at] += beat.weight.min(cap_ns);
        }
    }
    let most = (0..times).max_by(|one, other| done[*one].total_cmp(&done[*other])).unwrap_or(0);
    Start { period_ns: short.period_ns * times as f64, at_ns: short.at_ns + most as f64 * short.period_ns }
}
