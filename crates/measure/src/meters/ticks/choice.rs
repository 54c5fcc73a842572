//! `choose`: finds which loop of a server is its tick.
//! The tick is the loop that does the server's work, not the loop that wakes most often.
//! If two loops remain, or if the only loop may be a mere poll, the answer is a list.
//! The user then names one loop.

use serde::Serialize;

use super::function::TickFunction;
use super::loops::{self, TickLoop, Waits};
use super::stream::Stream;
use super::tempo::{NoTick, Pacing};

/// A tick contains at least this share of the server's CPU time.
const WORK_SHARE_MIN: f64 = 0.3;
/// If a larger share of the server's CPU time was not watched, a loop in the unwatched part may be the tick.
const UNWATCHED_MAX: f64 = 0.5;
/// A tick contains at least this many times the CPU time of any other loop.
const AHEAD: f64 = 2.5;
/// The minimum share of a loop's due times that must have a tick.
const PRESENCE_MIN: f64 = 0.6;
/// The minimum share for a loop of several threads that keeps neither fixed times nor a chain.
/// This minimum is higher, because unrelated bursts of work may cover every second tick.
const PRESENCE_LOOSE_MIN: f64 = 0.85;
/// A server that uses a smaller share of a CPU does so little that its tick cannot be distinguished from a housekeeping timer.
const BUSY_MIN: f64 = 0.001;
/// A loop is its poll if its period is at most this many times the poll time.
const OWN_POLL: f64 = 1.5;
/// A poll whose typical wake takes more work than this, in nanoseconds, does more than check for packets.
const POLL_WORK_MAX_NS: u64 = 250_000;
/// How far the rate that the user named may be from a loop's rate, because a chained loop is slower than its source code says.
/// If no loop was found, a search at the named rate is more precise.
const NAMED_OFF_MAX: f64 = 0.08;
const SOUGHT_OFF_MAX: f64 = 0.01;

/// The user's knowledge of the tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// The tick's rate in ticks per second.
    pub tick_hz: Option<f64>,
    /// The name of the thread that does the tick's work.
    pub thread: Option<String>,
    /// The function that the server enters once per tick.
    pub function: Option<TickFunction>,
}

/// Why the tick is unclear.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "why")]
pub enum Unclear {
    /// No activity repeats.
    #[error("{reason}")]
    NoLoop {
        /// Why the server's busiest thread has no tick.
        reason: NoTick,
    },
    /// Most of the server's CPU time is in threads that were not watched.
    #[error("threads that evenkeel could not watch used {:.0} % of its CPU time: it has too many, or they end at once", share * 100.0)]
    Unwatched {
        /// The share of the server's CPU time in these threads.
        share: f64,
    },
    /// Two loops contain much of the work.
    #[error("{first_hz:.2} Hz with {:.0} % of its CPU time and {second_hz:.2} Hz with {:.0} % both may be the tick", first_share * 100.0, second_share * 100.0)]
    Several {
        /// The rate of the loop with the most work.
        first_hz: f64,
        /// That loop's share of the server's CPU time.
        first_share: f64,
        /// The rate of the loop with the second most work.
        second_hz: f64,
        /// That loop's share of the server's CPU time.
        second_share: f64,
    },
    /// The loop does too little of the work.
    #[error("its loop of {hz:.2} Hz uses only {:.0} % of its CPU time, so most of its work is not a tick", work_share * 100.0)]
    LittleWork {
        /// The rate of the loop with the most work.
        hz: f64,
        /// That loop's share of the server's CPU time.
        work_share: f64,
    },
    /// The loop waits like a loop that checks for packets.
    #[error("its loop of {hz:.2} Hz polls for {:.0} ms each time and works for {:.0} us, which may not be a tick", *poll_ns as f64 / 1e6, *work_ns as f64 / 1e3)]
    Poll {
        /// The loop's rate.
        hz: f64,
        /// The time of each poll, in nanoseconds.
        poll_ns: u64,
        /// The work of a typical wake, in nanoseconds.
        work_ns: u64,
    },
    /// Some wakes of a polling loop do more work than the others.
    #[error("its loop of {hz:.2} Hz polls for {:.0} ms each time and does more work {heavier_hz:.2} times a second, which may be the tick", *poll_ns as f64 / 1e6)]
    HeavierWakes {
        /// The loop's rate.
        hz: f64,
        /// The time of each poll, in nanoseconds.
        poll_ns: u64,
        /// How often wakes do more work, per second.
        heavier_hz: f64,
    },
    /// The loop is woken from outside.
    #[error(
        "its loop of {hz:.2} Hz is woken from outside, by packets, another program or a signal: it requested a later time or none"
    )]
    Woken {
        /// The loop's rate.
        hz: f64,
    },
    /// Too many of the loop's due times passed without a tick.
    #[error("its loop of {hz:.2} Hz had a tick at only {:.0} % of the expected times", presence * 100.0)]
    Sparse {
        /// The loop's rate.
        hz: f64,
        /// The share of the loop's due times that had a tick.
        presence: f64,
    },
    /// The rate changes.
    #[error("it ticks at {hz:.2} Hz, and for some of the time at {other_hz:.2} Hz, so its rate changes")]
    RateChanges {
        /// The loop's rate.
        hz: f64,
        /// The rate for some of the time.
        other_hz: f64,
    },
    /// The server does almost nothing.
    #[error("it uses {:.3} % of a CPU, too little to distinguish a tick of {hz:.2} Hz from a timer", cpu_share * 100.0)]
    Idle {
        /// The rate of the loop with the most work.
        hz: f64,
        /// The server's use of a CPU, from 0 to 1.
        cpu_share: f64,
    },
    /// There is no loop with the named rate.
    #[error("it has no loop of {hz} Hz")]
    NoSuchRate {
        /// The rate.
        hz: f64,
    },
    /// No thread entered the named function.
    #[error("none of its threads entered {function}")]
    NotEntered {
        /// The function.
        function: String,
    },
    /// The named function is not entered periodically.
    #[error("it entered {function} {entries_hz:.1} times a second, at irregular times")]
    EnteredIrregularly {
        /// The function.
        function: String,
        /// How often the function was entered, per second.
        entries_hz: f64,
    },
}

