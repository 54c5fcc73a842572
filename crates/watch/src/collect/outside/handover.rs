//! `Handover`: changes from the watcher that found a loop to the slow watcher that follows it. No wake is lost or counted twice.
//! If a wake begins before the slow watcher starts, only the first watcher has all records of it.
//! So the first watcher continues until that wake has ended.

use evenkeel_measure::meters::ticks::stream::Stream;
use evenkeel_measure::meters::ticks::watcher::Watcher;

/// The maximum length of a wake during the handover. The records of a longer wake are lost.
const LASTS_NS: u64 = 1_000_000_000;

/// The watcher that found a loop. It is needed as long as the slow watcher has only a part of some wakes.
#[derive(Debug)]
pub(super) struct Handover {
    first: Watcher,
    /// The time from which the slow watcher watched all of its threads.
    at_ns: u64,
}

impl Handover {
    /// Starts the handover. Also returns the wakes of the first watcher so far.
    pub(super) fn begin(mut first: Watcher, at_ns: u64) -> (Handover, Stream) {
        let seen = until(first.go_on(), at_ns);
        (Handover { first, at_ns }, seen)
    }

    /// Adds the wakes of the first watcher to the records of the slow watcher.
    pub(super) fn join(&mut self, slow: Stream) -> Stream {
        // The slow watcher was read before the first watcher. So the first watcher has all records of that time too.
        join(self.first.go_on(), slow, self.at_ns)
    }

    /// Whether the handover is over, so that the first watcher is no longer needed.
    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.at_ns) >= LASTS_NS
    }
}

/// The wakes of the first watcher that began before the handover.
pub(super) fn until(mut first: Stream, at_ns: u64) -> Stream {
    for thread in &mut first.threads {
        thread.wakes.retain(|wake| wake.start_ns < at_ns);
    }
    first
}

/// Joins the records of both watchers.
/// Wakes that began before the handover come from the first watcher, and later wakes from the slow watcher.
pub(super) fn join(first: Stream, mut slow: Stream, at_ns: u64) -> Stream {
    let mut first = until(first, at_ns);
    for thread in &mut slow.threads {
        let before = first.threads.iter().find(|before| before.tid == thread.tid);
        let ended_ns = before.and_then(|before| before.wakes.last()).map_or(0, |wake| wake.end_ns);
        // If a thread lost its CPU during the handover, the slow watcher sees a wake begin when the thread gets a CPU again.
        // Drop this false wake.
        thread.wakes.retain(|wake| wake.start_ns >= at_ns.max(ended_ns));
    }
    // The first watcher may have lost records of a time for which the slow watcher has all records.
    first.from_ns = first.from_ns.min(slow.from_ns);
    first.joined(slow)
}
