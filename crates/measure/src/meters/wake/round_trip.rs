//! Two threads pass a byte back and forth through two pipes, on one CPU and on two.
//! The time is the cost of a wake plus the switch to the woken thread, without idle time in between.
//! `perf bench sched pipe` measures the same cost.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

use evenkeel_sys::clock;

use super::kind::Place;
use crate::meters::clock::Skipped;
use crate::pinned::stay_on;
use crate::{MeterError, Samples, Unit, Watch};

/// The number of round trips between two readings of the clock.
const BATCH: u64 = 200;
/// The maximum number of batches.
const BATCHES_MAX: usize = 2000;

/// Measures round trips on the CPU of the first place.
/// If the place has a pair of CPUs, these round trips alternate with round trips between the pair.
pub(super) fn measure(places: &[Place], for_ns: u64, skipped: &mut Vec<Skipped>, watch: &Watch<'_>) -> Vec<Samples> {
    let mut all = Vec::new();
    let mut ways: Vec<(usize, usize)> = Vec::new();
    ways.extend(places.iter().take(1).map(|place| (place.waiter_cpu, place.waiter_cpu)));
    ways.extend(places.iter().find_map(|place| Some((place.waker_cpu?, place.waiter_cpu))));
    let share_ns = for_ns / ways.len().max(1) as u64;
    for (one, other) in ways {
        let conditions = [("cpus", format!("{one} and {other}"))];
        let mut samples = Samples::new("pipe_round_trip_ns", Unit::Ns, conditions);
        match between(one, other, share_ns, watch) {
            Ok(batches_ns) => {
                batches_ns.iter().for_each(|ns| samples.record(*ns));
                all.push(samples);
            }
            Err(error) => {
                skipped.push(Skipped {
                    what: format!("round trips between CPUs {one} and {other}"),
                    why: error.to_string(),
                });
            }
        }
    }
    all
}

fn between(one: usize, other: usize, for_ns: u64, watch: &Watch<'_>) -> Result<Vec<u64>, MeterError> {
    let refused = |error: std::io::Error| MeterError::refused("make a pipe", &error);
    let (from_there, to_here) = pipe().map_err(refused)?;
    let (from_here, to_there) = pipe().map_err(refused)?;
    std::thread::scope(|scope| {
        let there = scope.spawn(move || {
            stay_on(other)?;
            echo(from_here, to_here);
            Ok(())
        });
        let here = scope.spawn(move || {
            stay_on(one)?;
            Ok(throw(from_there, to_there, for_ns, watch))
        });
        // Each thread ends when the other ends, because a read from a closed pipe returns nothing.
        let ended = || MeterError::not_possible("measure round trips", "a thread ended by itself");
        let thrown = here.join().unwrap_or_else(|_| Err(ended()));
        there.join().unwrap_or_else(|_| Err(ended())).and(thrown)
    })
}

fn echo(mut from: PipeReader, mut to: PipeWriter) {
    let mut byte = [0];
    while from.read_exact(&mut byte).is_ok() && to.write_all(&byte).is_ok() {}
}

fn throw(mut from: PipeReader, mut to: PipeWriter, for_ns: u64, watch: &Watch<'_>) -> Vec<u64> {
    let until_ns = clock::monotonic_ns() + for_ns;
    let mut batches_ns = Vec::new();
    let mut byte = [7];
    while batches_ns.len() < BATCHES_MAX && !watch.stopped() {
        let start_ns = clock::monotonic_ns();
        for _ in 0..BATCH {
            if to.write_all(&byte).is_err() || from.read_exact(&mut byte).is_err() {
                return batches_ns;
            }
        }
        let end_ns = clock::monotonic_ns();
        batches_ns.push((end_ns - start_ns) / BATCH);
        if end_ns > until_ns {
            break;
        }
    }
    batches_ns
}
