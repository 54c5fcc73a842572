//! `TickLoop`: a periodic activity of a server, with its rate,
//! its share of the server's CPU time, the threads that do its work, and how they wait.
//! [`choice`](super::choice) decides which loop is the tick.

use std::fmt;

use evenkeel_hostfs::sleep_deadline::{Call, Wait};
use evenkeel_stats::median;
use serde::Serialize;

use super::account::{self, beats, ticks};
use super::between;
use super::entries::ticks_of;
use super::finer::{Finer, finer};
use super::heavier::{heaviest, is_clear, slower_at, slower_by_work, work_rhythm_hz};
use super::stream::{Stream, ThreadLog};
use super::tempo::{self, NoTick, Tempo};
use super::track::{Beat, Followed};
use super::views::{self, View, Workers};
use super::wakes::Wake;

/// Two loops are the same if their rates differ by less than this share.
const SAME_RATE: f64 = 0.005;
/// The same limit if one thread does most of the work of both loops.
const SAME_RATE_OF_ONE: f64 = 0.03;
/// Two such loops are the same only if this share of the ticks of the loop with fewer threads begins with ticks of the other loop.
const SAME_TICKS: f64 = 0.7;
/// A thread that does this share of a loop's work counts as doing the work alone. The other threads do their own work.
const ALONE: f64 = 0.85;
/// Threads with a smaller share of a loop's work do not belong to it.
const CARRIES_MIN: f64 = 0.02;
/// A loop counts as a poll with a fixed time if this share of the observed sleeps before its ticks requested the same time.
const SAME_WAIT: f64 = 0.8;
const WAITS_MIN: usize = 4;
/// A loop is woken from outside if this share of its wakes comes just before the requested time.
const WOKEN_BEFORE: f64 = 0.5;
const ROUND_NS: u64 = 100_000;
/// A sleep that ended this long before its requested time was not ended by its timer.
const EARLY_NS: u64 = 1_000_000;
/// A loop with a smaller share of the server's CPU time is not listed. The thread that paces a tick may itself do almost nothing.
const LISTED_MIN: f64 = 0.0005;
const LISTED_MAX: usize = 8;

/// How the threads of a loop wait for its next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// The threads wait for a fixed time in calls that a file or a packet can end. This is a polling loop.
    PollsFor {
        /// The time, in nanoseconds.
        ns: u64,
    },
    /// The threads wait until a time that differs for each tick.
    ForItsTime,
    /// The threads wait until a time far away, or until a file is ready. Packets, another program or a signal wake them earlier.
    WokenBefore,
    /// The waits were not observed.
    Unseen,
}

/// A thread's part of a loop's work.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Carrier {
    /// The thread's process.
    pub pid: u32,
    /// The thread's number.
    pub tid: u32,
    /// The thread's name.
    pub name: String,
    /// The thread's share of the work in the loop's ticks.
    pub share: f64,
}

/// A periodic activity.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickLoop {
    /// The threads whose work shows the loop.
    pub of: Workers,
    /// The loop's period, and how well the loop keeps it.
    pub tempo: Tempo,
    /// The number of observed ticks.
    pub ticks: u64,
    /// The share of the server's CPU time in the loop's ticks.
    pub work_share: f64,
    /// The CPU use of the loop's ticks, from 0 to 1.
    pub cpu_share: f64,
    /// The median work of a tick, in nanoseconds.
    pub tick_work_ns_p50: u64,
    /// The threads that do the loop's work, with the most work first.
    pub carriers: Vec<Carrier>,
    /// How the loop's threads wait for the next tick.
    pub waits: Waits,
    /// The rate of a faster loop of the same threads, if ticks of this loop begin at wakes of that loop.
    pub within_hz: Option<f64>,
    /// The rate of a slower loop that contains the heavier ticks of this loop. None without such a loop.
    pub holds_hz: Option<f64>,
    /// How often some ticks of this loop are heavier than the others, per second. None if they can be distinguished one by one.
    pub heavier_hz: Option<f64>,
    /// Another rate that the threads keep for some of the time: two, three or four times this loop's rate, or a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub at_times_hz: Option<f64>,
}

impl fmt::Display for TickLoop {
    /// The loop's rate, its share of the work, and its threads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hz, share) = (self.tempo.hz(), self.work_share * 100.0);
        write!(f, "{hz:.2} Hz with {share:.0} % of its CPU time, by {}", self.workers())
    }
}