/// The result of the choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// The loops, with the most work first.
    pub loops: Vec<TickLoop>,
    /// The index of the tick among the loops. None if the tick is unclear.
    pub tick: Option<usize>,
    /// Why the tick is unclear.
    pub unclear: Option<Unclear>,
}

impl Choice {
    /// The tick.
    ///
    /// # Errors
    /// Returns why the tick is unclear.
    pub fn tick(&self) -> Result<&TickLoop, Unclear> {
        let tick = self.tick.and_then(|at| self.loops.get(at));
        tick.ok_or_else(|| self.unclear.clone().unwrap_or(Unclear::NoLoop { reason: NoTick::FewWakes }))
    }
}

/// Chooses the tick among the loops of `stream`. `wanted` takes precedence.
pub fn choose(stream: &Stream, wanted: &Wanted) -> Choice {
    let only;
    let stream = match &wanted.thread {
        Some(name) => {
            let threads = stream.threads.iter().filter(|thread| thread.name == *name).cloned().collect();
            only = Stream { threads, from_ns: stream.from_ns, to_ns: stream.to_ns, ..Stream::default() };
            &only
        }
        None => stream,
    };
    let (mut loops, without) = loops::all(stream);
    if let Some(function) = &wanted.function {
        let found = entered(stream, &function.name).map(|tick| loops.insert(0, tick));
        return Choice { loops, tick: found.is_ok().then_some(0), unclear: found.err() };
    }
    let chosen = match wanted.tick_hz {
        Some(hz) => named(stream, &mut loops, hz),
        None if wanted.thread.is_some() && !loops.is_empty() => Ok(0),
        None => clear_tick(stream, &loops, &without),
    };
    let (tick, unclear) = chosen.map_or_else(|why| (None, Some(why)), |at| (Some(at), None));
    Choice { loops, tick, unclear }
}

/// The loop whose ticks begin where a thread enters the function that the user named.
fn entered(stream: &Stream, function: &str) -> Result<TickLoop, Unclear> {
    let entries: usize = stream.threads.iter().map(|thread| thread.entries.len()).sum();
    if entries == 0 {
        return Err(Unclear::NotEntered { function: function.to_owned() });
    }
    let entries_hz = entries as f64 / stream.span_ns() as f64 * 1e9;
    let irregular = || Unclear::EnteredIrregularly { function: function.to_owned(), entries_hz };
    loops::of_function(stream, function).ok_or_else(irregular)
}

