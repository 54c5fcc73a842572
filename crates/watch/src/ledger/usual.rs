//! `Usual`: the time that interrupts of each CPU usually take.
//!
//! A server with many players has interrupts all the time.
//! Within a second, all interrupts together take longer than one late tick is late. Each single interrupt is far too short to delay a tick.
//! Only time beyond the usual time can be the cause.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_hostfs::proc::{CpuTicks, TICK_NS};

use crate::sample::Sample;

/// The usual time is the time in the quietest of this many intervals.
const INTERVALS: usize = 16;
/// If interrupts take at least this share of a CPU, some of them delay each tick. So all of their time counts.
const STORM: f64 = 0.25;

/// The share of interrupts and softirqs in the time of each CPU, over the last intervals.
#[derive(Clone, Debug, Default)]
pub struct Usual {
    shares: BTreeMap<usize, VecDeque<f64>>,
}

impl Usual {
    /// Adds the interval between two samples.
    pub fn add(&mut self, before: &Sample, after: &Sample) {
        let elapsed_ns = after.at.monotonic_ns.saturating_sub(before.at.monotonic_ns);
        let (Ok(then), Ok(now)) = (&before.host.stat, &after.host.stat) else { return };
        self.shares.retain(|cpu, _| now.cpus.contains_key(cpu));
        for (cpu, now) in now.cpus.iter().filter(|_| elapsed_ns > 0) {
            let Some(then) = then.cpus.get(cpu) else { continue };
            let ns = interrupts(now).saturating_sub(interrupts(then)).saturating_mul(TICK_NS);
            let shares = self.shares.entry(*cpu).or_default();
            shares.push_back(ns as f64 / elapsed_ns as f64);
            if shares.len() > INTERVALS {
                shares.pop_front();
            }
        }
    }

    /// The part of `interrupts_ns` that the CPU usually has in an interval of this length. 0 if that part is unknown.
    pub(super) fn part_of(&self, interrupts_ns: u64, cpu: usize, elapsed_ns: u64) -> u64 {
        let least = self.shares.get(&cpu).into_iter().flatten().copied().reduce(f64::min).unwrap_or(0.0);
        match interrupts_ns as f64 >= elapsed_ns as f64 * STORM {
            true => 0,
            false => (least * elapsed_ns as f64) as u64,
        }
    }
}

fn interrupts(times: &CpuTicks) -> u64 {
    times.irq.saturating_add(times.softirq)
}
