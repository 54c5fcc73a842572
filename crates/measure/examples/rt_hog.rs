//! The thief by itself, for what is not in this process: a virtual CPU's thread, robbed from outside.
//!
//! usage: thief CPU PERIOD_MS SHARE JITTER SECONDS; SHARE is what it leaves of the period, JITTER how far each beginning is off, as a share
//! of it. It says when it runs, and how late it began at the worst when it is done.

use evenkeel_measure::disturb::{RtHog, Schedule};
use evenkeel_sys::clock;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<f64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [cpu, period_ms, share, jitter, seconds] = numbers[..] else {
        return Err("usage: thief CPU PERIOD_MS SHARE JITTER SECONDS".into());
    };
    let ns = |ms: f64| (ms * 1e6) as u64;
    let start_ns = clock::monotonic_ns() + 1_000_000;
    let until_ns = start_ns + ns(seconds * 1e3);
    let schedule = Schedule {
        start_ns,
        period_ns: ns(period_ms),
        busy_ns: ns(period_ms * (1.0 - share)),
        jitter_ns: ns(period_ms * jitter),
        jitter_adds_up: false,
        drift_ppm: 0.0,
        seed: 1,
    };
    let thief = RtHog::start(cpu as usize, 60, schedule, until_ns)?;
    println!("thief: {period_ms} ms, leaves {share}");
    clock::sleep_until_ns(until_ns);
    let taken = thief.stop();
    let shortest = taken.iter().map(|taken| taken.end_ns - taken.start_ns).min().unwrap_or(0);
    println!("thief: took the CPU {} times, for {:.3} ms at the shortest", taken.len(), shortest as f64 / 1e6);
    Ok(())
}
