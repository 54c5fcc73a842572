//! `cut`: from the intervals without a CPU of one thread to its ticks. A tick is not one stretch awake: it may wait for a lock or for memory in
//! the midst of its work. So the first look takes every sleep for a border and finds the tempo; the second one keeps as borders those waits
//! alone that ticks were seen to begin after, and what waits elsewhere is within a tick.

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

/// Waits are told apart by so many of the user's innermost frames: as many as still make most of those before ticks one and the same.
/// Without frame pointers only the innermost is worth something.
const DEPTHS: [usize; 4] = [64, 4, 1, 0];
/// What comes before fewer ticks than this share is no wait for a tick.
const USUAL_SHARE: f64 = 0.1;
/// And such waits must come before so many of all, or they are not known well enough.
const USUAL_OF_ALL: f64 = 0.9;
/// Of so many ticks to both sides the earliest quarter says where a tick was to be: the machine's time may drift, and a server may begin
/// to count anew.
const NEIGHBOURS: usize = 16;
/// A stretch that begins before a tick was expected, by less than this share of the period, is that tick.
const EARLY_SHARE: f64 = 0.25;
/// Loops that are listed where it can't be told which is the tick.
const LISTED_MAX: usize = 4;

/// What ends a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ends {
    /// The wait that ticks begin after: what waits elsewhere is within a tick.
    AtItsWait,
    /// The first sleep, since it was not to be told where the thread sleeps: a tick that waits in its midst ends there.
    AtFirstSleep,
    /// The beginning of the next one, since the thread does not wait between them.
    AtNextBegin,
    /// A moment that was told: a function's return, or another place that was run.
    AtItsEnd,
}

/// A thread's ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The thread; of several that share the tick, the one with most of its work.
    pub tid: u32,
    /// All threads that do the tick's work, that with the most first.
    pub tids: Vec<u32>,
    /// What its ticks keep; none where they were told otherwise.
    pub tempo: Option<Tempo>,
    /// What ends one.
    pub ends: Ends,
    /// In the order of time. They do not overlap.
    pub ticks: Vec<Tick>,
    /// Ticks that were due and did not come.
    pub missed: u64,
    /// Ticks that began and of which no end was told: they are left out.
    pub unended: u64,
}

/// Whose tick, and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// The loop that holds most of the server's work.
    Any,
    /// The loop of this rate, in ticks a second.
    Rate(f64),
    /// The same among the threads of this name.
    Named(String),
    /// That of this thread.
    Thread(u32),
}

/// Why there are no ticks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoTicks {
    /// There are no switches.
    #[error(
        "the recording has no switches of {0}, and without them no ticks are to be told apart: record with `evenkeel profile record --switches`"
    )]
    NoSwitches(String),
    /// It keeps no time.
    #[error("no tick is to be seen in thread {name} ({tid}): {why}")]
    None {
        /// The busiest thread that was looked at.
        tid: u32,
        /// Its name.
        name: String,
        /// Why.
        why: NoTick,
    },
    /// Which loop is the tick can't be told.
    #[error("{why}{}", listed(loops))]
    Unclear {
        /// Why.
        why: Unclear,
        /// The loops, that with the most work first.
        loops: Vec<TickLoop>,
    },
}

/// Loops for a sentence.
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
        // Two at once can't be: what a recording says that lost some is not followed.
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

/// Finds the tick, and cuts the time of its threads. `lives` is of [`by_thread`].
///
/// # Errors
/// If there is no such thread, nothing keeps time in it, or it can't be told which loop is the tick.
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

/// The ticks of some threads, which had no CPU in `life`, by the time that they keep.
///
/// # Errors
/// Why there are none.
pub fn of_threads(recording: &Recording, tids: &[u32], life: &[OffCpuInterval], tempo: &Tempo) -> Result<Cut, NoTick> {
    let awake = stretches(life, |interval| sleeps(interval.reason));
    let (first_tempo, first) = followed(&beats(&awake), Some(tempo))?;
    let before = first.slots.iter().filter_map(|slot| life.get(awake.get(slot.beat()?)?.after));
    let before: Vec<&OffCpuInterval> = before.collect();
    // Of several threads that share a tick, each waits for the next one at a place of its own.
    if let [tid] = tids
        && let Some(usual) = Usual::of(recording, &before)
    {
        let work = stretches(life, |interval| usual.is(recording, interval));
        if let Ok((tempo, found)) = followed(&beats(&work), Some(&first_tempo)) {
            return Ok(cut(&[*tid], Ends::AtItsWait, tempo, &found, &work));
        }
    }
    Ok(cut(tids, Ends::AtFirstSleep, first_tempo, &first, &awake))
}

