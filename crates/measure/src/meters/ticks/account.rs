//! `Account`: what a window's wakes say of the ticks in it, in numbers.

use evenkeel_stats::{median, median_absolute_deviation, quantile};
use serde::Serialize;

use super::tempo::{self, NoTick, Pacing, Tempo};
use super::track::{Beat, Followed, Found, Gate, Pull, Start, follow};
use super::views::Timer;
use super::wakes::Wake;

/// Fewer ticks in time than this share, and it is another tempo.
const PRESENCE_MIN: f64 = 0.5;
/// Where ticks hold so much less of the work than before, there may be more of them: it is looked for anew.
const WORK_SHARE_LEFT: f64 = 0.8;
/// So many times the thread must have been seen asleep before a tick, to know when it asked to be woken.
const ASKED_MIN: usize = 4;
/// And these must agree so well, in nanoseconds or as a share of the period, whichever is more.
const ASKED_SPREAD_NS: f64 = 25_000.0;
const ASKED_SPREAD_SHARE: f64 = 0.005;
/// The earliest ticks are those before this quantile: one alone may have been woken by something else.
const EARLIEST: f64 = 0.02;

/// What lateness is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Due {
    /// From when the thread asked to be woken: what it calls late itself.
    AsAsked,
    /// From where the earliest ticks were, since it was not to be seen what it asked for: what is added to all of them is left out.
    Earliest,
    /// Nothing: the ticks keep no set times, and it was not to be seen what the thread asked for. Nothing is late then.
    Unknown,
}

/// The ticks of one window. Times are in nanoseconds, in the order of the ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// What they kept.
    pub tempo: Tempo,
    /// What lateness is counted from.
    pub due: Due,
    /// How long after what was asked for the earliest ticks began; none if that was not to be seen.
    pub asked_ns: Option<f64>,
    /// Ticks that were seen.
    pub ticks: u64,
    /// Times at which one was due and none began before the next was.
    pub missed: u64,
    /// Times at which the thread was awake already, so that the tick's own beginning can't be told.
    pub hidden: u64,
    /// Ticks during which the thread lost the CPU while it had work to do.
    pub preempted_ticks: u64,
    /// Ticks that went on on another CPU.
    pub moved_ticks: u64,
    /// Wakes that were no tick.
    pub other_wakes: u64,
    /// The share of the thread's work that was done in ticks.
    pub work_share: f64,
    /// From the beginning of one tick to the next one's.
    pub interval_ns: Vec<u64>,
    /// From when it was due to when it was given the CPU; empty where nothing was due.
    pub lateness_ns: Vec<u64>,
    /// Time on a CPU.
    pub work_ns: Vec<u64>,
    /// From when it was given the CPU to when it slept.
    pub wall_ns: Vec<u64>,
    /// From due to when it slept; empty where nothing was due.
    pub due_to_done_ns: Vec<u64>,
}

/// A thread's wakes as beats, by the time that it ran.
pub fn beats(wakes: &[Wake]) -> Vec<Beat> {
    let beat = |wake: &Wake| Beat { at_ns: wake.start_ns, until_ns: wake.end_ns, weight: wake.on_cpu_ns as f64 };
    wakes.iter().map(beat).collect()
}

/// The ticks among `beats`, by the tempo that was known before or, if they no longer keep that, by a new one.
///
/// # Errors
/// Why there is none.
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

/// The ticks among `beats`, where they keep a tempo that is known.
pub fn keeps(beats: &[Beat], known: &Tempo) -> Option<(Tempo, Followed)> {
    by(beats, known).filter(|(tempo, _)| tempo.presence >= PRESENCE_MIN)
}

