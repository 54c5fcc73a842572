//! Which of a server's threads keeps its tick: the one that works most among those whose wakes keep time.

use std::collections::BTreeMap;
use std::fs;

use evenkeel_sys::schedstat::parse_schedstat;
use evenkeel_sys::{Errno, clock, thread};
use serde::Serialize;

use super::account::beats;
use super::tempo::{self, NoTick, Tempo};
use super::watcher::{Watcher, Window};
use crate::{MeterError, Watch};

/// Threads that are looked at, at the most: some 10 us each.
const THREADS_MAX: usize = 20_000;
/// How many of the busiest are watched.
const WATCHED_MAX: usize = 8;
/// How long the threads' CPU time is compared.
const COMPARED_NS: u64 = 700_000_000;
/// How long the busiest are watched: 16 ticks of 8 a second. It goes on for longer where nothing was found.
const WATCHED_NS: u64 = 2_000_000_000;
const WATCHED_LONGER_NS: u64 = 8_000_000_000;
const STEP_NS: u64 = 50_000_000;

/// A thread of the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// What it took of a CPU, from 0 to 1.
    pub cpu_share: f64,
    /// How often it was given a CPU, a second.
    pub turns_per_s: f64,
    /// What its wakes keep; none if nothing, or if it was not watched.
    pub tempo: Option<Tempo>,
    /// Why not, where it was watched.
    pub why: Option<NoTick>,
}

/// What a look at a server's threads gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Look {
    /// The one that keeps the tick; the busiest if none does.
    pub chosen: Candidate,
    /// The others that were watched, the busiest first.
    pub others: Vec<Candidate>,
    /// Threads that the server has.
    pub threads: usize,
}

#[derive(Clone, Copy, Debug)]
struct Ran {
    pid: u32,
    ns: u64,
    turns: u64,
}

/// Chooses among all threads of `pids`; among those that are called `name`, where one is given.
///
/// # Errors
/// If none of the processes is there, none of their threads has that name, or they may not be watched.
pub fn look(pids: &[u32], name: Option<&str>, watch: &Watch<'_>) -> Result<Look, MeterError> {
    let what = format!("watch the threads of {}", named(pids));
    watch.progress(0.0, "comparing the server's threads");
    let before = all(pids);
    if before.is_empty() {
        return Err(MeterError::not_possible(
            what,
            "there is no such process; was it started, and is this its number?",
        ));
    }
    let started_ns = clock::monotonic_ns();
    sleep(COMPARED_NS, watch);
    let after = all(pids);
    let span_ns = (clock::monotonic_ns() - started_ns).max(1) as f64;
    let threads = after.len();
    let mut candidates: Vec<Candidate> = Vec::new();
    for (tid, ran) in after {
        let Some(first) = before.get(&tid) else { continue };
        candidates.push(Candidate {
            pid: ran.pid,
            tid,
            name: String::new(),
            cpu_share: ran.ns.saturating_sub(first.ns) as f64 / span_ns,
            turns_per_s: ran.turns.saturating_sub(first.turns) as f64 / span_ns * 1e9,
            tempo: None,
            why: None,
        });
    }
    candidates.sort_by(|one, other| other.cpu_share.total_cmp(&one.cpu_share).then(one.tid.cmp(&other.tid)));
    match name {
        None => candidates.truncate(WATCHED_MAX),
        Some(name) => {
            let known: Vec<String> =
                candidates.iter().take(WATCHED_MAX).filter_map(|one| thread::name_of(one.tid)).collect();
            candidates.retain(|one| thread::name_of(one.tid).as_deref() == Some(name));
            candidates.truncate(WATCHED_MAX);
            if candidates.is_empty() {
                let known = known.join(", ");
                return Err(MeterError::wrong_use(
                    what,
                    format!("no thread is called {name}; the busiest are {known}"),
                ));
            }
        }
    }
    for candidate in &mut candidates {
        candidate.name = thread::name_of(candidate.tid).unwrap_or_default();
    }
    watched(&mut candidates, watch).map_err(|errno| refused(&what, errno))?;
    choose(candidates, threads).ok_or_else(|| MeterError::not_possible(what, "it has ended"))
}

