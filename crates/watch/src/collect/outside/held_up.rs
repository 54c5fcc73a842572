//! `HeldUp`: finds due times that passed while the tick's thread waited for another thread in the middle of a tick. Pure.
//!
//! A timer wakes a thread that sleeps between two ticks. A thread that releases a lock wakes a thread that waits for the lock.
//! The records of wake-ups distinguish the two cases, unless other threads also begin ticks.

use std::collections::BTreeSet;

use evenkeel_measure::meters::ticks::account::{DueTime, Outcome};
use evenkeel_measure::meters::ticks::stream::ThreadLog;
use evenkeel_sys::perf_wakers::Woken;

use super::woken::{wake_from, wake_up};
use crate::sample::LateWas;

/// The wake-ups distinguish ticks from waits only if an interrupt began at least this share of the ticks that were on time.
const BY_INTERRUPT_MIN: f64 = 0.9;
/// The check by wake-ups needs at least this many ticks on time.
const IN_TIME_MIN: usize = 8;
/// The maximum length of a wait that is reported. A server may rest for longer by design, for example without players.
const WAIT_NS_MAX: u64 = 1_000_000_000;

/// The tick's thread and its wake-ups.
#[derive(Debug)]
pub(super) struct HeldUp<'a> {
    thread: &'a ThreadLog,
    /// The start times of the wakes that began with a tick.
    ticks: BTreeSet<u64>,
}

impl<'a> HeldUp<'a> {
    /// `None` if the wake-ups of the thread cannot distinguish ticks from waits. A tick that is later than `bound_ns` counts as late.
    pub(super) fn new(thread: &'a ThreadLog, due_times: &[DueTime], bound_ns: u64) -> Option<HeldUp<'a>> {
        let recorded_from_ns = thread.woken_from_ns?;
        let begun = |due: &DueTime| match due.outcome {
            Outcome::Begun { wake, lateness_ns } => Some((wake.start_ns, lateness_ns)),
            Outcome::Hidden(_) | Outcome::Missed => None,
        };
        let ticks = due_times.iter().filter_map(begun).map(|(start_ns, _)| start_ns).collect();
        let is_in_time = |(_, lateness_ns): &(u64, Option<u64>)| lateness_ns.is_some_and(|ns| ns < bound_ns);
        let in_time = due_times.iter().filter_map(begun).filter(is_in_time);
        let known = in_time.filter(|(start_ns, _)| *start_ns > recorded_from_ns);
        let woken: Vec<Option<Woken>> =
            known.map(|(start_ns, _)| wake_from(thread, start_ns).and_then(|at| wake_up(thread, at))).collect();
        let by_interrupt = woken.iter().flatten().filter(|woken| woken.by.is_none()).count();
        let is_conclusive = woken.len() >= IN_TIME_MIN && by_interrupt as f64 >= woken.len() as f64 * BY_INTERRUPT_MIN;
        is_conclusive.then_some(HeldUp { thread, ticks })
    }

    /// The wait for another thread during which this tick became due. None unless the wait began inside a tick.
    pub(super) fn at(&self, due_ns: u64) -> Option<LateWas> {
        let wakes = &self.thread.wakes;
        let next = wakes.partition_point(|wake| wake.start_ns <= due_ns);
        let since_ns = wakes[..next].last()?.end_ns;
        let woken = wake_up(self.thread, next)?;
        let by = woken.by?;
        if since_ns > due_ns || woken.at_ns.saturating_sub(since_ns) > WAIT_NS_MAX {
            return None;
        }
        // The thread may have waited several times in one tick, so go back to the wake that began the tick.
        let mut at = next - 1;
        while !self.ticks.contains(&wakes[at].start_ns) {
            wake_up(self.thread, at)?.by?;
            at = at.checked_sub(1)?;
        }
        Some(LateWas::Waited { since_ns, until_ns: woken.at_ns, by })
    }

    /// The end of the first wake that began after this due time.
    pub(super) fn ended_ns(&self, due_ns: u64) -> Option<u64> {
        self.thread.wakes.iter().find(|wake| wake.start_ns > due_ns).map(|wake| wake.end_ns)
    }
}