impl TickLoop {
    /// The threads that do the loop's work, in words.
    pub fn workers(&self) -> String {
        match (&self.carriers[..], &self.of) {
            ([one, others @ ..], Workers::Pool(_) | Workers::Process | Workers::Function(_)) if !others.is_empty() => {
                format!("{} (thread {}) and {} more threads", one.name, one.tid, others.len())
            }
            ([one, ..], _) => format!("{} (thread {})", one.name, one.tid),
            ([], _) => "the server".to_owned(),
        }
    }
}

/// A loop with the starts and ends of its ticks, in nanoseconds.
struct LoopTicks {
    listed: TickLoop,
    ticks_ns: Vec<(u64, u64)>,
    threads: usize,
}

impl LoopTicks {
    /// Whether a view of more threads adds nothing to this loop, neither work nor requested times.
    fn adds_little(&self, wider: &LoopTicks) -> bool {
        self.listed.work_share >= ALONE * wider.listed.work_share
            && (self.listed.waits != Waits::Unseen || wider.listed.waits == Waits::Unseen)
    }

    /// Whether the ticks of this loop are parts of the ticks of another loop with more threads.
    fn is_part_of(&self, other: &LoopTicks) -> bool {
        if other.threads <= self.threads || other.listed.work_share <= self.listed.work_share {
            return false;
        }
        let within = |at_ns: &&u64| {
            let after = other.ticks_ns.partition_point(|(start_ns, _)| start_ns <= at_ns);
            after.checked_sub(1).is_some_and(|at| other.ticks_ns[at].1 >= **at_ns)
        };
        let begun: Vec<u64> = self.ticks_ns.iter().map(|(start_ns, _)| *start_ns).collect();
        begun.iter().filter(within).count() as f64 >= SAME_TICKS * begun.len() as f64
    }
}

/// Finds all loops of a stream, with the most work first. For each thread without a loop it returns the reason.
pub fn all(stream: &Stream) -> (Vec<TickLoop>, Vec<(u32, NoTick)>) {
    let mut found: Vec<LoopTicks> = Vec::new();
    let mut without = Vec::new();
    for view in views::all(stream) {
        match of_view(stream, &view) {
            Ok(loops) => found.extend(loops),
            Err(why) => {
                if let Workers::Thread(tid) = view.of {
                    without.push((tid, why));
                }
            }
        }
    }
    let mut kept = merged(found);
    kept.retain(|one| one.work_share >= LISTED_MIN);
    kept.sort_by(|one, other| other.work_share.total_cmp(&one.work_share));
    kept.truncate(LISTED_MAX);
    (kept, without)
}

/// The loop with a known rate, in the view with the most work. None if no view has such a loop.
pub fn of_rate(stream: &Stream, hz: f64) -> Option<TickLoop> {
    if !tempo::RATE_HZ.contains(&hz) {
        return None;
    }
    let found = views::all(stream).into_iter().filter_map(|view| {
        let beats = beats(&view.wakes);
        let (tempo, followed) = account::keeps(&beats, &tempo::at_rate(&beats, hz)?)?;
        Some(described(stream, &view, tempo, &followed))
    });
    merged(found.collect()).into_iter().max_by(|one, other| one.work_share.total_cmp(&other.work_share))
}

/// The loop whose ticks begin where this function is entered. None if the entries are not periodic.
pub fn of_function(stream: &Stream, name: &str) -> Option<TickLoop> {
    let view = views::view_of(stream, &Workers::Function(name.to_owned()))?;
    let beats = beats(&view.wakes);
    let (first, last) = (beats.first()?.at_ns, beats.last()?.at_ns);
    let mean_ns = last.saturating_sub(first) as f64 / (beats.len() as f64 - 1.0);
    let intervals: Vec<f64> = beats.windows(2).map(|pair| pair[1].at_ns.saturating_sub(pair[0].at_ns) as f64).collect();
    // The mean is right even if each interval is off. The median is right if some entries were not recorded.
    let periods_ns = [Some(mean_ns), median(&intervals)].into_iter().flatten().filter(|ns| ns.is_finite() && *ns > 0.0);
    let mut tempos = periods_ns.filter_map(|ns| tempo::at_rate(&beats, 1e9 / ns));
    // Each entry is a tick, however little work follows it.
    let tempo = Tempo { light_ns: 0.0, ..tempos.next()? };
    let (tempo, followed) = account::keeps(&beats, &tempo)?;
    Some(described(stream, &view, tempo, &followed).listed)
}

