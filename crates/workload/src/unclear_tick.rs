//! `UnclearTick`: the error for a server whose tick evenkeel could not find. It lists the server's loops and threads.

use evenkeel_measure::meters::ticks::choice::{Choice, Unclear};
use evenkeel_measure::meters::ticks::loops::TickLoop;
use evenkeel_measure::meters::ticks::stream::Stream;

/// The maximum number of loops, and of threads, to list.
const NAMED_MAX: usize = 4;

/// evenkeel could not find the server's tick.
#[derive(Clone, Debug, PartialEq)]
pub struct UnclearTick {
    /// Why the tick is unclear.
    pub why: Unclear,
    /// The loops that were found, with the most work first.
    pub loops: Vec<TickLoop>,
    /// The busiest threads. Each has a name, number, share of a CPU, and wakes per second.
    pub threads: Vec<(String, u32, f64, f64)>,
}

impl UnclearTick {
    pub(crate) fn new(why: Unclear, choice: &Choice, stream: &Stream) -> UnclearTick {
        let span_ns = stream.span_ns() as f64;
        let mut threads: Vec<(String, u32, f64, f64)> = stream
            .threads
            .iter()
            .map(|one| {
                let wakes_per_s = one.wakes.len() as f64 / span_ns * 1e9;
                (one.name.clone(), one.tid, one.ran_ns() as f64 / span_ns, wakes_per_s)
            })
            .collect();
        threads.sort_by(|one, other| other.2.total_cmp(&one.2));
        threads.truncate(NAMED_MAX);
        UnclearTick { why, loops: choice.loops.iter().take(NAMED_MAX).cloned().collect(), threads }
    }
}

impl std::fmt::Display for UnclearTick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "find the tick of the server: {}", self.why)?;
        for (at, one) in self.loops.iter().enumerate() {
            write!(f, "{} {one}", if at == 0 { "; loops:" } else { "," })?;
        }
        if self.loops.is_empty() {
            for (at, (name, tid, cpu, wakes)) in self.threads.iter().enumerate() {
                let head = if at == 0 { "; busiest threads:" } else { ";" };
                write!(f, "{head} {name} ({tid}): {:.1} % CPU, {wakes:.0} wakes/s", cpu * 100.0)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::WorkloadError;

    #[test]
    fn an_unclear_tick_is_refused_with_its_loops() {
        let threads = vec![("main".to_owned(), 7, 0.033, 110.4), ("net".to_owned(), 8, 0.026, 140.0)];
        let none = UnclearTick { why: Unclear::NoSuchRate { hz: 50.0 }, loops: Vec::new(), threads };
        let expected = "find the tick of the server: it has no loop of 50 Hz; busiest threads: main (7): 3.3 % CPU, 110 wakes/s; \
                        net (8): 2.6 % CPU, 140 wakes/s";
        assert_eq!(WorkloadError::UnclearTick(Box::new(none)).to_string(), expected);
    }
}