/// The loop with the rate that the user named: a loop that was found, or the result of a search at that rate.
fn named(stream: &Stream, loops: &mut Vec<TickLoop>, hz: f64) -> Result<usize, Unclear> {
    let near = |one: &TickLoop, off_max: f64| (one.tempo.hz() / hz - 1.0).abs() <= off_max;
    for off_max in [SOUGHT_OFF_MAX, NAMED_OFF_MAX] {
        if let Some(at) = loops.iter().position(|one| near(one, off_max)) {
            return Ok(at);
        }
    }
    loops.extend(loops::of_rate(stream, hz).filter(|one| near(one, SOUGHT_OFF_MAX)));
    loops.iter().position(|one| near(one, SOUGHT_OFF_MAX)).ok_or(Unclear::NoSuchRate { hz })
}

/// The loop that is clearly the tick.
fn clear_tick(stream: &Stream, loops: &[TickLoop], without: &[(u32, NoTick)]) -> Result<usize, Unclear> {
    let share = stream.unwatched_cpu_share();
    if share > UNWATCHED_MAX {
        return Err(Unclear::Unwatched { share });
    }
    let Some(first) = loops.first() else {
        let busiest = stream.threads.iter().max_by_key(|thread| (thread.is_too_much, thread.ran_ns(), thread.switches));
        let of = |tid: u32| without.iter().find(|(without, _)| *without == tid).map(|(_, why)| *why);
        let never_sleeps = busiest.is_some_and(|thread| thread.switches > 0 && thread.ran_ns() == 0);
        let found = busiest.and_then(|thread| of(thread.tid));
        let reason = found.unwrap_or(if never_sleeps && stream.cpu_ns > stream.span_ns() / 2 {
            NoTick::NeverSleeps
        } else {
            NoTick::FewWakes
        });
        return Err(Unclear::NoLoop { reason });
    };
    let hz = first.tempo.hz();
    // A poll does not compete with `first` if its heavier wakes are the ticks of `first`.
    let is_its_poll = |other: &TickLoop| {
        other.holds_hz == Some(hz) && first.within_hz.is_some() && matches!(other.waits, Waits::PollsFor { .. })
    };
    let mut rivals = loops.iter().skip(1).filter(|other| !is_its_poll(other));
    let ahead = rivals.find(|other| other.work_share * AHEAD > first.work_share);
    if let Some(second) = ahead {
        return Err(Unclear::Several {
            first_hz: hz,
            first_share: first.work_share,
            second_hz: second.tempo.hz(),
            second_share: second.work_share,
        });
    }
    if first.work_share < WORK_SHARE_MIN {
        return Err(Unclear::LittleWork { hz, work_share: first.work_share });
    }
    let cpu_share = stream.ran_ns() as f64 / stream.span_ns() as f64;
    if cpu_share < BUSY_MIN {
        return Err(Unclear::Idle { hz, cpu_share });
    }
    if first.waits == Waits::WokenBefore {
        return Err(Unclear::Woken { hz });
    }
    let is_loose = first.carriers.len() > 1 && first.tempo.pacing == Pacing::Unknown;
    if first.tempo.presence < if is_loose { PRESENCE_LOOSE_MIN } else { PRESENCE_MIN } {
        return Err(Unclear::Sparse { hz, presence: first.tempo.presence });
    }
    if let Some(other_hz) = first.at_times_hz {
        return Err(Unclear::RateChanges { hz, other_hz });
    }
    more_than_a_poll(first)
}

/// Rejects a loop that may be a mere check for packets.
fn more_than_a_poll(first: &TickLoop) -> Result<usize, Unclear> {
    let (hz, work_ns) = (first.tempo.hz(), first.tick_work_ns_p50);
    match (first.waits, first.heavier_hz) {
        (Waits::PollsFor { .. }, _) if work_ns >= POLL_WORK_MAX_NS => Ok(0),
        (Waits::PollsFor { ns }, Some(heavier_hz)) => Err(Unclear::HeavierWakes { hz, poll_ns: ns, heavier_hz }),
        (Waits::PollsFor { ns }, None) if first.tempo.period_ns < OWN_POLL * ns as f64 => {
            Err(Unclear::Poll { hz, poll_ns: ns, work_ns })
        }
        // How the loop waits is unknown, and some of its wakes do more work than the others.
        (Waits::Unseen, Some(heavier_hz)) if work_ns < POLL_WORK_MAX_NS => {
            Err(Unclear::HeavierWakes { hz, poll_ns: first.tempo.period_ns as u64, heavier_hz })
        }
        _ => Ok(0),
    }
}