/// The loops in one view: the fastest loop that explains the view, and a slower loop with the heavier ticks.
fn of_view(stream: &Stream, view: &View) -> Result<Vec<LoopTicks>, NoTick> {
    if let [at] = view.threads[..] {
        let thread = &stream.threads[at];
        if thread.is_too_much {
            return Err(NoTick::TooMany);
        }
        if thread.switches > 0 && thread.ran_ns() == 0 {
            return Err(NoTick::NeverSleeps);
        }
    }
    let beats = beats(&view.wakes);
    let tempo = match tempo::find(&beats) {
        Ok(tempo) => tempo,
        // No rate fits the times of these wakes, but a rate may fit their work.
        Err(NoTick::NoPeriod) if view.holds_much_of(stream) => {
            if let Some((tempo, followed)) = heaviest(&beats) {
                return Ok(vec![described(stream, view, tempo, &followed)]);
            }
            work_rhythm_hz(&beats).and_then(|hz| tempo::at_rate(&beats, hz)).filter(is_clear).ok_or(NoTick::NoPeriod)?
        }
        Err(why) => return Err(why),
    };
    let (tempo, followed) = ticks(&beats, Some(&tempo))?;
    let mut fast = described(stream, view, tempo, &followed);
    let slow = slower_by_work(&beats, &tempo).or_else(|| {
        // A loop that waits until differing times is not a poll, even if some of its ticks do more work.
        if matches!(fast.listed.waits, Waits::ForItsTime | Waits::WokenBefore) {
            return None;
        }
        let ticks: Vec<Beat> = followed.slots.iter().filter_map(|slot| Some(beats[slot.beat()?])).collect();
        fast.listed.heavier_hz = work_rhythm_hz(&ticks);
        let is_poll = matches!(fast.listed.waits, Waits::PollsFor { .. });
        slower_at(&beats, &ticks, fast.listed.heavier_hz.filter(|_| is_poll)?)
    });
    let Some((tempo, followed)) = slow else { return Ok(vec![fast]) };
    let (mut slow, either) = match finer(&beats, &tempo, &followed) {
        Some(Finer { tempo, followed, is_sure: true }) => (described(stream, view, tempo, &followed), None),
        Some(finer) => {
            let finer = described(stream, view, finer.tempo, &finer.followed);
            (described(stream, view, tempo, &followed), Some(finer))
        }
        None => (described(stream, view, tempo, &followed), None),
    };
    (fast.listed.holds_hz, slow.listed.within_hz) = (Some(slow.listed.tempo.hz()), Some(fast.listed.tempo.hz()));
    // The work of the slower loop does not belong to the faster loop.
    let left = |all: f64, of_slow: f64| (all - of_slow).max(0.0);
    fast.listed.work_share = left(fast.listed.work_share, slow.listed.work_share);
    fast.listed.cpu_share = left(fast.listed.cpu_share, slow.listed.cpu_share);
    Ok([slow, fast].into_iter().chain(either).collect())
}

fn described(stream: &Stream, view: &View, tempo: Tempo, followed: &Followed) -> LoopTicks {
    let ticks: Vec<&Wake> = followed.slots.iter().filter_map(|slot| Some(&view.wakes[slot.beat()?])).collect();
    let work: Vec<f64> = ticks.iter().map(|wake| wake.on_cpu_ns as f64).collect();
    let sum_ns: f64 = work.iter().sum();
    let (carriers, waits) = match view.of {
        // The ticks of a function begin within wakes.
        Workers::Function(_) => {
            (carriers_of_entries(stream, view), waits(stream, view, &woken_for_entries(stream, view)))
        }
        _ => (carriers(stream, view, &ticks), waits(stream, view, &ticks)),
    };
    let at_times = between::at_times(&beats(&view.wakes), followed, tempo.spread_ns);
    let listed = TickLoop {
        of: view.of.clone(),
        ticks: ticks.len() as u64,
        work_share: sum_ns / (stream.ran_ns() as f64).max(1.0),
        cpu_share: sum_ns / stream.span_ns() as f64,
        tick_work_ns_p50: median(&work).unwrap_or(0.0) as u64,
        waits,
        carriers,
        tempo,
        within_hz: None,
        holds_hz: None,
        heavier_hz: None,
        at_times_hz: at_times.map(|times| tempo.hz() * times),
    };
    let ticks_ns = ticks.iter().map(|wake| (wake.start_ns, wake.end_ns)).collect();
    LoopTicks { listed, ticks_ns, threads: view.threads.len() }
}

