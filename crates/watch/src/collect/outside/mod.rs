//! Watches the ticks of servers that do not report them.
//! The kernel's switch records show the loop of each server. evenkeel then follows the loop until the server ends.
//! The code is that of `evenkeel measure ticks`, but reads less often.

mod follower;
mod handover;
mod held_up;
#[cfg(test)]
mod tests;
mod woken;

use std::collections::BTreeMap;

use evenkeel_measure::meters::rates::{Kind, Unknown};
use evenkeel_measure::meters::ticks::choice::{Wanted, choose};
use evenkeel_measure::meters::ticks::loops::TickLoop;
use evenkeel_measure::meters::ticks::stream::Stream;
use evenkeel_measure::meters::ticks::threads::{THREADS_MAX, tasks};
use evenkeel_measure::meters::ticks::views::Workers;
use evenkeel_measure::meters::ticks::watcher::{Watched, Watcher};
use evenkeel_sys::{Errno, clock};

use super::read::{absent, odd};
use crate::sample::{Counted, OutsideSample};
use follower::Follower;
use handover::Handover;

/// How long to watch a server to find its loop: the first attempt, and the longest attempt.
const LOOK_NS: u64 = 3_000_000_000;
const LOOK_MOST_NS: u64 = 9_000_000_000;
/// The maximum number of wakes that are recorded to find a loop, which take some megabytes.
const WAKES_MAX: usize = 100_000;
/// The maximum number of servers in which a loop is searched for at the same time. Each search takes some megabytes.
const LOOKING_MAX: usize = 2;
/// The maximum number of servers whose loop is followed.
const FOLLOWED_MAX: usize = 16;
/// How long to wait before the next search: if the loop was lost, if the first search found none, and the maximum.
const LOST_REST_NS: u64 = 5_000_000_000;
const REST_NS: u64 = 30_000_000_000;
const REST_NS_MAX: u64 = 600_000_000_000;

/// The servers whose ticks are watched from outside.
#[derive(Debug, Default)]
pub(super) struct Outside {
    late_after_ns: Option<u64>,
    of: BTreeMap<u32, OneServer>,
}

/// A process. Its start time distinguishes it from a later process with the same number.
#[derive(Debug)]
struct OneServer {
    start_ticks: u64,
    state: State,
    /// The number of searches that found no loop.
    failures: u32,
}

#[derive(Debug)]
enum State {
    /// Waits until searches in other processes have ended.
    Waiting,
    Looking {
        watcher: Watcher,
        seen: Stream,
        /// The length of records, in nanoseconds, from which the tick's thread is chosen.
        choose_at_ns: u64,
    },
    Following {
        watcher: Watcher,
        /// The watcher that found the loop. None after the handover.
        handover: Option<Handover>,
        follower: Box<Follower>,
    },
    Resting {
        until_ns: u64,
        why: Unknown,
    },
}

impl Outside {
    pub(super) fn new(late_after_ns: Option<u64>) -> Outside {
        Outside { late_after_ns, of: BTreeMap::new() }
    }

    /// The counts of a process's ticks up to now.
    pub(super) fn read(&mut self, pid: u32, start_ticks: u64, now_ns: u64) -> Counted<OutsideSample> {
        if self.of.get(&pid).is_some_and(|one| one.start_ticks != start_ticks) {
            self.of.remove(&pid);
        }
        let looking = self.count(|state| matches!(state, State::Looking { .. }));
        let followed = self.count(|state| matches!(state, State::Following { .. }));
        let late_after_ns = self.late_after_ns;
        let one = self.of.entry(pid).or_insert(OneServer { start_ticks, state: State::Waiting, failures: 0 });
        if let State::Resting { until_ns, why } = &one.state {
            if now_ns < *until_ns {
                return Err(why.clone());
            }
            one.state = State::Waiting;
        }
        if let State::Waiting = one.state {
            if followed.saturating_add(looking) >= FOLLOWED_MAX {
                return Err(absent(format!("the ticks of {FOLLOWED_MAX} servers are watched already")));
            }
            if looking >= LOOKING_MAX {
                return Err(absent("its tick is sought after that of other servers"));
            }
            match Watcher::start(&Watched::Growing(tasks(pid)), None) {
                Ok(watcher) => one.state = State::Looking { watcher, seen: Stream::default(), choose_at_ns: LOOK_NS },
                Err(errno) => return Err(one.rest(now_ns, refused(errno))),
            }
            return Err(absent("its tick is being sought"));
        }
        one.look(pid, late_after_ns);
        one.follow(now_ns)
    }

    /// Whether a search for a tick in this process found none.
    pub(super) fn is_tickless(&self, pid: u32) -> bool {
        self.of.get(&pid).is_some_and(|one| matches!(one.state, State::Resting { .. }) && one.failures > 0)
    }

    /// Drops all processes that are not watched any more.
    pub(super) fn retain(&mut self, is_watched: impl Fn(u32) -> bool) {
        self.of.retain(|pid, _| is_watched(*pid));
    }

