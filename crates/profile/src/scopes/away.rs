//! `Away`: when threads had no CPU, from the switches of a recording, as sums that any stretch of time can be asked of.

use std::collections::HashMap;

use crate::recording::{Recording, Span, Turn};

/// When each thread had no CPU.
#[derive(Debug)]
pub(super) struct Away {
    threads: HashMap<u32, Thread>,
    /// What the recording covers.
    pub(super) span: Span,
}

/// Off-CPU intervals of one thread, in the order of time and apart from each other.
#[derive(Debug, Default)]
struct Thread {
    intervals: Vec<AwayInterval>,
    /// Since when it is away; none while it runs.
    since_ns: Option<u64>,
    /// Whether anything was told of it.
    is_told: bool,
}

#[derive(Clone, Copy, Debug)]
struct AwayInterval {
    span: Span,
    /// The lengths of all before it.
    before_ns: u64,
}

impl Thread {
    fn add(&mut self, span: Span) {
        let last = self.intervals.last();
        let before_ns = last.map_or(0, |last| last.before_ns.saturating_add(last.span.length_ns()));
        // Records that come in no order of time can't be.
        let start_ns = span.start_ns.max(last.map_or(0, |last| last.span.end_ns));
        let end_ns = span.end_ns.max(start_ns);
        self.intervals.push(AwayInterval { span: Span { start_ns, end_ns }, before_ns });
    }

    /// How long it was away before a moment.
    fn until_ns(&self, at_ns: u64) -> u64 {
        let count = self.intervals.partition_point(|interval| interval.span.start_ns < at_ns);
        let last = count.checked_sub(1).and_then(|last| self.intervals.get(last));
        last.map_or(0, |last| {
            let within = last.span.end_ns.min(at_ns).saturating_sub(last.span.start_ns);
            last.before_ns.saturating_add(within)
        })
    }
}

impl Away {
    pub(super) fn of(recording: &Recording) -> Away {
        let span = recording.span;
        let mut threads: HashMap<u32, Thread> = HashMap::new();
        for switch in recording.switches.iter().filter(|switch| switch.tid != 0) {
            let thread = threads.entry(switch.tid).or_default();
            match switch.turn {
                Turn::In => {
                    // One that is given a CPU before anything else was told of it had none until then.
                    let since_ns = thread.since_ns.take().or((!thread.is_told).then_some(span.start_ns));
                    if let Some(start_ns) = since_ns {
                        thread.add(Span { start_ns, end_ns: switch.at_ns });
                    }
                }
                // Twice in a row: that it came back in between was lost. Since when it is away is known by the later one.
                Turn::Slept | Turn::Preempted => thread.since_ns = Some(switch.at_ns),
            }
            thread.is_told = true;
        }
        for thread in threads.values_mut() {
            if let Some(start_ns) = thread.since_ns.take() {
                thread.add(Span { start_ns, end_ns: span.end_ns });
            }
        }
        Away { threads, span }
    }

    /// How long a thread was away within a stretch of time; none if the recording does not tell.
    pub(super) fn within(&self, tid: u32, span: Span) -> Option<u64> {
        let is_covered = self.span.start_ns <= span.start_ns && span.end_ns <= self.span.end_ns;
        let thread = self.threads.get(&tid).filter(|_| is_covered)?;
        Some(thread.until_ns(span.end_ns).saturating_sub(thread.until_ns(span.start_ns)))
    }
}