/// The threads that did the work of these ticks.
fn carriers(stream: &Stream, view: &View, ticks: &[&Wake]) -> Vec<Carrier> {
    let in_ticks = |thread: &ThreadLog| {
        let (mut in_ticks_ns, mut tick) = (0_u64, 0);
        for wake in &thread.wakes {
            while ticks.get(tick).is_some_and(|tick| tick.end_ns < wake.start_ns) {
                tick += 1;
            }
            if ticks.get(tick).is_some_and(|tick| tick.start_ns <= wake.start_ns) {
                in_ticks_ns = in_ticks_ns.saturating_add(wake.on_cpu_ns);
            }
        }
        in_ticks_ns
    };
    carriers_by(stream, view, in_ticks)
}

/// The threads that did the work after the entries of a function.
fn carriers_of_entries(stream: &Stream, view: &View) -> Vec<Carrier> {
    carriers_by(stream, view, |thread| ticks_of(thread).iter().map(|(tick, _)| tick.on_cpu_ns).sum())
}

/// The wakes in which a function was entered, in order of time.
fn woken_for_entries<'s>(stream: &'s Stream, view: &View) -> Vec<&'s Wake> {
    let threads = view.threads.iter().map(|at| &stream.threads[*at]);
    let of = |thread: &'s ThreadLog| {
        let entered = |wake: &&Wake| {
            let next = thread.entries.partition_point(|entered_ns| *entered_ns < wake.start_ns);
            thread.entries.get(next).is_some_and(|entered_ns| *entered_ns <= wake.end_ns)
        };
        thread.wakes.iter().filter(entered)
    };
    let mut woken: Vec<&Wake> = threads.flat_map(of).collect();
    woken.sort_unstable_by_key(|wake| wake.start_ns);
    woken
}

fn carriers_by(stream: &Stream, view: &View, in_ticks_ns: impl Fn(&ThreadLog) -> u64) -> Vec<Carrier> {
    let mut carriers: Vec<Carrier> = Vec::new();
    let mut sum_ns = 0_u64;
    for thread in view.threads.iter().map(|at| &stream.threads[*at]) {
        let in_ticks_ns = in_ticks_ns(thread);
        sum_ns = sum_ns.saturating_add(in_ticks_ns);
        let (pid, tid, name) = (thread.pid, thread.tid, thread.name.clone());
        carriers.push(Carrier { pid, tid, name, share: in_ticks_ns as f64 });
    }
    carriers.iter_mut().for_each(|carrier| carrier.share /= (sum_ns as f64).max(1.0));
    carriers.retain(|carrier| carrier.share >= CARRIES_MIN);
    carriers.sort_by(|one, other| other.share.total_cmp(&one.share));
    carriers
}

