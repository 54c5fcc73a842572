//! `cut`: divides a thread's time into ticks by its off-CPU intervals.
//! A tick may wait for a lock or for memory in the middle of its work.
//! So a first pass takes every sleep as the end of a tick and finds the rate.
//! A second pass keeps only the kinds of wait after which ticks began. Other waits are inside a tick.

use std::collections::{BTreeMap, HashMap};

use evenkeel_measure::meters::ticks::account::ticks as followed;
use evenkeel_measure::meters::ticks::choice::{self, Unclear};
use evenkeel_measure::meters::ticks::loops::TickLoop;
use evenkeel_measure::meters::ticks::tempo::{NoTick, Pacing, Tempo};
use evenkeel_measure::meters::ticks::track::{Beat, Followed, Found};
use evenkeel_measure::meters::ticks::views::Workers;
use serde::Serialize;

use super::marks::{MarkedTick, ThreadTicks};
use super::stretch::{Stretch, sleeps, stretches};
use super::tick::Tick;
use super::whole;
use crate::offcpu::{OffCpuInterval, Reason};
use crate::recording::{Recording, Span};
use crate::stack::{Frame, FrameId};

/// How many innermost user frames distinguish one wait from another.
/// `cut` uses the largest of these numbers with which most ticks come after the same waits.
/// Without frame pointers, only the innermost frame is reliable.
const DEPTHS: [usize; 4] = [64, 4, 1, 0];
/// If a wait precedes a smaller share of ticks, ticks do not begin after this wait.
const USUAL_SHARE: f64 = 0.1;
/// The accepted waits must precede at least this share of all ticks. Otherwise it is unknown which waits end a tick.
const USUAL_OF_ALL: f64 = 0.9;
/// A tick's expected time comes from this many neighbours on each side: the earliest quarter of their offsets.
/// The schedule may shift, because clocks drift and a server may restart its schedule.
const NEIGHBOURS: usize = 16;
/// The thread may run earlier than expected by up to this share of the period, and the run still counts as that tick.
const EARLY_SHARE: f64 = 0.25;
/// The maximum number of loops listed in the error that the tick is unclear.
const LISTED_MAX: usize = 4;

/// The event that ends a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ends {
    /// The wait after which ticks begin. Other waits are inside a tick.
    AtItsWait,
    /// The first sleep, because the recording has no stacks. A tick that waits in the middle ends at that wait.
    AtFirstSleep,
    /// The beginning of the next tick, because the thread does not wait between ticks.
    AtNextBegin,
    /// An end event: a function's return, or another probe.
    AtItsEnd,
}

/// A thread's ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The tick's thread. If several threads share the tick, the thread with most of the tick's work.
    pub tid: u32,
    /// All threads that do the tick's work, most work first.
    pub tids: Vec<u32>,
    /// The schedule of the ticks. None if events mark the ticks.
    pub tempo: Option<Tempo>,
    /// What ends a tick.
    pub ends: Ends,
    /// The ticks, sorted by time and without overlap.
    pub ticks: Vec<Tick>,
    /// The number of ticks that were due but did not run.
    pub missed: u64,
    /// The number of ticks that are left out because they have no end event.
    pub unended: u64,
}

/// The tick to look for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// The loop that does most of the server's work.
    Any,
    /// The loop with this rate, in ticks per second.
    Rate(f64),
    /// The loop with most work among the threads with this name.
    Named(String),
    /// The loop of this thread.
    Thread(u32),
}

/// Why there are no ticks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoTicks {
    /// The recording has no switches.
    #[error(
        "the recording has no switches of {0}, which ticks are found by: record with `evenkeel profile record --switches`"
    )]
    NoSwitches(String),
    /// The threads have no periodic loop.
    #[error("found no tick in thread {name} ({tid}): {why}")]
    None {
        /// The busiest examined thread.
        tid: u32,
        /// The thread's name.
        name: String,
        /// The reason.
        why: NoTick,
    },
    /// Several loops may be the tick.
    #[error("{why}{}", listed(loops))]
    Unclear {
        /// The reason.
        why: Unclear,
        /// The loops, most work first.
        loops: Vec<TickLoop>,
    },
}

