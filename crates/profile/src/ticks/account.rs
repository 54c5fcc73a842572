//! `account`: accounts for each nanosecond of a tick.
//! Switches give the exact time on and off the CPU. Samples only show where the thread ran.
//! Switches and samples together cover the tick's whole length, so every kind of stall is in the same sum.

use std::collections::{BTreeMap, HashSet};

use super::tick::{Spent, Tick};
use crate::names::Names;
use crate::offcpu::OffCpuInterval;
use crate::recording::{Recording, Sample, Unit};
use crate::stack::StackId;

/// While the thread runs, a clock takes one sample per period.
/// If this many periods have no sample, the CPU did not run, or the kernel paused sampling.
/// That time is not attributed to the stacks of other samples.
const PERIODS_WITHOUT: u64 = 4;

/// Kernel functions that handle a page fault.
const FAULT_HANDLERS: [&str; 6] =
    ["exc_page_fault", "asm_exc_page_fault", "handle_mm_fault", "do_user_addr_fault", "do_page_fault", "do_mem_abort"];

/// Time by kind and stack, in nanoseconds.
pub type Sums = BTreeMap<(Spent, Option<StackId>), u64>;

/// The time account of a tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Time on a CPU, in nanoseconds.
    pub ran_ns: u64,
    /// Time by kind and stack. The total is the tick's length.
    pub sums: Sums,
}

/// The samples of a tick's threads.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Time, stack and weight in nanoseconds, sorted by time.
    samples: Vec<(u64, StackId, u64)>,
    /// The stacks inside a page fault.
    faults: HashSet<StackId>,
    /// The sampling period in nanoseconds of CPU time. `None` if there are not enough samples.
    pub period_ns: Option<u64>,
}

impl Places {
    /// Collects the samples of the threads `tids`, whose off-CPU intervals are `life`.
    /// If several events were sampled, the event with most samples is used.
    pub fn from_recording(recording: &Recording, names: &Names, tids: &[u32], life: &[OffCpuInterval]) -> Places {
        let mut by_event: BTreeMap<u16, Vec<&Sample>> = BTreeMap::new();
        for sample in recording.samples.iter().filter(|sample| tids.contains(&sample.tid)) {
            if recording.events.get(usize::from(sample.event)).is_some_and(crate::recording::Event::is_on_cpu) {
                by_event.entry(sample.event).or_default().push(sample);
            }
        }
        let Some((event, samples)) = by_event.into_iter().max_by_key(|(_, samples)| samples.len()) else {
            return Places::default();
        };
        let is_time = recording.events.get(usize::from(event)).is_some_and(|event| event.unit == Unit::Nanoseconds);
        let weighed: u64 = samples.iter().fold(0, |sum, sample| sum.saturating_add(sample.weight));
        let ran_ns = ran(life);
        // Samples of counters have no times. Scale their weights so that the total is the time on CPU.
        let scale = if is_time || weighed == 0 { 1.0 } else { ran_ns as f64 / weighed as f64 };
        let of = |sample: &&Sample| (sample.at_ns, sample.stack, (sample.weight as f64 * scale) as u64);
        let samples: Vec<_> = samples.iter().map(of).collect();
        let mut weights: Vec<u64> = samples.iter().map(|(_, _, weight)| *weight).collect();
        weights.sort_unstable();
        let period_ns = weights.get(weights.len() / 2).copied().filter(|period| *period > 0);
        let stacks: HashSet<StackId> = samples.iter().map(|(_, stack, _)| *stack).collect();
        let faults = stacks.into_iter().filter(|stack| is_fault(recording, names, *stack)).collect();
        Places { samples, faults, period_ns }
    }

    fn within(&self, start_ns: u64, end_ns: u64) -> &[(u64, StackId, u64)] {
        let from = self.samples.partition_point(|(at_ns, ..)| *at_ns < start_ns);
        let to = self.samples.partition_point(|(at_ns, ..)| *at_ns < end_ns);
        self.samples.get(from..to).unwrap_or(&[])
    }
}

fn is_fault(recording: &Recording, names: &Names, stack: StackId) -> bool {
    recording
        .stacks
        .innermost_first(stack)
        .map(|frame| names.get(frame))
        .take_while(|named| named.is_kernel)
        .any(|named| named.functions.iter().any(|function| FAULT_HANDLERS.contains(&function.name.as_str())))
}

fn ran(life: &[OffCpuInterval]) -> u64 {
    life.windows(2).map(|pair| pair[1].span.start_ns.saturating_sub(pair[0].span.end_ns)).sum()
}

/// Accounts for a tick's time. `life` has all off-CPU intervals of its thread, sorted by time.
pub fn account(life: &[OffCpuInterval], places: &Places, tick: &Tick) -> Account {
    let mut account = Account::default();
    let mut add = |spent, stack, ns: u64| {
        if ns > 0 {
            let sum = account.sums.entry((spent, stack)).or_insert(0);
            *sum = sum.saturating_add(ns);
        }
    };
    add(Spent::Late, None, tick.lateness_ns());
    let (start_ns, end_ns) = (tick.begun_ns, tick.span.end_ns.max(tick.begun_ns));
    let first = life.partition_point(|interval| interval.span.end_ns <= start_ns);
    let mut without_ns = 0;
    for interval in life[first..].iter().take_while(|interval| interval.span.start_ns < end_ns) {
        let ns = interval.span.end_ns.min(end_ns).saturating_sub(interval.span.start_ns.max(start_ns));
        without_ns += ns;
        add(Spent::Without(interval.reason), interval.stack, ns);
    }
    let ran_ns = (end_ns - start_ns).saturating_sub(without_ns);
    let seen = places.within(start_ns, end_ns);
    let seen_ns: u64 = seen.iter().fold(0, |sum, (_, _, weight)| sum.saturating_add(*weight));
    let unsampled_ns = match places.period_ns {
        Some(period_ns) if seen_ns > 0 => {
            let missing_ns = ran_ns.saturating_sub(seen_ns);
            if missing_ns > PERIODS_WITHOUT.saturating_mul(period_ns) { missing_ns } else { 0 }
        }
        _ => ran_ns,
    };
    let sampled_ns = ran_ns - unsampled_ns;
    // Round the running sums, not each part. So the parts add up exactly to the whole.
    let (mut before, mut given_ns) = (0_u64, 0_u64);
    for (_, stack, weight) in seen {
        before = before.saturating_add(*weight);
        let up_to_ns = (u128::from(sampled_ns) * u128::from(before) / u128::from(seen_ns.max(1))) as u64;
        let spent = if places.faults.contains(stack) { Spent::Faulted } else { Spent::Ran };
        add(spent, Some(*stack), up_to_ns - given_ns);
        given_ns = up_to_ns;
    }
    add(Spent::Unsampled, None, ran_ns - given_ns);
    account.ran_ns = ran_ns;
    account
}
