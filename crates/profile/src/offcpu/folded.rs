//! Off-CPU intervals as folded stacks, weighted by their length in nanoseconds.
//! Off-CPU flame graphs and wake-up graphs are drawn from these stacks.

use super::interval::OffCpuInterval;
use crate::fold::{self, Base, Folded, WeightedStack};
use crate::names::Names;
use crate::recording::Recording;
use crate::stack::StackId;

/// The intervals by stack, with the reason as the innermost frame. The last interval of an ended thread has no length, so it is left out.
pub fn folded(recording: &Recording, names: &Names, intervals: &[OffCpuInterval], base: Base) -> Folded {
    let long = intervals.iter().filter(|interval| interval.span.length_ns() > 0);
    Folded::from(&fold::tree(recording, names, base, long.map(seen)))
}

/// An interval as a stack, weighted by the interval's length.
pub(super) fn seen(interval: &OffCpuInterval) -> WeightedStack {
    let OffCpuInterval { pid, tid, cpu, stack, reason, span, .. } = *interval;
    WeightedStack { pid, tid, cpu, stack, on_top: Some(reason.words()), weight: span.length_ns() }
}

/// The intervals with a known waker. Each stack has the waker's thread and stack, followed by the woken thread's stack.
pub fn woken(recording: &Recording, names: &Names, intervals: &[OffCpuInterval]) -> Folded {
    let mut folded = Folded::default();
    let line = |seen: WeightedStack| {
        let one = Folded::from(&fold::tree(
            recording,
            names,
            Base::Thread,
            std::iter::once(WeightedStack { weight: 1, ..seen }),
        ));
        one.lines.into_keys().next().unwrap_or_default()
    };
    let waker_of = |tid: u32, stack: StackId| {
        let pid = recording.threads.get(&tid).map_or(0, |thread| thread.pid);
        line(WeightedStack { pid, tid, cpu: 0, stack: Some(stack), on_top: None, weight: 1 })
    };
    for interval in intervals {
        let Some((by, Some(stack))) = interval.woken_by else { continue };
        folded.add(format!("{};{}", waker_of(by, stack), line(seen(interval))), interval.span.length_ns());
    }
    folded
}