/// Follows a known tempo: through the first of it to know where the ticks are, then through all of it.
fn by(beats: &[Beat], known: &Tempo) -> Option<(Tempo, Followed)> {
    let gate = known.gate();
    let wide = Gate::widest(known.period_ns);
    let (start, roughly) = match known.pacing {
        Pacing::Walks => (first_of_chain(beats, known)?, Pull::Whole),
        Pacing::Kept | Pacing::Unknown => (tempo::phase(beats, known.light_ns, known.period_ns)?, Pull::Much),
    };
    let first = follow(beats, known.light_ns, start, wide, roughly);
    let start = tempo::again(beats, &first, roughly)?;
    let pull = match known.pacing {
        Pacing::Kept => Pull::Little,
        Pacing::Unknown => Pull::Some,
        Pacing::Walks => Pull::Whole,
    };
    let mut followed = follow(beats, known.light_ns, start, gate, pull);
    let [close, far] = [(&followed, gate), (&first, wide)]
        .map(|(followed, gate)| tempo::presence_of_known(beats, known.light_ns, followed, gate));
    let presence = close.max(far);
    let period_ns = tempo::again(beats, &followed, pull)?.period_ns;
    let rate_hz = tempo::rate_hz(beats, &followed, period_ns);
    if known.pacing == Pacing::Kept {
        followed.take_light(beats, gate);
    }
    let work_share = tempo::work_share(beats, &followed);
    Some((Tempo { period_ns, rate_hz, presence, work_share, ..*known }, followed))
}

/// A tick that a chain can be followed from: of the first few beats that which most others come after in time.
fn first_of_chain(beats: &[Beat], known: &Tempo) -> Option<Start> {
    let base_ns = beats.first()?.at_ns;
    let until = beats.partition_point(|beat| (beat.at_ns - base_ns) as f64 <= 32.0 * known.period_ns);
    let starts = beats[..until].iter().filter(|beat| beat.weight >= known.light_ns).take(8);
    let starts = starts.map(|beat| Start { period_ns: known.period_ns, at_ns: beat.at_ns as f64 });
    let gate = Gate::widest(known.period_ns);
    let in_time = |start: &Start| follow(&beats[..until], known.light_ns, *start, gate, Pull::Whole).at_their_time();
    // The first of those that are equal.
    starts.collect::<Vec<_>>().into_iter().rev().max_by_key(in_time)
}

/// The account of one window.
///
/// # Errors
/// Why there is no tick in it.
pub fn account(
    wakes: &[Wake],
    timers: &[Timer],
    known: Option<&Tempo>,
    known_asked_ns: Option<f64>,
) -> Result<Account, NoTick> {
    let beats = beats(wakes);
    // A loop that is known stays the one that is looked at: in a window without it, another is not taken for it.
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
        (None, Pacing::Kept) => Due::Earliest,
        (None, Pacing::Walks | Pacing::Unknown) => Due::Unknown,
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
        due_to_done_ns: lateness_ns.iter().zip(&wall_ns).map(|(late, wall)| late + wall).collect(),
        lateness_ns,
        work_ns,
        wall_ns,
    })
}

/// From each tick to the next. Over one whose beginning is hidden nothing is known; over one that was missed the time was that long.
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

/// How much later each tick began than the earliest did.
fn over_earliest(seen: &[(u64, &Wake)], tempo: &Tempo) -> Vec<f64> {
    let Some((_, first)) = seen.first() else { return Vec::new() };
    let since = |wake: &Wake| wake.start_ns.saturating_sub(first.start_ns) as f64;
    let off: Vec<f64> = match tempo.pacing {
        Pacing::Kept => seen.iter().map(|(number, wake)| since(wake) - *number as f64 * tempo.period_ns).collect(),
        // By the one before; of the first one nothing is known, and it is taken for an ordinary one.
        Pacing::Walks | Pacing::Unknown => {
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

/// How long after what was asked for the earliest ticks began, by those before which a thread was seen asleep.
fn asked_offset(timers: &[Timer], seen: &[(u64, &Wake)], over_ns: &[f64], tempo: &Tempo) -> Option<f64> {
    let mut offsets = Vec::new();
    for Timer { due_ns, begun_ns } in timers {
        let Ok(tick) = seen.binary_search_by_key(begun_ns, |(_, wake)| wake.start_ns) else { continue };
        let late_ns = *begun_ns as f64 - *due_ns as f64;
        // Woken before its time, it was woken by something else; much later, this is not the time that it kept.
        if (0.0..tempo.period_ns / 2.0).contains(&late_ns) {
            offsets.push(late_ns - over_ns[tick]);
        }
    }
    let spread_ns = median_absolute_deviation(&offsets)?;
    let agree = spread_ns <= ASKED_SPREAD_NS.max(ASKED_SPREAD_SHARE * tempo.period_ns);
    median(&offsets).filter(|_| agree && offsets.len() >= ASKED_MIN)
}