/// The loops as text for an error message.
fn listed(loops: &[TickLoop]) -> String {
    let loops: Vec<String> = loops.iter().take(LISTED_MAX).map(ToString::to_string).collect();
    if loops.is_empty() { String::new() } else { format!("; its loops: {}", loops.join(", ")) }
}

/// The intervals of each thread, in the order of time.
pub fn by_thread(intervals: &[OffCpuInterval]) -> BTreeMap<u32, Vec<OffCpuInterval>> {
    let mut lives: BTreeMap<u32, Vec<OffCpuInterval>> = BTreeMap::new();
    for interval in intervals {
        lives.entry(interval.tid).or_default().push(*interval);
    }
    for life in lives.values_mut() {
        life.sort_by_key(|interval| (interval.span.start_ns, interval.span.end_ns));
        // Intervals overlap only if records were lost. Drop the later interval.
        let mut last_ns = 0;
        life.retain(|interval| {
            let is_next = interval.span.start_ns >= last_ns && interval.span.end_ns >= interval.span.start_ns;
            if is_next {
                last_ns = interval.span.end_ns;
            }
            is_next
        });
    }
    lives
}

/// Finds the tick and divides the time of its threads. `lives` comes from [`by_thread`].
///
/// # Errors
/// If no thread matches, if the thread has no periodic loop, or if it is unclear which loop is the tick.
pub fn find(
    recording: &Recording,
    lives: &BTreeMap<u32, Vec<OffCpuInterval>>,
    wanted: &Wanted,
) -> Result<Cut, NoTicks> {
    let name = |tid: u32| recording.threads.get(&tid).and_then(|thread| thread.name.clone()).unwrap_or_default();
    let is_wanted = |tid: u32| match wanted {
        Wanted::Any | Wanted::Rate(_) => tid != 0,
        Wanted::Named(wanted) => name(tid) == *wanted,
        Wanted::Thread(wanted) => tid == *wanted,
    };
    let stream = whole::stream(recording, lives.iter().filter(|(tid, _)| is_wanted(**tid)));
    let busiest = stream.threads.iter().max_by_key(|thread| (thread.ran_ns(), thread.switches));
    let Some(busiest) = busiest else {
        return Err(NoTicks::NoSwitches(match wanted {
            Wanted::Any | Wanted::Rate(_) => "any thread".to_owned(),
            Wanted::Named(name) => format!("a thread called {name}"),
            Wanted::Thread(tid) => format!("thread {tid}"),
        }));
    };
    let known = match wanted {
        Wanted::Any => choice::Wanted::default(),
        Wanted::Rate(hz) => choice::Wanted { tick_hz: Some(*hz), ..choice::Wanted::default() },
        Wanted::Named(_) | Wanted::Thread(_) => {
            choice::Wanted { thread: Some(busiest.name.clone()), ..choice::Wanted::default() }
        }
    };
    let choice = choice::choose(&stream, &known);
    let tick = choice.tick().map_err(|why| match why {
        Unclear::NoLoop { reason } => NoTicks::None { tid: busiest.tid, name: busiest.name.clone(), why: reason },
        why => NoTicks::Unclear { why, loops: choice.loops.clone() },
    })?;
    let tids: Vec<u32> = match tick.of {
        Workers::Thread(tid) => vec![tid],
        Workers::Pool(_) | Workers::Process | Workers::Function(_) => {
            tick.carriers.iter().map(|carrier| carrier.tid).collect()
        }
    };
    let refused = |why| NoTicks::None { tid: tids[0], name: name(tids[0]), why };
    let life = whole::merged_or_own(lives, &tids);
    of_threads(recording, &tids, &life, &tick.tempo).map_err(refused)
}

/// The ticks of threads by their schedule. `life` has the threads' off-CPU intervals.
///
/// # Errors
/// [`NoTicks`] says why there are no ticks.
pub fn of_threads(recording: &Recording, tids: &[u32], life: &[OffCpuInterval], tempo: &Tempo) -> Result<Cut, NoTick> {
    let awake = stretches(life, |interval| sleeps(interval.reason));
    let (first_tempo, first) = followed(&beats(&awake), Some(tempo))?;
    let before = first.slots.iter().filter_map(|slot| life.get(awake.get(slot.beat()?)?.after));
    let before: Vec<&OffCpuInterval> = before.collect();
    // Threads that share a tick may each wait at a different place.
    if let [tid] = tids
        && let Some(usual) = TickEndWaits::from_recording(recording, &before)
    {
        let work = stretches(life, |interval| usual.is(recording, interval));
        if let Ok((tempo, found)) = followed(&beats(&work), Some(&first_tempo)) {
            return Ok(cut(&[*tid], Ends::AtItsWait, tempo, &found, &work));
        }
    }
    Ok(cut(tids, Ends::AtFirstSleep, first_tempo, &first, &awake))
}

