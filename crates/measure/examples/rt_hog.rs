//! Runs the real-time hog alone, to take a CPU from a thread outside this process, such as the thread of a virtual CPU.
//!
//! usage: rt_hog CPU PERIOD_MS SHARE JITTER SECONDS.
//! SHARE is the share of the period that the hog leaves to others.
//! JITTER is how far each stretch may be off, as a share of the period.
//! The program prints when the hog starts and, at the end, the hog's largest lateness.

use evenkeel_measure::disturb::{RtHog, Schedule};
use evenkeel_sys::clock;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<f64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [cpu, period_ms, share, jitter, seconds] = numbers[..] else {
        return Err("usage: rt_hog CPU PERIOD_MS SHARE JITTER SECONDS".into());
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
    let hog = RtHog::start(cpu as usize, 60, schedule, until_ns)?;
    println!("rt_hog: {period_ms} ms, leaves {share}");
    clock::sleep_until_ns(until_ns);
    let taken = hog.stop();
    let shortest = taken.iter().map(|taken| taken.end_ns - taken.start_ns).min().unwrap_or(0);
    println!("rt_hog: took the CPU {} times, for {:.3} ms at the shortest", taken.len(), shortest as f64 / 1e6);
    Ok(())
}
