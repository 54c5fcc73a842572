//! When the tick's thread was woken, by the kernel's records of wake-ups. Pure.

use evenkeel_measure::meters::ticks::stream::ThreadLog;
use evenkeel_sys::perf_wakers::Woken;

/// The wake-up that began this wake of a thread: the last one since the thread slept. None if the records do not show it.
pub(super) fn wake_up(thread: &ThreadLog, at: usize) -> Option<Woken> {
    let recorded_from_ns = thread.woken_from_ns?;
    let (slept_ns, start_ns) = (thread.wakes.get(at.checked_sub(1)?)?.end_ns, thread.wakes.get(at)?.start_ns);
    let until = thread.woken.partition_point(|woken| woken.at_ns <= start_ns);
    let last = thread.woken[..until].last().copied();
    last.filter(|woken| woken.at_ns > slept_ns && slept_ns >= recorded_from_ns)
}

/// The index of the wake that began at this time.
pub(super) fn wake_from(thread: &ThreadLog, start_ns: u64) -> Option<usize> {
    thread.wakes.binary_search_by_key(&start_ns, |wake| wake.start_ns).ok()
}

/// How long the thread was ready before it got the CPU for the wake that began at this time, in nanoseconds.
pub(super) fn ready_ns(thread: &ThreadLog, start_ns: u64) -> Option<u64> {
    Some(start_ns.saturating_sub(wake_up(thread, wake_from(thread, start_ns)?)?.at_ns))
}

/// From a due time until the thread got a CPU, or until the next due time: this time, and the part of it in which the thread was ready.
pub(super) fn ready_after(thread: &ThreadLog, due_ns: u64, next_ns: u64) -> Option<(u64, u64)> {
    let next = thread.wakes.partition_point(|wake| wake.start_ns <= due_ns);
    let woken_ns = wake_up(thread, next)?.at_ns;
    let until_ns = thread.wakes.get(next)?.start_ns.min(next_ns);
    Some((until_ns.saturating_sub(due_ns), until_ns.saturating_sub(woken_ns.max(due_ns))))
}
