//! The setup of a clock's helper threads, which must not disturb the ticks.

use evenkeel_sys::{CpuSet, sched, thread};

/// A low priority: nearly all other threads run first.
const NICE: i32 = 15;

/// Gives the calling thread the ordinary scheduling class and a low priority. Moves it to CPUs without ticks, if there are any.
/// A new thread inherits the class and the CPUs of the thread that ticks.
pub(crate) fn give_way(tickers: &CpuSet) {
    let _ = (sched::set_ordinary(None), thread::set_nice(NICE));
    let all = thread::process_affinity().unwrap_or_default();
    let others: CpuSet = all.iter().filter(|cpu| !tickers.contains(*cpu)).collect();
    let _ = thread::set_affinity(if others.is_empty() { &all } else { &others });
}