    fn count(&self, is: impl Fn(&State) -> bool) -> usize {
        self.of.values().filter(|one| is(&one.state)).count()
    }
}

impl OneServer {
    /// Pauses the search in this process. Each failure doubles the pause.
    fn rest(&mut self, now_ns: u64, why: Unknown) -> Unknown {
        let rest_ns = REST_NS.saturating_mul(1 << self.failures.min(10)).min(REST_NS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Resting { until_ns: now_ns.saturating_add(rest_ns), why: why.clone() };
        why
    }

    /// Chooses the loop, if there are enough records.
    fn look(&mut self, pid: u32, late_after_ns: Option<u64>) {
        let State::Looking { watcher, seen, choose_at_ns } = &mut self.state else { return };
        let next = watcher.go_on();
        *seen = if seen.to_ns == 0 { next } else { std::mem::take(seen).joined(next) };
        let wakes: usize = seen.threads.iter().map(|thread| thread.wakes.len()).sum();
        let is_last = seen.span_ns() >= LOOK_MOST_NS || wakes >= WAKES_MAX;
        if seen.span_ns() < *choose_at_ns && !is_last {
            return;
        }
        // The choice takes some milliseconds, so it is not made with each sample.
        *choose_at_ns = choose_at_ns.saturating_add(LOOK_NS);
        let choice = choose(seen, &Wanted::default());
        let now_ns = clock::monotonic_ns();
        match choice.tick() {
            Ok(tick) => match Watcher::start_slow(&threads_of(pid, tick)) {
                Ok(slow) => self.hand_over(slow, tick.clone(), late_after_ns),
                Err(errno) => drop(self.rest(now_ns, refused(errno))),
            },
            Err(why) if is_last => drop(self.rest(now_ns, odd(format!("it shows no clear tick: {why}")))),
            Err(_) => {}
        }
    }

    /// Starts the slow watcher, which follows the loop that the first watcher found.
    fn hand_over(&mut self, slow: Watcher, tick: TickLoop, late_after_ns: Option<u64>) {
        let at_ns = clock::monotonic_ns();
        let State::Looking { watcher, seen, .. } = std::mem::replace(&mut self.state, State::Waiting) else { return };
        // Only the first watcher has the records since the last call.
        let (handover, until_now) = Handover::begin(watcher, at_ns);
        let follower = Follower::new(tick, seen.joined(until_now), late_after_ns, clock::realtime_ns());
        self.state = State::Following { watcher: slow, handover: Some(handover), follower: Box::new(follower) };
    }

    /// Reads new records, and returns the counts so far.
    fn follow(&mut self, now_ns: u64) -> Counted<OutsideSample> {
        let lost = match &mut self.state {
            State::Waiting => return Err(absent("its tick is not sought yet")),
            State::Resting { why, .. } => return Err(why.clone()),
            State::Looking { seen, .. } => {
                let s = seen.span_ns() / 1_000_000_000;
                return Err(absent(format!("evenkeel has searched for its tick for {s} s so far")));
            }
            State::Following { watcher, handover, follower } => {
                let slow = watcher.go_on();
                let next = match handover {
                    Some(handover) => handover.join(slow),
                    None => slow,
                };
                // Check the end of the handover after the read. So the first watcher is read once more after the handover's end.
                handover.take_if(|handover| handover.is_over(now_ns));
                let is_too_much = next.threads.iter().any(|thread| thread.is_too_much);
                match follower.take(next) {
                    Ok(counted) if !is_too_much => {
                        self.failures = 0;
                        return Ok(counted.clone());
                    }
                    Ok(_) => "its thread wakes far more often than a tick does".to_owned(),
                    Err(why) => format!("its tick was lost: {why}"),
                }
            }
        };
        let why = odd(lost);
        self.state = State::Resting { until_ns: now_ns.saturating_add(LOST_REST_NS), why: why.clone() };
        Err(why)
    }
}

/// The threads that do a loop's ticks. If they are a pool, the busiest come first.
fn threads_of(pid: u32, tick: &TickLoop) -> Watched {
    match tick.of {
        Workers::Thread(tid) => Watched::Threads(vec![(pid, tid)]),
        Workers::Pool(_) | Workers::Process | Workers::Function(_) => {
            let mut threads = tasks(pid);
            threads.sort_by_key(|(_, tid)| !tick.carriers.iter().any(|carrier| carrier.tid == *tid));
            threads.truncate(THREADS_MAX);
            Watched::Growing(threads)
        }
    }
}

fn refused(errno: Errno) -> Unknown {
    let kind = if errno.is_denial() { Kind::Denied } else { Kind::Odd };
    let why = match errno {
        // The kernel refuses a user without the privilege with EACCES.
        Errno::PERM => {
            format!("watch its threads: {errno}: a container or the limit of locked memory (ulimit -l) forbids it")
        }
        _ => format!("watch its threads: {errno}"),
    };
    Unknown { unknown: kind, why }
}
