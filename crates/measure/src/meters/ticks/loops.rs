//! `TickLoop`: everything in a server that repeats by itself, with its rate, its share of the server's CPU time, the threads that do its
//! work, and what it sleeps in. Which of them is the tick is for [`choice`](super::choice) to say.

use std::fmt;

use evenkeel_hostfs::asleep::{Call, Wait};
use evenkeel_stats::{median, quantile};
use serde::Serialize;

use super::account::{self, beats, ticks};
use super::entries::ticks_of;
use super::finer::{Finer, HEAVIER, finer};
use super::stream::{Stream, ThreadLog};
use super::tempo::{self, NoTick, Tempo};
use super::track::{Beat, Followed};
use super::views::{self, View, Workers};
use super::wakes::Wake;

/// Two loops are one where their rates differ by less than this share,
const SAME_RATE: f64 = 0.005;
/// or this share, where one thread does most of the work of both,
const SAME_RATE_OF_ONE: f64 = 0.03;
/// and so much of the ticks of the one that has fewer threads begins with those of the other.
const SAME_TICKS: f64 = 0.7;
/// A thread that does so much of a loop's work does it alone: what others do meanwhile is their own.
const ALONE: f64 = 0.85;
/// Threads with less of a loop's work than this are not of it.
const CARRIES_MIN: f64 = 0.02;
/// So much of the sleeps before a loop's ticks that were seen must have asked for one and the same time, for that to be how it waits.
const SAME_WAIT: f64 = 0.8;
const WAITS_MIN: usize = 4;
/// A loop that is woken from outside shares its wait with a timer of its own: some of its wakes come just before that.
const WOKEN_BEFORE: f64 = 0.5;
const ROUND_NS: u64 = 100_000;
/// A sleep that ended so long before its time was not ended by its timer.
const EARLY_NS: u64 = 1_000_000;
/// A rate that only the works of wakes show must have a tick at so many of its times.
const CLEAR_PRESENCE: f64 = 0.85;
/// Ticks whose works are searched for a slower rhythm, at the most; and how clear it must be.
const RHYTHM_TICKS_MAX: usize = 1024;
const RHYTHM_MIN: f64 = 8.0;
const RATE_MIN_HZ: f64 = 1.0;
/// A loop has less than this share of the server's CPU time: it is not listed. What paces a tick may itself do next to nothing.
const LISTED_MIN: f64 = 0.0005;
const LISTED_MAX: usize = 8;

/// How the threads of a loop wait for its next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// For the same time in each call that a file or a packet can end: a loop that polls.
    PollsFor {
        /// The time, in nanoseconds.
        ns: u64,
    },
    /// Until a time of its own.
    ForItsTime,
    /// Until a time that is far away, or until a file is ready: packets, another program or a signal wake it before.
    WokenBefore,
    /// That was not seen.
    Unseen,
}

/// What a thread does of a loop's work.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Carrier {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its share of the work that is done in the loop's ticks.
    pub share: f64,
}

/// Something that repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickLoop {
    /// In whose work it was found.
    pub of: Workers,
    /// Its period, and how well it keeps it.
    pub tempo: Tempo,
    /// Its ticks that were seen.
    pub ticks: u64,
    /// The share of the server's CPU time that its ticks hold.
    pub work_share: f64,
    /// What its ticks take of a CPU, from 0 to 1.
    pub cpu_share: f64,
    /// Half of its ticks are less work than this, in nanoseconds.
    pub tick_work_ns_p50: u64,
    /// Who does its work, the most first.
    pub carriers: Vec<Carrier>,
    /// How it waits.
    pub waits: Waits,
    /// The rate of a faster loop of the same threads that it is a part of: ticks begin when that one comes by.
    pub within_hz: Option<f64>,
    /// The rate of a slower loop that holds the heavier of its ticks.
    pub holds_hz: Option<f64>,
    /// How often its ticks are heavier than the others, a second, where they can't be told apart one by one.
    pub heavier_hz: Option<f64>,
}

