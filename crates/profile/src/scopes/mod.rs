//! `long`: finds scopes that keep the CPU for longer than half a hypervisor's quantum.
//! An interruption of such work is likely, so the work should be divided.
//! Time in which the thread was switched out does not count. This time comes from a recording of switches.

mod away;
mod parse;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::recording::{Recording, Span};
use away::Away;
pub use parse::{Scope, ScopeThread, Scopes, parse};

/// The scopes to examine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Only scopes without inner scopes. An outer scope's time would only repeat that of its inner scopes.
    #[default]
    Leaf,
    /// All scopes, including scopes that contain other scopes.
    All,
}

/// CPU times of scopes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lengths {
    /// The median.
    pub p50_ns: u64,
    /// The p99.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The sum.
    pub total_ns: u64,
}

/// The long passes through one scope in one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// The name of the scope.
    pub scope: String,
    /// The thread's name.
    pub thread: String,
    /// The process of the thread.
    pub pid: u64,
    /// The thread's kernel number, if known.
    pub tid: Option<u32>,
    /// The number of long passes.
    pub count: u64,
    /// The number of all passes that were examined.
    pub of: u64,
    /// The number of long passes in which the thread was switched out. That time is subtracted.
    pub switched_out: u64,
    /// The CPU times of the long passes.
    pub long: Lengths,
}

/// The number of scopes that could not be judged, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unjudged {
    /// The thread was switched out for an unknown time.
    pub switched_out: u64,
    /// The scope took long, but it is unknown whether the thread was switched out.
    pub unknown: u64,
    /// Inner scopes may have been overwritten, so it is unknown whether they are leaves.
    pub cut: u64,
}

/// The long scopes of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Long {
    /// Scopes with more CPU time than this are long, in nanoseconds.
    pub over_ns: u64,
    /// Which scopes were examined.
    pub which: Which,
    /// The time from the first scope to the last, in nanoseconds.
    pub length_ns: u64,
    /// The number of examined scopes.
    pub scopes: u64,
    /// The number of examined scopes that the recording covers.
    pub covered: u64,
    /// The long scopes by name and thread. Scopes with the most time come first.
    pub rows: Vec<Row>,
    /// Scopes that could not be judged.
    pub unjudged: Unjudged,
    /// The number of older scopes that were overwritten before they were read.
    pub overwritten: u64,
}

/// Why a recording does not match the scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The clocks of the recording and of the scopes differ.
    #[error(
        "its clock is not CLOCK_MONOTONIC, which scopes use; record with `evenkeel profile record`, or `perf record -k CLOCK_MONOTONIC`"
    )]
    Clock,
    /// The recording has no switches.
    #[error("it has no switches; record with `evenkeel profile record --switches`, or `perf record --switch-events`")]
    NoSwitches,
    /// The recording and the scopes are from different times.
    #[error("it does not cover the time of the scopes; record while the server records scopes")]
    Time,
    /// The recording and the scopes are from different threads.
    #[error("it has none of the scopes' threads; record their process, or all CPUs")]
    Threads,
}

/// The kernel's number of the monotonic clock.
const CLOCK_MONOTONIC: i32 = 1;

/// Finds scopes with more CPU time than `over_ns`. The recording shows the time in which a thread was switched out.
///
/// # Errors
/// If the recording does not match the scopes.
pub fn long(scopes: &Scopes, over_ns: u64, which: Which, recording: Option<&Recording>) -> Result<Long, Mismatch> {
    let away = recording.map(|recording| away_of(scopes, recording)).transpose()?;
    let mut found =
        Found { over_ns, away, rows: BTreeMap::new(), unjudged: Unjudged::default(), looked: 0, covered: 0 };
    for (at, thread) in scopes.threads.iter().enumerate() {
        found.thread(at, thread, which);
    }
    let all = || scopes.threads.iter().flat_map(|thread| &thread.scopes);
    let start_ns = all().map(|scope| scope.start_ns).min().unwrap_or(0);
    let end_ns = all().map(Scope::end_ns).max().unwrap_or(0);
    let mut rows: Vec<Row> =
        found.rows.into_iter().filter_map(|((at, name), row)| row.finish(scopes, at, name)).collect();
    rows.sort_by(|one, other| other.long.total_ns.cmp(&one.long.total_ns).then_with(|| one.scope.cmp(&other.scope)));
    Ok(Long {
        over_ns,
        which,
        length_ns: end_ns.saturating_sub(start_ns),
        scopes: found.looked,
        covered: found.covered,
        rows,
        unjudged: found.unjudged,
        overwritten: scopes.threads.iter().fold(0, |sum, thread| sum.saturating_add(thread.overwritten)),
    })
}