/// Watches all of them at once, a short while at first.
fn watched(candidates: &mut Vec<Candidate>, watch: &Watch<'_>) -> Result<(), Errno> {
    let mut watchers = Vec::new();
    let mut refusal = None;
    candidates.retain(|candidate| match Watcher::of(candidate.tid) {
        Ok(watcher) => {
            watchers.push(watcher);
            true
        }
        // One that ended meanwhile is no loss.
        Err(errno) => {
            refusal = refusal.or((errno != Errno::SRCH).then_some(errno));
            false
        }
    });
    if let Some(errno) = refusal.filter(|_| candidates.is_empty()) {
        return Err(errno);
    }
    let mut seen: Vec<Option<Window>> = candidates.iter().map(|_| None).collect();
    for (share, for_ns) in [(0.3, WATCHED_NS), (0.5, WATCHED_LONGER_NS - WATCHED_NS)] {
        watch.progress(share, "looking for the tick");
        sleep(for_ns, watch);
        for ((candidate, watcher), seen) in candidates.iter_mut().zip(&mut watchers).zip(&mut seen) {
            let window = joined(seen.take(), watcher.end());
            match judged(&window) {
                Ok(tempo) => (candidate.tempo, candidate.why) = (Some(tempo), None),
                Err(why) => candidate.why = Some(why),
            }
            *seen = Some(window);
        }
        let is_found = candidates.iter().any(|candidate| candidate.tempo.is_some());
        let may_be = candidates
            .iter()
            .any(|candidate| candidate.why == Some(NoTick::FewWakes) || candidate.why == Some(NoTick::NoPeriod));
        if is_found || !may_be || watch.stopped() {
            break;
        }
    }
    Ok(())
}

/// What the wakes of a stretch say.
fn judged(window: &Window) -> Result<Tempo, NoTick> {
    if window.is_too_much {
        return Err(NoTick::TooMany);
    }
    let ran_ns: u64 = window.wakes.iter().map(|wake| wake.on_cpu_ns).sum();
    match tempo::find(&beats(&window.wakes)) {
        Err(NoTick::FewWakes) if window.switches > 0 && ran_ns == 0 => Err(NoTick::NeverSleeps),
        said => said,
    }
}

fn joined(before: Option<Window>, now: Window) -> Window {
    let Some(before) = before else { return now };
    let wakes = before.wakes.into_iter().chain(now.wakes).collect();
    Window {
        from_ns: before.from_ns,
        wakes,
        switches: before.switches + now.switches,
        is_too_much: before.is_too_much || now.is_too_much,
        ..now
    }
}

/// Of those that keep time the one that works most in its ticks; else the busiest.
fn choose(mut candidates: Vec<Candidate>, threads: usize) -> Option<Look> {
    if candidates.is_empty() {
        return None;
    }
    let in_ticks = |candidate: &Candidate| Some(candidate.cpu_share * candidate.tempo?.work_share);
    let with_tick = candidates.iter().enumerate().filter_map(|(at, candidate)| Some((at, in_ticks(candidate)?)));
    let most = with_tick.max_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(0, |(at, _)| at);
    let chosen = candidates.remove(most);
    Some(Look { chosen, others: candidates, threads })
}

fn refused(what: &str, errno: Errno) -> MeterError {
    match errno.is_denial() {
        true => MeterError::refused(format!("{what} (it takes root, or CAP_PERFMON)"), errno),
        false => MeterError::refused(what, errno),
    }
}

fn sleep(for_ns: u64, watch: &Watch<'_>) {
    let due_ns = clock::monotonic_ns() + for_ns;
    while clock::monotonic_ns() < due_ns && !watch.stopped() {
        clock::sleep_until_ns(due_ns.min(clock::monotonic_ns() + STEP_NS));
    }
}

fn all(pids: &[u32]) -> BTreeMap<u32, Ran> {
    let mut threads = BTreeMap::new();
    for pid in pids {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for tid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            if threads.len() >= THREADS_MAX {
                return threads;
            }
            let Ok(text) = fs::read(format!("/proc/{pid}/task/{tid}/schedstat")) else { continue };
            // A kernel without such counts says nothing: all are equal then, and the first few are watched.
            let (ns, _, turns) = parse_schedstat(&text).unwrap_or_default();
            threads.insert(tid, Ran { pid: *pid, ns, turns });
        }
    }
    threads
}

pub(super) fn named(pids: &[u32]) -> String {
    match pids {
        [one] => format!("process {one}"),
        many => format!("processes {}", many.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}