impl fmt::Display for TickLoop {
    /// Its rate, its share of the work, and who does that.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hz, share) = (self.tempo.hz(), self.work_share * 100.0);
        write!(f, "{hz:.2} Hz with {share:.0} % of its CPU time, by {}", self.workers())
    }
}

impl TickLoop {
    /// The threads that do its work, in words.
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

/// A loop with the beginnings and ends of its ticks, in nanoseconds.
struct LoopTicks {
    listed: TickLoop,
    ticks_ns: Vec<(u64, u64)>,
    threads: usize,
}

impl LoopTicks {
    /// Whether what more threads show adds nothing to this: neither work nor the times that were asked for.
    fn adds_little(&self, wider: &LoopTicks) -> bool {
        self.listed.work_share >= ALONE * wider.listed.work_share
            && (self.listed.waits != Waits::Unseen || wider.listed.waits == Waits::Unseen)
    }

    /// Whether its ticks are parts of those of another loop, which more threads carry.
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

/// All loops of a stream, that with the most work first; and for each thread that has none why it has none.
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

/// The loop of a rate that is known, in the view where it holds the most work; none if there is none.
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

/// The loop whose ticks begin where this function is entered; none where that is at no set times.
pub fn of_function(stream: &Stream, name: &str) -> Option<TickLoop> {
    let view = views::of(stream, &Workers::Function(name.to_owned()))?;
    let beats = beats(&view.wakes);
    let (first, last) = (beats.first()?.at_ns, beats.last()?.at_ns);
    let mean_ns = last.saturating_sub(first) as f64 / (beats.len() as f64 - 1.0);
    let intervals: Vec<f64> = beats.windows(2).map(|pair| pair[1].at_ns.saturating_sub(pair[0].at_ns) as f64).collect();
    // The mean is right however far each is off; the median where some were not seen.
    let periods_ns = [Some(mean_ns), median(&intervals)].into_iter().flatten().filter(|ns| ns.is_finite() && *ns > 0.0);
    let mut tempos = periods_ns.filter_map(|ns| tempo::at_rate(&beats, 1e9 / ns));
    // Each entry is a tick, however little is done in it.
    let tempo = Tempo { light_ns: 0.0, ..tempos.next()? };
    let (tempo, followed) = account::keeps(&beats, &tempo)?;
    Some(described(stream, &view, tempo, &followed).listed)
}

/// The loops in one view: the fastest that explains it, and a slower one of its heavier ticks.
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
        // No rate fits the times of its wakes; one may fit their works.
        Err(NoTick::NoPeriod) if view.holds_much_of(stream) => {
            work_rhythm_hz(&beats).and_then(|hz| tempo::at_rate(&beats, hz)).filter(is_clear).ok_or(NoTick::NoPeriod)?
        }
        Err(why) => return Err(why),
    };
    let (tempo, followed) = ticks(&beats, Some(&tempo))?;
    let mut fast = described(stream, view, tempo, &followed);
    let slow = slower_by_work(&beats, &tempo).or_else(|| {
        // What waits until a time of its own is no poll, whatever some of its ticks do more.
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
    // What the slower one does is not done by the faster.
    let left = |all: f64, of_slow: f64| (all - of_slow).max(0.0);
    fast.listed.work_share = left(fast.listed.work_share, slow.listed.work_share);
    fast.listed.cpu_share = left(fast.listed.cpu_share, slow.listed.cpu_share);
    Ok([slow, fast].into_iter().chain(either).collect())
}

fn is_clear(tempo: &Tempo) -> bool {
    tempo.presence >= CLEAR_PRESENCE
}

/// A slower loop of a known rate among the wakes of a poll, whose ticks are heavier than the rest of them.
fn slower_at(beats: &[Beat], polls: &[Beat], hz: f64) -> Option<(Tempo, Followed)> {
    let tempo = tempo::at_rate(beats, hz).filter(is_clear)?;
    let (tempo, followed) = account::keeps(beats, &tempo)?;
    let ticks: Vec<u64> = followed.slots.iter().filter_map(|slot| Some(beats[slot.beat()?].at_ns)).collect();
    let work = |is_tick: bool| {
        let of = polls.iter().filter(|poll| ticks.binary_search(&poll.at_ns).is_ok() == is_tick);
        median(&of.map(|poll| poll.weight).collect::<Vec<_>>())
    };
    (work(true)? >= HEAVIER * work(false)?).then_some((tempo, followed))
}

/// A slower loop that holds the heavier of the ticks, as in a server that polls four times for each of its ticks.
fn slower_by_work(beats: &[Beat], fast: &Tempo) -> Option<(Tempo, Followed)> {
    let threshold = work_threshold(beats)?;
    let heavy: Vec<Beat> = beats.iter().filter(|beat| beat.weight >= threshold).copied().collect();
    let slow = tempo::find(&heavy).ok()?;
    let slow = Tempo { light_ns: slow.light_ns.max(threshold), ..slow };
    if slow.hz() > 0.8 * fast.hz() {
        return None;
    }
    ticks(beats, Some(&slow)).ok().filter(|(tempo, _)| (tempo.hz() / slow.hz() - 1.0).abs() < SAME_RATE)
}

/// How often some ticks are heavier than the others, by the spectrum of their works: a server that looks every 5 ms whether it is time, and
/// has little to do where it is. Half of the ticks' rate is not looked for: a server that does something with every second tick.
fn work_rhythm_hz(ticks: &[Beat]) -> Option<f64> {
    let ticks = &ticks[ticks.len().saturating_sub(RHYTHM_TICKS_MAX)..];
    let (first, last) = (ticks.first()?, ticks.last()?);
    let span_s = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
    let mut logs: Vec<f64> = ticks.iter().map(|tick| tick.weight.max(1.0).ln()).collect();
    let (low, high) = (quantile(&logs, 0.02)?, quantile(&logs, 0.98)?);
    logs.iter_mut().for_each(|log| *log = log.clamp(low, high));
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let power: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let (from_hz, to_hz) = (RATE_MIN_HZ.max(8.0 / span_s), 0.45 * ticks.len() as f64 / span_s);
    let step_hz = 0.25 / span_s;
    let count = ((to_hz - from_hz) / step_hz).max(0.0) as usize;
    let height = |hz: f64| {
        let (mut cos, mut sin) = (0.0, 0.0);
        for (tick, log) in ticks.iter().zip(&logs) {
            let turn = (hz * (tick.at_ns - first.at_ns) as f64 / 1e9).fract() * std::f64::consts::TAU;
            cos += (log - mean) * turn.cos();
            sin += (log - mean) * turn.sin();
        }
        (cos * cos + sin * sin) / power
    };
    let heights = (0..count).map(|at| from_hz + at as f64 * step_hz).map(|hz| (height(hz), hz));
    let (highest, hz) = heights.max_by(|one, other| one.0.total_cmp(&other.0))?;
    // In theory noise alone is above this in one of exp(RHYTHM_MIN) loops, however many rates are tried.
    (power > 0.0 && highest > (count as f64).ln() + RHYTHM_MIN).then_some(hz)
}

/// Where the works of wakes fall apart into light and heavy ones, by the split that leaves the least spread of their logarithms within both.
fn work_threshold(beats: &[Beat]) -> Option<f64> {
    let mut logs: Vec<f64> = beats.iter().filter(|beat| beat.weight > 0.0).map(|beat| beat.weight.ln()).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let (count, sum) = (logs.len() as f64, logs.iter().sum::<f64>());
    let mean = sum / count;
    let (mut best, mut below) = ((0.0, 0), 0.0);
    for (at, log) in logs.iter().enumerate().take(logs.len().saturating_sub(1)) {
        below += log;
        let light = (at + 1) as f64;
        let apart = below / light - (sum - below) / (count - light);
        let between = light * (count - light) / (count * count) * apart * apart;
        if between > best.0 {
            best = (between, at + 1);
        }
    }
    let (between, split) = best;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count.max(1.0);
    let (light, heavy) = logs.split_at_checked(split)?;
    let ratio = (median(heavy)? - median(light)?).exp();
    let is_apart = between >= 0.6 * variance && ratio >= HEAVIER && heavy.len() >= tempo::TICKS_MIN;
    is_apart.then(|| ((light[light.len() - 1] + heavy[0]) / 2.0).exp())
}

fn described(stream: &Stream, view: &View, tempo: Tempo, followed: &Followed) -> LoopTicks {
    let ticks: Vec<&Wake> = followed.slots.iter().filter_map(|slot| Some(&view.wakes[slot.beat()?])).collect();
    let work: Vec<f64> = ticks.iter().map(|wake| wake.on_cpu_ns as f64).collect();
    let sum_ns: f64 = work.iter().sum();
    let (carriers, waits) = match view.of {
        // Its ticks begin within wakes.
        Workers::Function(_) => {
            (carriers_of_entries(stream, view), waits(stream, view, &woken_for_entries(stream, view)))
        }
        _ => (carriers(stream, view, &ticks), waits(stream, view, &ticks)),
    };
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
    };
    let ticks_ns = ticks.iter().map(|wake| (wake.start_ns, wake.end_ns)).collect();
    LoopTicks { listed, ticks_ns, threads: view.threads.len() }
}

/// Who did the work of these ticks.
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

/// Who did the work behind the entries of a function.
fn carriers_of_entries(stream: &Stream, view: &View) -> Vec<Carrier> {
    carriers_by(stream, view, |thread| ticks_of(thread).iter().map(|(tick, _)| tick.on_cpu_ns).sum())
}

/// The wakes in which a function was entered, in the order of time.
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

/// How the threads wait that begin these ticks.
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
            // A long sleep that was seen several times is one.
            if last.replace(next) == Some(next) {
                continue;
            }
            let after = ticks.partition_point(|tick| tick.start_ns <= wake.start_ns);
            let Some(tick) = after.checked_sub(1).map(|at| ticks[at]) else { continue };
            if wake.start_ns > tick.start_ns.saturating_add(views::JOIN_NS) {
                continue;
            }
            let slept_ns = next.checked_sub(1).map(|before| thread.wakes[before].end_ns);
            let for_ns = match asked.asleep.wait {
                Wait::For(ns) => Some(ns),
                // To the nearest 100 us: what it was counted from is a moment before the thread slept.
                Wait::Until(due_ns) => {
                    slept_ns.map(|slept_ns| (due_ns.saturating_sub(slept_ns) + ROUND_NS / 2) / ROUND_NS * ROUND_NS)
                }
                // It waits for files alone, and no timer that could be seen is one of them.
                Wait::Open if asked.asleep.call == Call::Poll => {
                    (all, before) = (all + 1, before + 1);
                    continue;
                }
                Wait::Open | Wait::Unknown => continue,
            };
            let due_ns = match asked.asleep.wait {
                Wait::Until(due_ns) => Some(due_ns),
                _ => slept_ns.zip(for_ns).map(|(slept_ns, for_ns)| slept_ns.saturating_add(for_ns)),
            };
            all += 1;
            // No timer fires early: what ends such a sleep before is something else. Other calls were begun a little before the thread slept.
            let early_ns = if asked.asleep.call == Call::Sleep { EARLY_NS.min(period_ns / 2) } else { period_ns / 2 };
            before += usize::from(due_ns.is_some_and(|due_ns| wake.start_ns.saturating_add(early_ns) < due_ns));
            polls.extend(for_ns.filter(|_| asked.asleep.call != Call::Sleep));
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

/// One entry for what was found in several views: that of the one thread that does the work, else that of the fewest threads that hold it.
fn merged(mut found: Vec<LoopTicks>) -> Vec<TickLoop> {
    // Fewer threads first; what more threads show must add to it.
    found.sort_by(|one, other| {
        one.threads.cmp(&other.threads).then(other.listed.work_share.total_cmp(&one.listed.work_share))
    });
    let mut kept: Vec<LoopTicks> = Vec::new();
    for one in found {
        let alone = one.listed.carriers.first().is_some_and(|most| most.share >= ALONE);
        match kept.iter().position(|before| is_same(before, &one)) {
            None => kept.push(one),
            Some(at) if alone || kept[at].adds_little(&one) => {}
            // Each thread that shares in it is a part of this one.
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
    // A chain that is followed through other work too loses a tick now and then.
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