fn away_of(scopes: &Scopes, recording: &Recording) -> Result<Away, Mismatch> {
    if recording.switches.is_empty() {
        return Err(Mismatch::NoSwitches);
    }
    if recording.clock != Some(CLOCK_MONOTONIC) || !scopes.is_monotonic {
        return Err(Mismatch::Clock);
    }
    let away = Away::from_recording(recording);
    let Span { start_ns, end_ns } = away.span;
    let all = || scopes.threads.iter().flat_map(|thread| &thread.scopes);
    if all().next().is_some() && !all().any(|scope| scope.start_ns < end_ns && scope.end_ns() > start_ns) {
        return Err(Mismatch::Time);
    }
    let tids: Vec<u32> = scopes.threads.iter().filter_map(|thread| thread.tid).collect();
    if !recording.switches.iter().any(|switch| tids.contains(&switch.tid)) {
        return Err(Mismatch::Threads);
    }
    Ok(away)
}

struct Found {
    over_ns: u64,
    away: Option<Away>,
    rows: BTreeMap<(usize, u32), Lengthy>,
    unjudged: Unjudged,
    looked: u64,
    covered: u64,
}

#[derive(Default)]
struct Lengthy {
    of: u64,
    switched_out: u64,
    lengths_ns: Vec<u64>,
}

/// The result for one scope.
enum Judged {
    Timed { cpu_ns: u64, is_switched_out: bool },
    SwitchedOut,
    Unknown,
}

impl Found {
    fn thread(&mut self, at: usize, thread: &ScopeThread, which: Which) {
        // Every overwritten scope ended before the end of the oldest remaining scope.
        let oldest = thread.scopes.first().filter(|_| thread.overwritten > 0);
        let whole_from_ns = oldest.map_or(0, Scope::end_ns);
        let mut order: Vec<&Scope> = thread.scopes.iter().collect();
        order.sort_by_key(|scope| (scope.start_ns, std::cmp::Reverse(scope.length_ns)));
        for (scope, next) in order.iter().zip(order.iter().skip(1).map(Some).chain([None])) {
            if which == Which::Leaf {
                if next.is_some_and(|next| is_within(next, scope)) {
                    continue;
                }
                if scope.start_ns < whole_from_ns {
                    self.unjudged.cut += u64::from(scope.length_ns > self.over_ns);
                    continue;
                }
            }
            self.looked += 1;
            let judged = self.judged(thread.tid, scope);
            let row = self.rows.entry((at, scope.name)).or_default();
            row.of += 1;
            match judged {
                Judged::Timed { cpu_ns, is_switched_out } if cpu_ns > self.over_ns => {
                    row.lengths_ns.push(cpu_ns);
                    row.switched_out += u64::from(is_switched_out);
                }
                Judged::Timed { .. } => {}
                Judged::SwitchedOut => self.unjudged.switched_out += 1,
                Judged::Unknown => self.unjudged.unknown += 1,
            }
        }
    }

    fn judged(&mut self, tid: Option<u32>, scope: &Scope) -> Judged {
        let span = Span { start_ns: scope.start_ns, end_ns: scope.end_ns() };
        let away_ns = self.away.as_ref().zip(tid).and_then(|(away, tid)| away.within(tid, span));
        self.covered += u64::from(away_ns.is_some());
        match (away_ns, scope.switched_out) {
            // A scope shorter than the limit needs no recording.
            _ if scope.length_ns <= self.over_ns => Judged::Timed { cpu_ns: scope.length_ns, is_switched_out: false },
            (Some(away_ns), _) => {
                let cpu_ns = scope.length_ns.saturating_sub(away_ns);
                Judged::Timed { cpu_ns, is_switched_out: away_ns > 0 }
            }
            (None, Some(false)) => Judged::Timed { cpu_ns: scope.length_ns, is_switched_out: false },
            (None, Some(true)) => Judged::SwitchedOut,
            (None, None) => Judged::Unknown,
        }
    }
}

/// Whether `inner` lies inside `outer`. The counter's readings may be some nanoseconds out of order, so the middle of `inner` decides.
fn is_within(inner: &Scope, outer: &Scope) -> bool {
    inner.start_ns.saturating_add(inner.length_ns / 2) < outer.end_ns()
}

impl Lengthy {
    /// The row of a scope. None if no pass through the scope was long.
    fn finish(mut self, scopes: &Scopes, at: usize, name: u32) -> Option<Row> {
        let thread = scopes.threads.get(at)?;
        self.lengths_ns.sort_unstable();
        let rank = |share: f64| {
            let rank = (self.lengths_ns.len() as f64 * share).ceil() as usize;
            self.lengths_ns.get(rank.saturating_sub(1)).copied()
        };
        let long = Lengths {
            p50_ns: rank(0.5)?,
            p99_ns: rank(0.99)?,
            max_ns: rank(1.0)?,
            total_ns: self.lengths_ns.iter().fold(0, |sum, length| sum.saturating_add(*length)),
        };
        Some(Row {
            scope: scopes.names.get(name as usize)?.clone(),
            thread: thread.name.clone(),
            pid: thread.pid,
            tid: thread.tid,
            count: self.lengths_ns.len() as u64,
            of: self.of,
            switched_out: self.switched_out,
            long,
        })
    }
}

#[cfg(test)]
mod tests;
