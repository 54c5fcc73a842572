//! Ticks that begin where a thread enters a function. Such a tick lasts until the thread waits, or enters the function again.
//!
//! The return of the function is not recorded.
//! With such a probe, a runtime that moves its stacks (Go), an exception or a panic would end the server.

use super::stream::ThreadLog;
use super::wakes::Wake;

/// The work from each entry until the thread waited or entered the function again, with the wake that contained the entry.
pub fn ticks_of(thread: &ThreadLog) -> Vec<(Wake, Wake)> {
    let mut ticks = Vec::new();
    let mut entries = thread.entries.iter().copied().peekable();
    for wake in &thread.wakes {
        while entries.next_if(|entered_ns| *entered_ns < wake.start_ns).is_some() {}
        let first = ticks.len();
        while let Some(start_ns) = entries.next_if(|entered_ns| *entered_ns <= wake.end_ns) {
            let end_ns = entries.peek().map_or(wake.end_ns, |next_ns| wake.end_ns.min(*next_ns));
            // The moment within the wake at which the thread was preempted is unknown, so each part gets its share of the run time.
            let ran = wake.on_cpu_ns as f64 / (wake.end_ns - wake.start_ns).max(1) as f64;
            let on_cpu_ns = ((end_ns - start_ns) as f64 * ran).round() as u64;
            ticks.push((Wake { start_ns, end_ns, on_cpu_ns, preempted: 0, is_moved: false, ..*wake }, *wake));
        }
        let longest = ticks[first..].iter_mut().max_by_key(|(tick, _)| tick.end_ns - tick.start_ns);
        if let Some((tick, _)) = longest {
            (tick.preempted, tick.is_moved) = (wake.preempted, wake.is_moved);
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(start_ns: u64, end_ns: u64) -> Wake {
        Wake { start_ns, end_ns, on_cpu_ns: end_ns - start_ns, preempted: 0, cpu: 0, is_moved: false }
    }

    #[test]
    fn an_entry_lasts_until_the_next_or_until_the_thread_waits() {
        let thread = ThreadLog {
            wakes: vec![Wake { on_cpu_ns: 50, preempted: 2, ..wake(100, 200) }, wake(300, 400)],
            entries: vec![90, 120, 140, 200, 250, 300, 450],
            ..ThreadLog::default()
        };
        let ticks: Vec<_> = ticks_of(&thread)
            .iter()
            .map(|(tick, _)| (tick.start_ns, tick.end_ns, tick.on_cpu_ns, tick.preempted))
            .collect();
        assert_eq!(ticks, [(120, 140, 10, 0), (140, 200, 30, 2), (200, 200, 0, 0), (300, 400, 100, 0)]);
    }
}
