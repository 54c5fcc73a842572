//! Records what one thread does, wake by wake, for the tests that play it again: beginning, length, time on a CPU, times preempted; in
//! nanoseconds, the beginning counted from the one before. What it was seen to wait for stands in lines of its own.
//!
//! usage: ticks_trace TID SECONDS

use evenkeel_measure::meters::ticks::watcher::Watcher;
use evenkeel_sys::clock;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<u64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [tid, seconds] = words[..] else { return Err("usage: ticks_trace TID SECONDS".into()) };
    let mut watcher = Watcher::of(u32::try_from(tid)?).map_err(|errno| errno.to_string())?;
    watcher.begin();
    clock::sleep_until_ns(clock::monotonic_ns() + seconds * 1_000_000_000);
    let window = watcher.end();
    let from_ns = window.from_ns;
    println!("# {:?}, reader {} ns of a CPU", window.unseen, window.reader_cpu_ns);
    for asked in &window.asked {
        let due = match asked.wait {
            evenkeel_sys::asleep::Wait::Until(ns) => format!("until {}", ns.saturating_sub(from_ns)),
            evenkeel_sys::asleep::Wait::For(ns) => format!("for {ns}"),
            other => format!("{other:?} 0").to_lowercase(),
        };
        println!("? {} {due}", asked.at_ns.saturating_sub(from_ns));
    }
    let mut last_ns = from_ns;
    for wake in &window.wakes {
        let (since, wall) = (wake.start_ns - last_ns, wake.end_ns - wake.start_ns);
        println!("{since} {wall} {} {}", wake.on_cpu_ns, wake.preempted);
        last_ns = wake.start_ns;
    }
    Ok(())
}