/// The marked ticks of one thread.
/// A tick without an end event ends when the thread waits for the next tick, or at the latest when the next tick begins.
pub fn at(recording: &Recording, life: &[OffCpuInterval], marked: &ThreadTicks) -> Cut {
    let ThreadTicks { tid, ticks: marked, unended } = marked;
    let before = marked.iter().filter_map(|tick| {
        let next = life.partition_point(|interval| interval.span.start_ns < tick.begun_ns);
        life[..next].iter().rev().find(|interval| sleeps(interval.reason))
    });
    let before: Vec<&OffCpuInterval> = before.collect();
    let usual = TickEndWaits::from_recording(recording, &before);
    let is_wait = |interval: &&OffCpuInterval| usual.as_ref().is_some_and(|usual| usual.is(recording, interval));
    let mut ticks: Vec<Tick> = Vec::new();
    let mut last_ns = 0;
    for (place, tick) in marked.iter().enumerate() {
        let begun_ns = tick.begun_ns.max(last_ns);
        let next_ns = marked.get(place + 1).map(|next| next.begun_ns.max(begun_ns));
        let at_wait = || {
            let first = life.partition_point(|interval| interval.span.start_ns < begun_ns);
            let next_ns = next_ns?;
            let waits = life[first..].iter().take_while(|interval| interval.span.start_ns < next_ns).find(is_wait);
            Some(waits.map_or(next_ns, |wait| wait.span.start_ns))
        };
        // Without an end event, the end of the last tick is unknown.
        let Some(end_ns) = tick.done_ns.or_else(at_wait) else { continue };
        let end_ns = end_ns.max(begun_ns).min(next_ns.unwrap_or(u64::MAX));
        let start_ns = tick.due_ns.map_or(begun_ns, |due_ns| due_ns.min(begun_ns).max(last_ns));
        last_ns = end_ns;
        ticks.push(Tick { number: tick.number.unwrap_or(place as u64), span: Span { start_ns, end_ns }, begun_ns });
    }
    let ends = match (marked.iter().any(|tick| tick.done_ns.is_some()), usual) {
        (true, _) => Ends::AtItsEnd,
        (false, Some(_)) => Ends::AtItsWait,
        (false, None) => Ends::AtNextBegin,
    };
    Cut { tid: *tid, tids: vec![*tid], tempo: None, ends, missed: missed(marked), ticks, unended: *unended }
}

/// The number of ticks that are missing, by the gaps in the ticks' numbers.
fn missed(marked: &[MarkedTick]) -> u64 {
    let gaps = marked.windows(2).filter_map(|pair| pair[1].number?.checked_sub(pair[0].number?)?.checked_sub(1));
    gaps.fold(0, u64::saturating_add)
}

fn beats(stretches: &[Stretch]) -> Vec<Beat> {
    let beat = |one: &Stretch| Beat { at_ns: one.start_ns, until_ns: one.end_ns, weight: one.ran_ns as f64 };
    stretches.iter().map(beat).collect()
}

/// A place to wait: the reason and the innermost user frames.
type Place = (Reason, Vec<FrameId>);

/// The waits after which ticks begin.
struct TickEndWaits {
    depth: usize,
    places: Vec<Place>,
}

impl TickEndWaits {
    fn from_recording(recording: &Recording, before: &[&OffCpuInterval]) -> Option<TickEndWaits> {
        DEPTHS.into_iter().find_map(|depth| {
            let mut counts: HashMap<Place, usize> = HashMap::new();
            for place in before.iter().filter_map(|interval| place(recording, interval, depth)) {
                *counts.entry(place).or_default() += 1;
            }
            let of_all = |count: usize| count as f64 / before.len() as f64;
            counts.retain(|_, count| of_all(*count) >= USUAL_SHARE);
            let is_enough = of_all(counts.values().sum()) >= USUAL_OF_ALL;
            is_enough.then(|| TickEndWaits { depth, places: counts.into_keys().collect() })
        })
    }

