//! Checks whether the clocks of all CPUs agree. Two pinned threads pass a token back and forth.
//! The other CPU's reading lies between two readings of this CPU, so each pass bounds the clock offset in both directions.
//! All passes together give the tightest bounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use evenkeel_sys::tsc::{InOrder, Scale};
use evenkeel_sys::{CpuSet, Errno, clock, thread, tsc};
use serde::Serialize;

use super::skipped::Skipped;
use crate::Watch;

/// The number of passes of the token per pair of CPUs, if the time suffices.
const THROWS: u64 = 20_000;
const PAIR_LIMIT_NS: u64 = 100_000_000;
/// The token's final value, which ends the other thread.
const OVER: u64 = u64::MAX;

/// How the clocks of the other CPUs compare with the first CPU's.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Across {
    /// The reference CPU. None if the machine has only one CPU.
    pub first_cpu: Option<usize>,
    /// One entry per other CPU and clock.
    pub apart: Vec<Apart>,
    /// CPUs that were not compared.
    pub skipped: Vec<Skipped>,
}

/// The clocks that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// The processor's cycle counter.
    CycleCounter,
    /// The kernel's monotonic clock.
    MonotonicClock,
}

/// The offset of another CPU's clock from the first CPU's.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Apart {
    /// The other CPU.
    pub cpu: usize,
    /// The clock that was compared.
    pub clock: Counter,
    /// The other clock minus the first CPU's clock, in nanoseconds: the middle of the possible range.
    /// None if the passes contradict each other, as when the clocks run at different rates.
    pub offset_ns: Option<f64>,
    /// The error bound of the offset: at most half of the shortest round trip.
    pub bound_ns: f64,
    /// How often a clock read less than the other CPU had read earlier, which means that time went backwards.
    pub steps_back: u64,
    /// The largest step backwards, in nanoseconds.
    pub step_back_ns_max: f64,
    /// The shortest round trip, in nanoseconds.
    pub round_trip_ns_min: f64,
    /// The number of passes.
    pub throws: u64,
}

/// The clock readings of one pass: this CPU, the other CPU, and this CPU again.
#[derive(Clone, Copy, Debug)]
struct Throw {
    before: u64,
    other: u64,
    after: u64,
}

/// Compares the first allowed CPU with at most `cpus_max` others.
pub(super) fn compare(cpus_max: usize, scale: &Scale, watch: &Watch<'_>) -> Across {
    let mut across = Across::default();
    let cpus: Vec<usize> = match thread::affinity() {
        Ok(cpus) => cpus.iter().collect(),
        Err(errno) => {
            across.skipped.push(Skipped { what: "clocks of different CPUs".to_owned(), why: errno.to_string() });
            return across;
        }
    };
    let Some((first, others)) = cpus.split_first().filter(|(_, others)| !others.is_empty()) else {
        let why = "we may run on one CPU only".to_owned();
        across.skipped.push(Skipped { what: "clocks of different CPUs".to_owned(), why });
        return across;
    };
    across.first_cpu = Some(*first);
    for (at, cpu) in others.iter().take(cpus_max).enumerate() {
        watch.progress(at as f64 / others.len().min(cpus_max) as f64, &format!("CPU {cpu}"));
        for clock in [Counter::CycleCounter, Counter::MonotonicClock] {
            match throws(*first, *cpu, clock, scale, watch) {
                Ok(Some(apart)) => across.apart.push(apart),
                Ok(None) => across.skip(*cpu, "it was taken offline or from us meanwhile, or did not run within 0.1 s"),
                Err(errno) => across.skip(*cpu, &errno.to_string()),
            }
        }
    }
    if others.len() > cpus_max {
        let what = format!("{} more CPUs", others.len() - cpus_max);
        across.skipped.push(Skipped { what, why: format!("at most {cpus_max} other CPUs are compared") });
    }
    across
}

impl Across {
    fn skip(&mut self, cpu: usize, why: &str) {
        let skipped = Skipped { what: format!("CPU {cpu}"), why: why.to_owned() };
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }
}

/// The position of the token: odd on its way to the other CPU, even on its way back.
#[derive(Default)]
struct Ball {
    at: AtomicU64,
    other: AtomicU64,
}

fn throws(
    first: usize,
    other: usize,
    clock: Counter,
    scale: &Scale,
    watch: &Watch<'_>,
) -> Result<Option<Apart>, Errno> {
    let ball = &Ball::default();
    let seen = std::thread::scope(|scope| {
        let (ready, is_ready) = sync_channel(1);
        let catcher = scope.spawn(move || catch(other, clock, ball, ready));
        let thrower = scope.spawn(move || {
            let is_ready = pin(first).and_then(|()| is_ready.recv().unwrap_or(Err(Errno::IO)));
            let thrown = is_ready.map(|()| throw(clock, ball, scale, watch));
            ball.at.store(OVER, Ordering::Release);
            thrown.map(|seen| (seen, is_still_on(first)))
        });
        let thrown = thrower.join().unwrap_or(Err(Errno::IO));
        let stayed = catcher.join().unwrap_or(false);
        thrown.map(|(seen, too)| seen.filter(|_| stayed && too))
    })?;
    let ns = |length: f64| match clock {
        Counter::CycleCounter => length * scale.length_ns(1_000_000_000) as f64 / 1e9,
        Counter::MonotonicClock => length,
    };
    Ok(seen.and_then(|bounds| bounds.apart(other, clock, ns)))
}

