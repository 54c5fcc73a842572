//! `Account`: the numbers of a window's ticks, computed from the thread's wakes.

use evenkeel_stats::{median, median_absolute_deviation, quantile};
use serde::Serialize;

use super::tempo::{self, NoTick, Pacing, Tempo};
use super::track::{Beat, Followed, Found, Gate, Pull, Slot, Start, follow};
use super::views::Timer;
use super::wakes::Wake;

/// The tempo has changed if fewer than this share of the ticks are in time.
const PRESENCE_MIN: f64 = 0.5;
/// If ticks contain less than this share of their earlier work, there may be more ticks, so search again.
const WORK_SHARE_LEFT: f64 = 0.8;
/// How often the reader must have observed the thread asleep before a tick, to know its requested wake time.
const ASKED_MIN: usize = 4;
/// The maximum spread of these requested times, in nanoseconds or as a share of the period, whichever is more.
const ASKED_SPREAD_NS: f64 = 25_000.0;
const ASKED_SPREAD_SHARE: f64 = 0.005;
/// Ticks before this quantile count as the earliest. A single early tick may have been woken by something else.
const EARLIEST: f64 = 0.02;

/// The reference of lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Due {
    /// The requested wake time, which is the thread's own view of lateness.
    AsAsked,
    /// The earliest ticks, because the records do not show the requested time. A delay that all ticks have is left out.
    Earliest,
    /// No reference: the ticks keep no fixed times, and the records do not show the requested time. Then nothing is late.
    Unknown,
}

/// What the records show at one due time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DueTime {
    /// When the tick was expected, on the monotonic clock.
    pub expected_ns: u64,
    /// What happened at that time.
    pub outcome: Outcome,
}

/// What the records show at a due time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// A tick began.
    Begun {
        /// The wake that the tick began.
        wake: Wake,
        /// The time from due until the thread got the CPU. None without a due time.
        lateness_ns: Option<u64>,
    },
    /// The thread was already awake in this wake, so the start of the tick is unknown.
    Hidden(Wake),
    /// No tick began before the next tick was due.
    Missed,
}

/// The ticks of one window. Times are in nanoseconds, in the order of the ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// The tempo of the ticks.
    pub tempo: Tempo,
    /// The reference of lateness.
    pub due: Due,
    /// How long after the requested time the earliest ticks began. None if the records do not show the requested time.
    pub asked_ns: Option<f64>,
    /// The number of observed ticks.
    pub ticks: u64,
    /// Due times at which no tick began before the next tick was due.
    pub missed: u64,
    /// Due times at which the thread was already awake, so the start of the tick is unknown.
    pub hidden: u64,
    /// Ticks during which the thread lost the CPU while it still had work.
    pub preempted_ticks: u64,
    /// Ticks that continued on another CPU.
    pub moved_ticks: u64,
    /// Wakes that were not ticks.
    pub other_wakes: u64,
    /// The share of the thread's work that belongs to ticks.
    pub work_share: f64,
    /// For each tick, the time from its start to the start of the next tick.
    pub interval_ns: Vec<u64>,
    /// For each tick, the time from due until the thread got the CPU. Empty without a due time.
    pub lateness_ns: Vec<u64>,
    /// For each tick, the time on a CPU.
    pub work_ns: Vec<u64>,
    /// For each tick, the time from the moment when the thread got the CPU until it slept.
    pub wall_ns: Vec<u64>,
    /// For each tick, the time from due until the thread slept. Empty without a due time.
    pub due_to_done_ns: Vec<u64>,
    /// Each due time, in order.
    pub due_times: Vec<DueTime>,
}

/// A thread's wakes as beats, weighted by run time.
pub fn beats(wakes: &[Wake]) -> Vec<Beat> {
    let beat = |wake: &Wake| Beat { at_ns: wake.start_ns, until_ns: wake.end_ns, weight: wake.on_cpu_ns as f64 };
    wakes.iter().map(beat).collect()
}

/// The ticks among `beats`, by the known tempo or, if the beats no longer keep it, by a new tempo.
///
/// # Errors
/// Returns why there is no tempo.
pub fn ticks(beats: &[Beat], known: Option<&Tempo>) -> Result<(Tempo, Followed), NoTick> {
    let before = known.and_then(|known| keeps(beats, known));
    let is_less =
        |(now, _): &(Tempo, Followed)| known.is_some_and(|known| now.work_share < WORK_SHARE_LEFT * known.work_share);
    match before {
        Some(found) if !is_less(&found) => Ok(found),
        before => {
            let anew = tempo::find(beats).and_then(|tempo| keeps(beats, &tempo).ok_or(NoTick::NoPeriod));
            anew.or_else(|why| before.ok_or(why))
        }
    }
}