    fn is(&self, recording: &Recording, interval: &OffCpuInterval) -> bool {
        sleeps(interval.reason)
            && place(recording, interval, self.depth).is_some_and(|place| self.places.contains(&place))
    }
}

/// The place of a wait. `None` if the place is unknown.
fn place(recording: &Recording, interval: &OffCpuInterval, depth: usize) -> Option<Place> {
    if interval.reason == Reason::Unknown {
        return None;
    }
    let frames = interval.stack.into_iter().flat_map(|stack| recording.stacks.innermost_first(stack));
    let is_users = |frame: &FrameId| {
        let frame = recording.stacks.frames().get(frame.place());
        !matches!(frame, Some(Frame::Kernel { .. } | Frame::Named { is_kernel: true, .. }) | None)
    };
    Some((interval.reason, frames.filter(is_users).take(depth).collect()))
}

fn cut(tids: &[u32], ends: Ends, tempo: Tempo, found: &Followed, work: &[Stretch]) -> Cut {
    let mut begun: Vec<(u64, f64, Stretch)> = Vec::with_capacity(found.slots.len());
    let mut missed = 0;
    let mut last_ns = 0;
    for slot in &found.slots {
        let (stretch, begins_ns) = match slot.found {
            Found::InTime(beat) | Found::Late(beat) => (work.get(beat), None),
            // The thread was already awake, perhaps for a packet, and the tick began within that run.
            // If the run already belongs to an earlier tick, that tick overran.
            Found::Hidden(beat) => (work.get(beat), Some(slot.expected_ns.max(0.0) as u64)),
            Found::Missed => (None, None),
        };
        let Some(stretch) = stretch else {
            missed += 1;
            continue;
        };
        // On a busy machine most ticks are late, so the expected time is late too.
        // A tick slightly before the expected time is on time.
        let early_ns = begins_ns.map_or(0, |begins_ns| begins_ns.saturating_sub(stretch.start_ns));
        let is_just_early = (early_ns as f64) < tempo.period_ns * EARLY_SHARE;
        let start_ns = begins_ns.filter(|_| !is_just_early).unwrap_or(stretch.start_ns).max(stretch.start_ns);
        if start_ns < last_ns || start_ns >= stretch.end_ns {
            continue;
        }
        last_ns = stretch.end_ns;
        begun.push((slot.number, start_ns as f64 - slot.expected_ns, Stretch { start_ns, ..*stretch }));
    }
    let offs: Vec<f64> = begun.iter().map(|(_, off_ns, _)| *off_ns).collect();
    let waits: Vec<f64> = begun.iter().map(|(_, _, stretch)| stretch.waited_ns as f64).collect();
    let mut last_ns = 0;
    let ticks = begun.iter().enumerate().map(|(at, (number, off_ns, stretch))| {
        let late_ns = off_ns - earliest(&offs, at);
        // If the loop times each tick from the end of the last tick, a tick after a long tick is not late.
        let late_ns = match tempo.pacing {
            Pacing::FixedTimes => late_ns,
            Pacing::Chained | Pacing::Unknown => late_ns.min(waits[at] - earliest(&waits, at)),
        };
        let due_ns = stretch.start_ns.saturating_sub(late_ns.max(0.0) as u64).max(last_ns);
        last_ns = stretch.end_ns;
        Tick { number: *number, span: Span { start_ns: due_ns, end_ns: stretch.end_ns }, begun_ns: stretch.start_ns }
    });
    let ticks = ticks.collect();
    Cut { tid: tids[0], tids: tids.to_vec(), tempo: Some(tempo), ends, ticks, missed, unended: 0 }
}

/// The earliest quarter of the offsets of a tick's neighbours: the value below which a quarter of them lies.
fn earliest(offs_ns: &[f64], at: usize) -> f64 {
    let near = &offs_ns[at.saturating_sub(NEIGHBOURS)..(at + NEIGHBOURS + 1).min(offs_ns.len())];
    let mut near = near.to_vec();
    near.sort_unstable_by(f64::total_cmp);
    near.get(near.len() / 4).copied().unwrap_or(0.0)
}
