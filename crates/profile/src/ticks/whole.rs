//! All threads of a recording as one [`Stream`], so that the code for live servers finds the tick.
//! If a runtime moves the tick between threads, these threads count as one.

use std::collections::BTreeMap;

use evenkeel_measure::meters::ticks::stream::{Stream, ThreadLog};
use evenkeel_measure::meters::ticks::views::JOIN_NS;
use evenkeel_measure::meters::ticks::wakes::Wake;

use super::stretch::{Stretch, sleeps, stretches};
use crate::offcpu::OffCpuInterval;
use crate::recording::{Recording, Span};

/// The stream of these threads, from their off-CPU intervals.
pub fn stream<'a>(recording: &Recording, lives: impl Iterator<Item = (&'a u32, &'a Vec<OffCpuInterval>)>) -> Stream {
    let wake = |one: &Stretch| Wake {
        start_ns: one.start_ns,
        end_ns: one.end_ns,
        on_cpu_ns: one.ran_ns,
        preempted: 0,
        cpu: 0,
        is_moved: false,
    };
    let threads = lives.map(|(tid, life)| {
        let known = recording.threads.get(tid);
        ThreadLog {
            pid: known.map_or(*tid, |thread| thread.pid),
            tid: *tid,
            name: known.and_then(|thread| thread.name.clone()).unwrap_or_default(),
            wakes: stretches(life, |interval| sleeps(interval.reason)).iter().map(wake).collect(),
            switches: life.len() as u64,
            ..ThreadLog::default()
        }
    });
    let threads: Vec<ThreadLog> = threads.collect();
    let wakes = || threads.iter().flat_map(|thread| &thread.wakes);
    let from_ns = wakes().map(|wake| wake.start_ns).min().unwrap_or(0);
    let to_ns = wakes().map(|wake| wake.end_ns).max().unwrap_or(from_ns);
    Stream { from_ns, to_ns, threads, ..Stream::default() }
}

/// The off-CPU intervals of a single thread. For several threads, the intervals in which none of the threads had a CPU.
pub fn merged_or_own(lives: &BTreeMap<u32, Vec<OffCpuInterval>>, tids: &[u32]) -> Vec<OffCpuInterval> {
    match tids {
        [tid] => lives.get(tid).cloned().unwrap_or_default(),
        several => merged(lives, several),
    }
}

/// The intervals in which none of these threads had a CPU.
/// Each interval has the reason of the thread that ran next, because all of the threads waited for the same event.
/// The moment in which one thread hands over to the next is not an interval.
pub fn merged(lives: &BTreeMap<u32, Vec<OffCpuInterval>>, tids: &[u32]) -> Vec<OffCpuInterval> {
    let mut ran: Vec<(u64, u64, OffCpuInterval)> = Vec::new();
    for life in tids.iter().filter_map(|tid| lives.get(tid)) {
        let between = life.windows(2).map(|pair| (pair[0].span.end_ns, pair[1].span.start_ns, pair[0]));
        ran.extend(between.filter(|(from_ns, to_ns, _)| to_ns > from_ns));
    }
    ran.sort_unstable_by_key(|(from_ns, to_ns, _)| (*from_ns, *to_ns));
    let mut life: Vec<OffCpuInterval> = Vec::new();
    let mut until_ns: Option<u64> = None;
    for (from_ns, to_ns, before) in ran {
        if let Some(until_ns) = until_ns
            && from_ns > until_ns.saturating_add(JOIN_NS)
        {
            life.push(OffCpuInterval { span: Span { start_ns: until_ns, end_ns: from_ns }, ..before });
        }
        until_ns = Some(until_ns.map_or(to_ns, |until_ns| until_ns.max(to_ns)));
    }
    life
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_alternate_are_one_life() {
        let interval = |tid, start_ns, end_ns| OffCpuInterval {
            tid,
            span: Span { start_ns, end_ns },
            ..OffCpuInterval::default()
        };
        let us = 1000;
        // The first thread runs from 100 to 200 us and from 5,000 to 5,300 us.
        // The first thread hands over to the second thread, which runs from 220 to 900 us.
        let one = vec![interval(1, 0, 100 * us), interval(1, 200 * us, 5000 * us), interval(1, 5300 * us, 9000 * us)];
        let other = vec![interval(2, 0, 220 * us), interval(2, 900 * us, 9000 * us)];
        let lives = BTreeMap::from([(1, one), (2, other)]);
        let merged = merged(&lives, &[1, 2]);
        let spans: Vec<(u32, u64, u64)> = merged
            .iter()
            .map(|interval| (interval.tid, interval.span.start_ns / us, interval.span.end_ns / us))
            .collect();
        assert_eq!(spans, [(1, 900, 5000)]);
        assert_eq!(super::merged(&lives, &[3]), Vec::new());
    }
}
