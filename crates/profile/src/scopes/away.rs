//! `Away`: when threads had no CPU, as running sums, so that the time in any span can be queried.

use std::collections::HashMap;

use crate::recording::{Recording, Span, Turn};

/// When each thread had no CPU.
#[derive(Debug)]
pub(super) struct Away {
    threads: HashMap<u32, Thread>,
    /// The time that the recording covers.
    pub(super) span: Span,
}

/// The off-CPU intervals of one thread, sorted and without overlap.
#[derive(Debug, Default)]
struct Thread {
    intervals: Vec<AwayInterval>,
    /// Since when the thread is off CPU. None while it runs.
    since_ns: Option<u64>,
    /// Whether an earlier switch of the thread was read.
    is_known: bool,
}

#[derive(Clone, Copy, Debug)]
struct AwayInterval {
    span: Span,
    /// The total length of all earlier intervals.
    before_ns: u64,
}

impl Thread {
    fn add(&mut self, span: Span) {
        let last = self.intervals.last();
        let before_ns = last.map_or(0, |last| last.before_ns.saturating_add(last.span.length_ns()));
        // Records that are out of order could make intervals overlap, so cut off the overlap.
        let start_ns = span.start_ns.max(last.map_or(0, |last| last.span.end_ns));
        let end_ns = span.end_ns.max(start_ns);
        self.intervals.push(AwayInterval { span: Span { start_ns, end_ns }, before_ns });
    }

    /// The thread's time off CPU before a moment.
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
    pub(super) fn from_recording(recording: &Recording) -> Away {
        let span = recording.span;
        let mut threads: HashMap<u32, Thread> = HashMap::new();
        for switch in recording.switches.iter().filter(|switch| switch.tid != 0) {
            let thread = threads.entry(switch.tid).or_default();
            match switch.turn {
                Turn::In => {
                    // A thread whose first record is a switch-in was off CPU until that record.
                    let since_ns = thread.since_ns.take().or((!thread.is_known).then_some(span.start_ns));
                    if let Some(start_ns) = since_ns {
                        thread.add(Span { start_ns, end_ns: switch.at_ns });
                    }
                }
                // After two switch-outs in a row, the switch-in between them was lost. The later switch-out counts.
                Turn::Slept | Turn::Preempted => thread.since_ns = Some(switch.at_ns),
            }
            thread.is_known = true;
        }
        for thread in threads.values_mut() {
            if let Some(start_ns) = thread.since_ns.take() {
                thread.add(Span { start_ns, end_ns: span.end_ns });
            }
        }
        Away { threads, span }
    }

    /// The time of a thread off CPU within a span. `None` if the recording does not cover the span.
    pub(super) fn within(&self, tid: u32, span: Span) -> Option<u64> {
        let is_covered = self.span.start_ns <= span.start_ns && span.end_ns <= self.span.end_ns;
        let thread = self.threads.get(&tid).filter(|_| is_covered)?;
        Some(thread.until_ns(span.end_ns).saturating_sub(thread.until_ns(span.start_ns)))
    }
}
