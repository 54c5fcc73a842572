//! `Usual`: the time that interrupts, the hypervisor and stalls usually take.
//!
//! A server with many players has interrupts all the time. In a second they take more time than one late tick is late, although each is
//! far too short to delay a tick. The same holds for a hypervisor that often takes a CPU for a moment, and for other programs that wait for
//! disks. Only the time beyond the usual one can be the cause.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_hostfs::proc::{CpuTicks, TICK_NS};
use evenkeel_sys::stall::Stalls;

use crate::sample::{Counted, Sample};

/// The usual time is the time in the quietest of this many intervals.
const INTERVALS: usize = 16;
/// If interrupts or the hypervisor have at least this share of a CPU, each tick meets some of their time. Then all of that time counts.
const STORM: f64 = 0.25;

/// The shares of the last intervals.
#[derive(Clone, Debug, Default)]
pub struct Usual {
    interrupts: BTreeMap<usize, VecDeque<f64>>,
    steal: BTreeMap<usize, VecDeque<f64>>,
    stalled: VecDeque<f64>,
}

/// Times of an interval, or the usual part of these times. In nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsualTimes {
    /// The time of interrupts and softirqs on the CPU of the tick's thread.
    pub interrupts_ns: u64,
    /// The time that the hypervisor took from that CPU.
    pub steal_ns: u64,
    /// The time in which threads of the host waited for disks or memory.
    pub stalled_ns: u64,
}

impl Usual {
    /// Adds the interval between two samples.
    pub fn add(&mut self, before: &Sample, after: &Sample) {
        let elapsed_ns = after.at.monotonic_ns.saturating_sub(before.at.monotonic_ns);
        if elapsed_ns == 0 {
            return;
        }
        if let Some(ns) = stalled_ns(before, after) {
            push(&mut self.stalled, ns, elapsed_ns);
        }
        let (Ok(then), Ok(now)) = (&before.host.stat, &after.host.stat) else { return };
        for shares in [&mut self.interrupts, &mut self.steal] {
            shares.retain(|cpu, _| now.cpus.contains_key(cpu));
        }
        for (cpu, now) in &now.cpus {
            let Some(then) = then.cpus.get(cpu) else { continue };
            let grown_ns = |of: fn(&CpuTicks) -> u64| of(now).saturating_sub(of(then)).saturating_mul(TICK_NS);
            push(self.interrupts.entry(*cpu).or_default(), grown_ns(interrupts), elapsed_ns);
            push(self.steal.entry(*cpu).or_default(), grown_ns(|times| times.steal), elapsed_ns);
        }
    }

    /// The part of the interrupts and of the steal that this CPU usually has in such an interval, and of the stalls that the host usually
    /// has. 0 if that is unknown.
    pub(super) fn parts_of(&self, times: UsualTimes, cpu: Option<usize>, elapsed_ns: u64) -> UsualTimes {
        let of_cpu = |all: &BTreeMap<usize, VecDeque<f64>>, ns: u64| {
            let is_storm = ns as f64 >= elapsed_ns as f64 * STORM;
            cpu.filter(|_| !is_storm).and_then(|cpu| all.get(&cpu)).map_or(0, |shares| least(shares, elapsed_ns))
        };
        UsualTimes {
            interrupts_ns: of_cpu(&self.interrupts, times.interrupts_ns),
            steal_ns: of_cpu(&self.steal, times.steal_ns),
            stalled_ns: least(&self.stalled, elapsed_ns),
        }
    }
}

fn push(shares: &mut VecDeque<f64>, ns: u64, elapsed_ns: u64) {
    shares.push_back(ns as f64 / elapsed_ns as f64);
    if shares.len() > INTERVALS {
        shares.pop_front();
    }
}

fn least(shares: &VecDeque<f64>, elapsed_ns: u64) -> u64 {
    (shares.iter().copied().reduce(f64::min).unwrap_or(0.0) * elapsed_ns as f64) as u64
}

fn interrupts(times: &CpuTicks) -> u64 {
    times.irq.saturating_add(times.softirq)
}

/// How long threads of the host waited for disks or memory between two samples. None if one of them is unknown.
pub(super) fn stalled_ns(before: &Sample, after: &Sample) -> Option<u64> {
    let stalls = |of: fn(&Sample) -> &Counted<Stalls>| {
        let (then, now) = of(before).as_ref().ok().zip(of(after).as_ref().ok())?;
        now.some_us.checked_sub(then.some_us)?.checked_mul(1000)
    };
    let io_ns = stalls(|sample| &sample.host.pressure.io);
    let memory_ns = stalls(|sample| &sample.host.pressure.memory);
    io_ns.zip(memory_ns).map(|(io, memory)| io.max(memory))
}
