//! /proc/schedstat: what the scheduler counts for each CPU.

use std::collections::BTreeMap;

use evenkeel_sys::MAX_CPUS;
use serde::{Deserialize, Serialize};

use super::LINES_MAX;

/// The counts of a CPU's run queue since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunQueueCounts {
    /// The time that threads ran on this CPU, in nanoseconds.
    pub ran_ns: u64,
    /// The time that threads were ready on this CPU but did not run, in nanoseconds, summed over threads.
    pub waited_ns: u64,
}

/// Parses the CPUs of /proc/schedstat. `None` if the text has no CPU, or if a line of a CPU is too short.
/// Versions 15 to 17 have these numbers in the same columns (`show_schedstat` of `kernel/sched/stats.c`).
pub fn parse_run_queues(text: &str) -> Option<BTreeMap<usize, RunQueueCounts>> {
    let lines = text.lines().take(LINES_MAX).filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
    let queue = |(cpu, counts): (&str, &str)| {
        let cpu = cpu.parse().ok().filter(|cpu| *cpu < MAX_CPUS)?;
        let mut words = counts.split_ascii_whitespace().skip(6);
        let mut next = || words.next()?.parse::<u64>().ok();
        let (ran_ns, waited_ns) = (next()?, next()?);
        // The last column counts time slices. A line without this column is incomplete.
        next()?;
        Some((cpu, RunQueueCounts { ran_ns, waited_ns }))
    };
    lines.map(queue).collect::<Option<BTreeMap<_, _>>>().filter(|queues| !queues.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_times_are_read() {
        let text = "version 15\ntimestamp 4295\ncpu0 0 0 9 8 7 6 100 50 3\ndomain0 03 1 2 3\ncpu12 0 0 0 0 0 0 1 2 4\n";
        let queue = |ran_ns, waited_ns| RunQueueCounts { ran_ns, waited_ns };
        assert_eq!(parse_run_queues(text), Some(BTreeMap::from([(0, queue(100, 50)), (12, queue(1, 2))])));
        for odd in ["", "version 15\n", "cpu0 1 2 3\n", "cpu0 0 0 0 0 0 0 1 2\n", "cpux 0 0 0 0 0 0 1 2 4\n"] {
            assert_eq!(parse_run_queues(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "((cpu[0-9]{0,6}|domain0|[0-9]{1,20})[ \n]{1,2}){0,30}|.{0,30}") {
            let _ = parse_run_queues(&text);
        }
    }
}