/// How the threads that begin these ticks wait.
fn waits(stream: &Stream, view: &View, ticks: &[&Wake]) -> Waits {
    let mut polls: Vec<u64> = Vec::new();
    let (mut all, mut before) = (0, 0);
    let period_ns = ticks.last().zip(ticks.first()).map_or(0, |(last, first)| last.start_ns - first.start_ns)
        / (ticks.len() as u64).max(1);
    for thread in view.threads.iter().map(|at| &stream.threads[*at]) {
        let mut last = None;
        for asked in &thread.asked {
            let next = thread.wakes.partition_point(|wake| wake.start_ns <= asked.at_ns);
            let Some(wake) = thread.wakes.get(next) else { continue };
            // If one long sleep was observed several times, count the sleep once.
            if last.replace(next) == Some(next) {
                continue;
            }
            let after = ticks.partition_point(|tick| tick.start_ns <= wake.start_ns);
            let Some(tick) = after.checked_sub(1).map(|at| ticks[at]) else { continue };
            if wake.start_ns > tick.start_ns.saturating_add(views::JOIN_NS) {
                continue;
            }
            let slept_ns = next.checked_sub(1).map(|before| thread.wakes[before].end_ns);
            let for_ns = match asked.sleep.wait {
                Wait::For(ns) => Some(ns),
                // Round to 100 us, because the reference is a moment before the thread slept.
                Wait::Until(due_ns) => {
                    slept_ns.map(|slept_ns| (due_ns.saturating_sub(slept_ns) + ROUND_NS / 2) / ROUND_NS * ROUND_NS)
                }
                // The thread waits only for files, and none of these is a visible timer.
                Wait::Open if asked.sleep.call == Call::Poll => {
                    (all, before) = (all + 1, before + 1);
                    continue;
                }
                Wait::Open | Wait::Unknown => continue,
            };
            let due_ns = match asked.sleep.wait {
                Wait::Until(due_ns) => Some(due_ns),
                _ => slept_ns.zip(for_ns).map(|(slept_ns, for_ns)| slept_ns.saturating_add(for_ns)),
            };
            all += 1;
            // No timer fires early, so something else ended such a sleep. Other calls began slightly before the thread slept.
            let early_ns = if asked.sleep.call == Call::Sleep { EARLY_NS.min(period_ns / 2) } else { period_ns / 2 };
            before += usize::from(due_ns.is_some_and(|due_ns| wake.start_ns.saturating_add(early_ns) < due_ns));
            polls.extend(for_ns.filter(|_| asked.sleep.call != Call::Sleep));
        }
    }
    polls.sort_unstable();
    let most = polls.chunk_by(|one, other| one == other).max_by_key(|same| same.len());
    match most {
        _ if all < WAITS_MIN => Waits::Unseen,
        _ if before as f64 >= WOKEN_BEFORE * all as f64 => Waits::WokenBefore,
        Some(same) if same.len() as f64 >= SAME_WAIT * all as f64 => Waits::PollsFor { ns: same[0] },
        _ => Waits::ForItsTime,
    }
}

/// Merges the results of several views into one entry.
/// If a single thread does the work, the result is the view of that thread.
/// Otherwise the result is the view of the fewest threads that contain the work.
fn merged(mut found: Vec<LoopTicks>) -> Vec<TickLoop> {
    // Put views of fewer threads first: a view of more threads must add something.
    found.sort_by(|one, other| {
        one.threads.cmp(&other.threads).then(other.listed.work_share.total_cmp(&one.listed.work_share))
    });
    let mut kept: Vec<LoopTicks> = Vec::new();
    for one in found {
        let alone = one.listed.carriers.first().is_some_and(|most| most.share >= ALONE);
        match kept.iter().position(|before| is_same(before, &one)) {
            None => kept.push(one),
            Some(at) if alone || kept[at].adds_little(&one) => {}
            // Each thread with a share in this loop is a part of it.
            Some(_) => {
                kept.retain(|before| !is_same(before, &one));
                kept.push(one);
            }
        }
    }
    let parts: Vec<bool> = kept.iter().map(|one| kept.iter().any(|other| one.is_part_of(other))).collect();
    kept.into_iter().zip(parts).filter(|(_, is_part)| !is_part).map(|(found, _)| found.listed).collect()
}

fn is_same(one: &LoopTicks, other: &LoopTicks) -> bool {
    let (one_hz, other_hz) = (one.listed.tempo.hz(), other.listed.tempo.hz());
    // A chain that is followed through other work may also lose a tick now and then.
    let is_whose = |found: &LoopTicks| found.listed.carriers.first().map(|most| most.tid);
    let off_max = if is_whose(one) == is_whose(other) { SAME_RATE_OF_ONE } else { SAME_RATE };
    if (one_hz / other_hz - 1.0).abs() > off_max {
        return false;
    }
    let near_ns = (0.15 * one.listed.tempo.period_ns) as u64;
    let near = |(at_ns, _): &&(u64, u64)| {
        let next = other.ticks_ns.partition_point(|(begun_ns, _)| *begun_ns < at_ns.saturating_sub(near_ns));
        other.ticks_ns.get(next).is_some_and(|(begun_ns, _)| *begun_ns <= at_ns.saturating_add(near_ns))
    };
    one.ticks_ns.iter().filter(near).count() as f64 >= SAME_TICKS * one.ticks_ns.len() as f64
}
