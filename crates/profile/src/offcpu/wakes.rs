//! `Wakes`: which thread woke which thread, with stacks, from the tracepoint `sched:sched_waking`.
//! Tracepoints do not always fire, so the switches of the same recording show how complete the wake-ups are.

use std::collections::{BTreeMap, HashMap};

use super::interval::{Edges, OffCpuInterval, events_named};
use crate::recording::{Recording, Span, Turn};
use crate::stack::StackId;

/// The offset of the woken thread's number in the tracepoint's data: after eight common bytes and the thread name.
const WOKEN_AT: usize = 24;
/// The tracepoint is incomplete if a smaller share of sleeps ends with a recorded wake-up.
const WHOLE_SHARE: f64 = 0.95;
/// The minimum number of sleeps from which completeness is judged.
const LEAST: u64 = 20;

/// A wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) at_ns: u64,
    /// The waking thread. 0 if an interrupt on an idle CPU woke the thread.
    pub(super) by: u32,
    pub(super) stack: StackId,
}

/// All wake-ups, by woken thread.
#[derive(Debug, Default)]
pub(super) struct Wakes(HashMap<u32, Vec<Wake>>);

impl Wakes {
    pub(super) fn from_recording(recording: &Recording) -> Wakes {
        let events = events_named(recording, &["sched:sched_waking"]);
        let mut wakes = Wakes::default();
        for sample in recording.samples.iter().filter(|sample| events.contains(&sample.event)) {
            let start = sample.raw.0 as usize;
            let own = recording.raw.get(start..start.saturating_add(sample.raw.1 as usize));
            let word = own.and_then(|own| own.get(WOKEN_AT..WOKEN_AT + 4)).and_then(|word| word.try_into().ok());
            let Some(woken) = word.map(u32::from_ne_bytes) else { continue };
            let wake = Wake { at_ns: sample.at_ns, by: sample.tid, stack: sample.stack };
            wakes.0.entry(woken).or_default().push(wake);
        }
        wakes
    }

    /// The wake-up that ended this interval, if recorded.
    pub(super) fn of_interval(&self, tid: u32, span: Span) -> Option<Wake> {
        let of_thread = self.0.get(&tid)?;
        let after = of_thread.partition_point(|wake| wake.at_ns <= span.end_ns);
        let last = after.checked_sub(1).and_then(|at| of_thread.get(at))?;
        (last.at_ns >= span.start_ns).then_some(*last)
    }
}

/// How complete the wake-ups of a recording are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trust {
    /// Wake-ups were not recorded, or there are too few sleeps to judge.
    NotRecorded,
    /// Nearly every sleep ends with a recorded wake-up.
    Whole,
    /// Too many sleeps end without a recorded wake-up.
    /// The tracepoint does not always fire on this kernel, or the waking threads were not recorded.
    Lacking {
        /// The share of sleeps with a recorded wake-up, from 0 to 1, on the CPU with the smallest share.
        share: f64,
        /// The CPU with the smallest share.
        cpu: u32,
    },
}

pub(super) fn trust(recording: &Recording, intervals: &[OffCpuInterval]) -> Trust {
    if events_named(recording, &["sched:sched_waking"]).is_empty() {
        return Trust::NotRecorded;
    }
    let turns: HashMap<(u32, u64), Turn> =
        recording.switches.iter().map(|switch| ((switch.tid, switch.at_ns), switch.turn)).collect();
    let slept = |interval: &&OffCpuInterval| {
        interval.edges == Edges::Seen && turns.get(&(interval.tid, interval.span.start_ns)) == Some(&Turn::Slept)
    };
    let mut by_cpu: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for interval in intervals.iter().filter(slept) {
        let (woken, all) = by_cpu.entry(interval.cpu).or_default();
        *woken += u64::from(interval.woken_at_ns.is_some());
        *all += 1;
    }
    let shares = by_cpu.iter().filter(|(_, (_, all))| *all >= LEAST);
    let shares = shares.map(|(cpu, (woken, all))| (*cpu, *woken as f64 / *all as f64));
    match shares.min_by(|one, other| one.1.total_cmp(&other.1)) {
        None => Trust::NotRecorded,
        Some((_, share)) if share >= WHOLE_SHARE => Trust::Whole,
        Some((cpu, share)) => Trust::Lacking { share, cpu },
    }
}