/// Passes the token until there are enough readings. None if the token never came back.
fn throw(clock: Counter, ball: &Ball, scale: &Scale, watch: &Watch<'_>) -> Option<Bounds> {
    let read = reader(clock);
    let until = tsc::ticks() + scale.ticks(PAIR_LIMIT_NS);
    let mut bounds = Bounds::default();
    for turn in 0..THROWS {
        if watch.stopped() {
            break;
        }
        let before = read();
        ball.at.store(turn * 2 + 1, Ordering::Release);
        while ball.at.load(Ordering::Acquire) != turn * 2 + 2 {
            if tsc::ticks() > until {
                return Some(bounds).filter(|bounds| bounds.throws > 0);
            }
            std::hint::spin_loop();
        }
        let after = read();
        bounds.add(Throw { before, other: ball.other.load(Ordering::Relaxed), after });
    }
    Some(bounds).filter(|bounds| bounds.throws > 0)
}

/// Passes the token back until the measurement ends. Returns whether the thread stayed on its CPU.
fn catch(cpu: usize, clock: Counter, ball: &Ball, ready: SyncSender<Result<(), Errno>>) -> bool {
    let pinned = pin(cpu);
    let is_pinned = pinned.is_ok();
    let _ = ready.send(pinned);
    if !is_pinned {
        return false;
    }
    let read = reader(clock);
    loop {
        match ball.at.load(Ordering::Acquire) {
            OVER => return is_still_on(cpu),
            at if at % 2 == 1 => {
                ball.other.store(read(), Ordering::Relaxed);
                // If the other thread has given up, do not overwrite its final value.
                let _ = ball.at.compare_exchange(at, at + 1, Ordering::AcqRel, Ordering::Relaxed);
            }
            _ => std::hint::spin_loop(),
        }
    }
}

/// A reading that is ordered after earlier instructions, where the processor supports that.
fn reader(clock: Counter) -> impl Fn() -> u64 {
    let in_order = InOrder::find();
    move || match (clock, in_order) {
        (Counter::CycleCounter, Some(in_order)) => in_order.ticks(),
        (Counter::CycleCounter, None) => tsc::ticks(),
        (Counter::MonotonicClock, _) => clock::monotonic_ns(),
    }
}

fn pin(cpu: usize) -> Result<(), Errno> {
    thread::set_affinity(&[cpu].into_iter().collect())
}

/// Whether the calling thread is still on `cpu`.
/// The kernel moves threads away from a CPU that goes offline, and then allows these threads on all CPUs.
fn is_still_on(cpu: usize) -> bool {
    let ours: CpuSet = [cpu].into_iter().collect();
    thread::affinity().is_ok_and(|now| now == ours)
}

/// The possible range after all passes so far, in the clock's own unit.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i64,
    high: i64,
    throws: u64,
    steps_back: u64,
    step_back_max: u64,
    round_trip_min: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { low: i64::MIN, high: i64::MAX, throws: 0, steps_back: 0, step_back_max: 0, round_trip_min: u64::MAX }
    }
}

impl Bounds {
    fn add(&mut self, throw: Throw) {
        // The counter may wrap around. Differences stay correct.
        let less = |one: u64, other: u64| one.wrapping_sub(other).cast_signed();
        let (to, fro) = (less(throw.other, throw.before), less(throw.after, throw.other));
        self.high = self.high.min(to);
        self.low = self.low.max(-fro);
        self.throws += 1;
        for step in [to, fro].into_iter().filter(|step| *step < 0) {
            self.steps_back += 1;
            self.step_back_max = self.step_back_max.max(step.unsigned_abs());
        }
        self.round_trip_min = self.round_trip_min.min(less(throw.after, throw.before).max(0).unsigned_abs());
    }

    fn apart(&self, cpu: usize, clock: Counter, ns: impl Fn(f64) -> f64) -> Option<Apart> {
        (self.throws > 0).then(|| {
            let (low, high) = (self.low as f64, self.high as f64);
            Apart {
                cpu,
                clock,
                offset_ns: (low <= high).then(|| ns((low + high) / 2.0)),
                bound_ns: ns((high - low).abs() / 2.0),
                steps_back: self.steps_back,
                step_back_ns_max: ns(self.step_back_max as f64),
                round_trip_ns_min: ns(self.round_trip_min as f64),
                throws: self.throws,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(throws: &[(u64, u64, u64)]) -> Apart {
        let mut bounds = Bounds::default();
        throws.iter().for_each(|(before, other, after)| {
            bounds.add(Throw { before: *before, other: *other, after: *after });
        });
        bounds.apart(1, Counter::CycleCounter, |ticks| ticks).unwrap()
    }

    #[test]
    fn passes_bound_the_offset_from_both_sides() {
        // The other CPU's clock is 50 ahead. The first pass takes 10 to the other CPU and 30 back, the second pass 30 and 10.
        let seen = apart(&[(100, 160, 140), (200, 280, 240)]);
        assert_eq!((seen.offset_ns, seen.bound_ns, seen.round_trip_ns_min), (Some(50.0), 10.0, 40.0));
        assert_eq!((seen.steps_back, seen.step_back_ns_max), (2, 40.0));
    }

    #[test]
    fn clocks_in_step_never_go_back() {
        let seen = apart(&[(100, 110, 140), (u64::MAX - 5, 3, 20)]);
        assert_eq!((seen.steps_back, seen.offset_ns), (0, Some(-4.0)));
        assert!(seen.offset_ns.unwrap().abs() <= seen.bound_ns);
    }

    #[test]
    fn clocks_that_drift_contradict_themselves() {
        // The other CPU's clock is first 100 ahead, and later 100 behind.
        let seen = apart(&[(1000, 1110, 1020), (2000, 1910, 2020)]);
        assert_eq!(seen.offset_ns, None);
    }
}
