//! `Bare`: threads that only sleep and wake while a trial runs. They show the effect of the machine on any thread.
//! A trial may end because it dropped too many windows.
//! The check accepts that only if these threads saw as many disturbances.
//! Otherwise the rule that drops windows is wrong, or the trial disturbed itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evenkeel_sys::{CpuSet, thread};
use evenkeel_testkit::live::not_judged;
use serde_json::Value;

/// The period of the threads. A trial checks for pauses at the same interval.
const PERIOD: Duration = Duration::from_millis(5);
/// The minimum length of a pause.
/// It is half of the length that drops a window, because two threads on one CPU do not wake at the same moment.
const PAUSE: Duration = Duration::from_millis(20);
/// The minimum share of stolen time that excuses a trial:
/// half of the share that drops a window (0.1), spread over eight windows.
/// A trial runs out of spare pairs only if one window in eight is dropped, which is one pair in four.
const STOLEN_SHARE: f64 = 0.1 / 16.0;

/// One thread on each CPU that this process may use. The threads run until the test reads their results.
pub(crate) struct Bare {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<usize>>,
    ticks: [u64; 2],
}

impl Bare {
    pub(crate) fn start() -> Bare {
        let stop = Arc::new(AtomicBool::new(false));
        let on = |cpu: usize| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                thread::set_affinity(&CpuSet::from_iter([cpu])).unwrap();
                let mut pauses = 0;
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    std::thread::sleep(PERIOD);
                    pauses += usize::from(begun.elapsed() > PERIOD + PAUSE);
                }
                pauses
            })
        };
        let threads = thread::affinity().unwrap().iter().map(on).collect();
        Bare { stop, threads, ticks: ticks() }
    }

    /// Fails unless the threads saw enough disturbances to explain the windows that a trial dropped.
    pub(crate) fn excuses(mut self, dropped: &Value) {
        let [stolen, total] = ticks();
        let stolen_share = (stolen - self.ticks[0]) as f64 / (total - self.ticks[1]).max(1) as f64;
        self.stop.store(true, Ordering::Relaxed);
        let pauses = std::mem::take(&mut self.threads).into_iter().map(|thread| thread.join().unwrap()).sum();
        is_enough(dropped, pauses, stolen_share).unwrap();
        not_judged(format_args!(
            "bare threads paused {pauses} times, {stolen_share:.3} of all time was stolen: {dropped}"
        ));
    }
}

impl Drop for Bare {
    /// End the threads, so that the next measurement runs without them.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Whether the disturbances explain the dropped windows.
/// If a window took too long without a pause or stolen time, the trial itself was late.
fn is_enough(dropped: &Value, pauses: usize, stolen_share: f64) -> Result<(), String> {
    let dropped = dropped.as_array().unwrap();
    let by = |reason: &str| dropped.iter().filter(|dropped| dropped["reason"].get(reason).is_some()).count();
    let (paused, stolen) = (by("gap"), by("steal"));
    let seen = format!(
        "bare threads paused {pauses} times, {stolen_share:.3} was stolen; of {} windows {paused} were dropped for a pause, {stolen} for what was stolen",
        dropped.len()
    );
    if dropped.is_empty() || paused + stolen < dropped.len().div_ceil(2) {
        return Err(format!("the machine's disturbances do not explain the dropped windows: {seen}: {dropped:?}"));
    }
    // A pause at the border of two windows drops both windows.
    if pauses * 2 < paused || (stolen > 0 && stolen_share < STOLEN_SHARE) {
        Err(format!("the machine did not cause the dropped windows: {seen}"))
    } else {
        Ok(())
    }
}

/// The stolen and the total CPU time since boot.
fn ticks() -> [u64; 2] {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let numbers: Vec<u64> =
        stat.lines().next().unwrap().split(' ').filter_map(|word| word.parse().ok()).take(8).collect();
    [numbers[7], numbers.iter().sum()]
}

#[test]
fn only_what_the_machine_did_is_an_excuse() {
    let gaps = |count: usize| vec![serde_json::json!({ "reason": { "gap": { "gap_us": 50_000.0 } } }); count];
    let steals = |count: usize| vec![serde_json::json!({ "reason": { "steal": { "share": 0.3 } } }); count];
    let late = |count: usize| vec![serde_json::json!({ "reason": { "overrun": { "span_us": 5.0 } } }); count];
    let table = [
        (gaps(8), 4, 0.0, true),
        (gaps(8), 3, 0.0, false),
        (steals(4), 0, 0.05, true),
        (steals(4), 9, 0.0, false),
        ([gaps(2), steals(2), late(3)].concat(), 1, 0.05, true),
        ([gaps(2), late(3)].concat(), 9, 0.0, false),
        (Vec::new(), 9, 0.5, false),
    ];
    for (dropped, pauses, stolen_share, expected) in table {
        let dropped = Value::from(dropped);
        assert_eq!(is_enough(&dropped, pauses, stolen_share).is_ok(), expected, "{dropped} {pauses} {stolen_share}");
    }
}