/// The ticks among `beats`, if they keep a known tempo.
pub fn keeps(beats: &[Beat], known: &Tempo) -> Option<(Tempo, Followed)> {
    by(beats, known).filter(|(tempo, _)| tempo.presence >= PRESENCE_MIN)
}

/// Follows a known tempo: first through the beginning to find the phase of the ticks, then through all beats.
fn by(beats: &[Beat], known: &Tempo) -> Option<(Tempo, Followed)> {
    let gate = known.gate();
    let wide = Gate::widest(known.period_ns);
    let (start, roughly) = match known.pacing {
        Pacing::Chained => (first_of_chain(beats, known)?, Pull::Whole),
        Pacing::FixedTimes | Pacing::Unknown => (tempo::phase(beats, known.light_ns, known.period_ns)?, Pull::Much),
    };
    let first = follow(beats, known.light_ns, start, wide, roughly);
    let start = tempo::again(beats, &first, roughly)?;
    let pull = match known.pacing {
        Pacing::FixedTimes => Pull::Little,
        Pacing::Unknown => Pull::Some,
        Pacing::Chained => Pull::Whole,
    };
    let mut followed = follow(beats, known.light_ns, start, gate, pull);
    let [close, far] = [(&followed, gate), (&first, wide)]
        .map(|(followed, gate)| tempo::presence_of_known(beats, known.light_ns, followed, gate));
    let presence = close.max(far);
    let period_ns = tempo::again(beats, &followed, pull)?.period_ns;
    let rate_hz = tempo::rate_hz(beats, &followed, period_ns);
    if known.pacing == Pacing::FixedTimes {
        followed.take_light(beats, gate);
    }
    let work_share = tempo::work_share(beats, &followed);
    Some((Tempo { period_ns, rate_hz, presence, work_share, ..*known }, followed))
}

/// A tick from which a chain can be followed. Among the first few beats, it is the beat after which most later beats come in time.
fn first_of_chain(beats: &[Beat], known: &Tempo) -> Option<Start> {
    let base_ns = beats.first()?.at_ns;
    let until = beats.partition_point(|beat| (beat.at_ns - base_ns) as f64 <= 32.0 * known.period_ns);
    let starts = beats[..until].iter().filter(|beat| beat.weight >= known.light_ns).take(8);
    let starts = starts.map(|beat| Start { period_ns: known.period_ns, at_ns: beat.at_ns as f64 });
    let gate = Gate::widest(known.period_ns);
    let in_time = |start: &Start| follow(&beats[..until], known.light_ns, *start, gate, Pull::Whole).at_their_time();
    // `max_by_key` returns the last of equal starts. In reversed order, that is the earliest start.
    starts.collect::<Vec<_>>().into_iter().rev().max_by_key(in_time)
}

/// The account of one window.
///
/// # Errors
/// Returns why the window has no tick.
pub fn account(
    wakes: &[Wake],
    timers: &[Timer],
    known: Option<&Tempo>,
    known_asked_ns: Option<f64>,
) -> Result<Account, NoTick> {
    let beats = beats(wakes);
    // The known loop remains the observed loop. If it is missing in a window, no other loop replaces it.
    let (tempo, followed) = match known {
        Some(known) => keeps(&beats, known).ok_or(NoTick::NoPeriod)?,
        None => ticks(&beats, None)?,
    };
    let seen: Vec<(u64, &Wake)> =
        followed.slots.iter().filter_map(|slot| Some((slot.number, &wakes[slot.beat()?]))).collect();
    let over_ns = over_earliest(&seen, &tempo);
    let asked_ns = asked_offset(timers, &seen, &over_ns, &tempo).or(known_asked_ns);
    let due = match (asked_ns, tempo.pacing) {
        (Some(_), _) => Due::AsAsked,
        (None, Pacing::FixedTimes) => Due::Earliest,
        (None, Pacing::Chained | Pacing::Unknown) => Due::Unknown,
    };
    let late = |over_ns: &f64| (over_ns + asked_ns.unwrap_or(0.0)).max(0.0) as u64;
    let over_ns = if due == Due::Unknown { Vec::new() } else { over_ns };
    let lateness_ns: Vec<u64> = over_ns.iter().map(late).collect();
    let wall_ns: Vec<u64> = seen.iter().map(|(_, wake)| wake.end_ns - wake.start_ns).collect();
    let count =
        |wanted: &dyn Fn(&Found) -> bool| followed.slots.iter().filter(|slot| wanted(&slot.found)).count() as u64;
    let work_ns: Vec<u64> = seen.iter().map(|(_, wake)| wake.on_cpu_ns).collect();
    let all_ns: u64 = wakes.iter().map(|wake| wake.on_cpu_ns).sum();
    Ok(Account {
        tempo,
        due,
        asked_ns,
        ticks: seen.len() as u64,
        missed: count(&|found| *found == Found::Missed),
        hidden: count(&|found| matches!(found, Found::Hidden(_))),
        preempted_ticks: seen.iter().filter(|(_, wake)| wake.preempted > 0).count() as u64,
        moved_ticks: seen.iter().filter(|(_, wake)| wake.is_moved).count() as u64,
        other_wakes: (wakes.len() - seen.len()) as u64,
        work_share: work_ns.iter().sum::<u64>() as f64 / all_ns.max(1) as f64,
        interval_ns: intervals(&followed, wakes),
        due_times: due_times(&followed, wakes, &lateness_ns),
        due_to_done_ns: lateness_ns.iter().zip(&wall_ns).map(|(late, wall)| late + wall).collect(),
        lateness_ns,
        work_ns,
        wall_ns,
    })
}

