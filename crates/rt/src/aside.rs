//! What a helper thread of a clock does first, so that it does not disturb the ticks.

use evenkeel_sys::{CpuSet, sched, thread};

/// It gives way to nearly everything.
const NICE: i32 = 15;

/// What the thread inherits is the tick's: an ordinary class instead, and another CPU where there is one.
pub(crate) fn step_back(tickers: &CpuSet) {
    let _ = (sched::set_ordinary(None), thread::set_nice(NICE));
    let all = thread::process_affinity().unwrap_or_default();
    let others: CpuSet = all.iter().filter(|cpu| !tickers.contains(*cpu)).collect();
    let _ = thread::set_affinity(if others.is_empty() { &all } else { &others });
}