/// The ticks of one thread, as something else told of them. One of which no end was told ends with the wait that comes before ticks, or at
/// the latest when the next begins.
pub fn at(recording: &Recording, life: &[OffCpuInterval], told: &ThreadTicks) -> Cut {
    let ThreadTicks { tid, ticks: told, unended } = told;
    let before = told.iter().filter_map(|tick| {
        let next = life.partition_point(|interval| interval.span.start_ns < tick.begun_ns);
        life[..next].iter().rev().find(|interval| sleeps(interval.reason))
    });
    let before: Vec<&OffCpuInterval> = before.collect();
    let usual = Usual::of(recording, &before);
    let is_wait = |interval: &&OffCpuInterval| usual.as_ref().is_some_and(|usual| usual.is(recording, interval));
    let mut ticks: Vec<Tick> = Vec::new();
    let mut last_ns = 0;
    for (place, tick) in told.iter().enumerate() {
        let begun_ns = tick.begun_ns.max(last_ns);
        let next_ns = told.get(place + 1).map(|next| next.begun_ns.max(begun_ns));
        let at_wait = || {
            let first = life.partition_point(|interval| interval.span.start_ns < begun_ns);
            let next_ns = next_ns?;
            let waits = life[first..].iter().take_while(|interval| interval.span.start_ns < next_ns).find(is_wait);
            Some(waits.map_or(next_ns, |wait| wait.span.start_ns))
        };
        // Of the last one nobody knows when it was done, unless that was told.
        let Some(end_ns) = tick.done_ns.or_else(at_wait) else { continue };
        let end_ns = end_ns.max(begun_ns).min(next_ns.unwrap_or(u64::MAX));
        let start_ns = tick.due_ns.map_or(begun_ns, |due_ns| due_ns.min(begun_ns).max(last_ns));
        last_ns = end_ns;
        ticks.push(Tick { number: tick.number.unwrap_or(place as u64), span: Span { start_ns, end_ns }, begun_ns });
    }
    let ends = match (told.iter().any(|tick| tick.done_ns.is_some()), usual) {
        (true, _) => Ends::AtItsEnd,
        (false, Some(_)) => Ends::AtItsWait,
        (false, None) => Ends::AtNextBegin,
    };
    Cut { tid: *tid, tids: vec![*tid], tempo: None, ends, missed: missed(told), ticks, unended: *unended }
}

/// How many numbers were passed over between ticks that tell theirs.
fn missed(told: &[MarkedTick]) -> u64 {
    let gaps = told.windows(2).filter_map(|pair| pair[1].number?.checked_sub(pair[0].number?)?.checked_sub(1));
    gaps.fold(0, u64::saturating_add)
}

fn beats(stretches: &[Stretch]) -> Vec<Beat> {
    let beat = |one: &Stretch| Beat { at_ns: one.start_ns, until_ns: one.end_ns, weight: one.ran_ns as f64 };
    stretches.iter().map(beat).collect()
}

/// A place to wait: why, and the user's innermost frames.
type Place = (Reason, Vec<FrameId>);

/// The places that ticks begin after.
struct Usual {
    depth: usize,
    places: Vec<Place>,
}

impl Usual {
    fn of(recording: &Recording, before: &[&OffCpuInterval]) -> Option<Usual> {
        DEPTHS.into_iter().find_map(|depth| {
            let mut counts: HashMap<Place, usize> = HashMap::new();
            for place in before.iter().filter_map(|interval| place(recording, interval, depth)) {
                *counts.entry(place).or_default() += 1;
            }
            let of_all = |count: usize| count as f64 / before.len() as f64;
            counts.retain(|_, count| of_all(*count) >= USUAL_SHARE);
            let is_enough = of_all(counts.values().sum()) >= USUAL_OF_ALL;
            is_enough.then(|| Usual { depth, places: counts.into_keys().collect() })
        })
    }

    fn is(&self, recording: &Recording, interval: &OffCpuInterval) -> bool {
        sleeps(interval.reason)
            && place(recording, interval, self.depth).is_some_and(|place| self.places.contains(&place))
    }
}

/// None where it is not known.
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
            // Awake already, for a packet perhaps: the tick began within that. One that is a tick's already is a tick that took too long.
            Found::Hidden(beat) => (work.get(beat), Some(slot.expected_ns.max(0.0) as u64)),
            Found::Missed => (None, None),
        };
        let Some(stretch) = stretch else {
            missed += 1;
            continue;
        };
        // On a busy machine most ticks are late, and what is expected is late with them: one that comes a little before it is just in time.
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
        // One that counts from the last tick's end is not late after a long one: it waited as long as ever.
        let late_ns = match tempo.pacing {
            Pacing::Kept => late_ns,
            Pacing::Walks | Pacing::Unknown => late_ns.min(waits[at] - earliest(&waits, at)),
        };
        let due_ns = stretch.start_ns.saturating_sub(late_ns.max(0.0) as u64).max(last_ns);
        last_ns = stretch.end_ns;
        Tick { number: *number, span: Span { start_ns: due_ns, end_ns: stretch.end_ns }, begun_ns: stretch.start_ns }
    });
    let ticks = ticks.collect();
    Cut { tid: tids[0], tids: tids.to_vec(), tempo: Some(tempo), ends, ticks, missed, unended: 0 }
}

/// Where the earliest quarter of a tick's neighbours were.
fn earliest(offs_ns: &[f64], at: usize) -> f64 {
    let near = &offs_ns[at.saturating_sub(NEIGHBOURS)..(at + NEIGHBOURS + 1).min(offs_ns.len())];
    let mut near = near.to_vec();
    near.sort_unstable_by(f64::total_cmp);
    near.get(near.len() / 4).copied().unwrap_or(0.0)
}