/// Each due time with its outcome. `lateness_ns` has the values of the observed ticks, or is empty.
fn due_times(followed: &Followed, wakes: &[Wake], lateness_ns: &[u64]) -> Vec<DueTime> {
    let mut lateness_ns = lateness_ns.iter().copied();
    let one = |slot: &Slot| {
        let outcome = match slot.found {
            Found::InTime(at) | Found::Late(at) => Outcome::Begun { wake: wakes[at], lateness_ns: lateness_ns.next() },
            Found::Hidden(at) => Outcome::Hidden(wakes[at]),
            Found::Missed => Outcome::Missed,
        };
        DueTime { expected_ns: slot.expected_ns.max(0.0) as u64, outcome }
    };
    followed.slots.iter().map(one).collect()
}

/// The time from each tick to the next. The interval across a hidden tick is unknown.
/// The interval across a missed tick really has that length.
fn intervals(followed: &Followed, wakes: &[Wake]) -> Vec<u64> {
    let mut last: Option<u64> = None;
    let mut intervals = Vec::with_capacity(followed.slots.len());
    for slot in &followed.slots {
        match slot.found {
            Found::Hidden(_) => last = None,
            Found::Missed => {}
            Found::InTime(beat) | Found::Late(beat) => {
                let at_ns = wakes[beat].start_ns;
                intervals.extend(last.map(|last| at_ns.saturating_sub(last)));
                last = Some(at_ns);
            }
        }
    }
    intervals
}

/// The lateness of each tick relative to the earliest tick.
fn over_earliest(seen: &[(u64, &Wake)], tempo: &Tempo) -> Vec<f64> {
    let Some((_, first)) = seen.first() else { return Vec::new() };
    let since = |wake: &Wake| wake.start_ns.saturating_sub(first.start_ns) as f64;
    let off: Vec<f64> = match tempo.pacing {
        Pacing::FixedTimes => {
            seen.iter().map(|(number, wake)| since(wake) - *number as f64 * tempo.period_ns).collect()
        }
        // Measure from the previous tick. The first tick has no predecessor and counts as an ordinary tick.
        Pacing::Chained | Pacing::Unknown => {
            let steps = seen.windows(2).map(|pair| {
                let slots = pair[1].0.saturating_sub(pair[0].0) as f64;
                since(pair[1].1) - since(pair[0].1) - slots * tempo.period_ns
            });
            let mut off: Vec<f64> = std::iter::once(0.0).chain(steps).collect();
            if let Some(usual) = median(&off[1..]) {
                off[0] = usual;
            }
            off
        }
    };
    let earliest = quantile(&off, EARLIEST).unwrap_or(0.0);
    off.into_iter().map(|off| (off - earliest).max(0.0)).collect()
}

/// How long after the requested time the earliest ticks began. Only ticks count before which the thread was observed asleep.
fn asked_offset(timers: &[Timer], seen: &[(u64, &Wake)], over_ns: &[f64], tempo: &Tempo) -> Option<f64> {
    let mut offsets = Vec::new();
    for Timer { due_ns, begun_ns } in timers {
        let Ok(tick) = seen.binary_search_by_key(begun_ns, |(_, wake)| wake.start_ns) else { continue };
        let late_ns = *begun_ns as f64 - *due_ns as f64;
        // If the thread woke before this time, something else woke it. If it woke much later, this was not its requested time.
        if (0.0..tempo.period_ns / 2.0).contains(&late_ns) {
            offsets.push(late_ns - over_ns[tick]);
        }
    }
    let spread_ns = median_absolute_deviation(&offsets)?;
    let agree = spread_ns <= ASKED_SPREAD_NS.max(ASKED_SPREAD_SHARE * tempo.period_ns);
    median(&offsets).filter(|_| agree && offsets.len() >= ASKED_MIN)
}
