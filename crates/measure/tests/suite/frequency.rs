//! Tests that the frequency meter reports every CPU, and ends when it is stopped.

use std::sync::atomic::AtomicBool;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::frequency::{self, Settings};
use evenkeel_sys::thread;

#[test]
fn a_stop_ends_it() {
    let stop = AtomicBool::new(true);
    let report = frequency::run(&Settings::default(), &Watch::new(&stop, &|_, _| {})).unwrap();
    assert!(report.cpus.is_empty() && report.lost.count > 0, "{report:?}");
}

#[test]
fn every_cpu_is_measured_alone_and_with_all_busy() {
    let settings = Settings { each_ns: 5_000_000, pairs_max: 1 };
    let report = frequency::run(&settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap();
    let seen: Vec<usize> = report.cpus.iter().map(|clock| clock.cpu).collect();
    assert_eq!(seen, thread::affinity().unwrap().iter().take(256).collect::<Vec<_>>());
    assert!(report.counter_khz > 1000);
    for clock in &report.cpus {
        assert!(clock.all_busy.is_some());
        if let Some(seen) = clock.alone.clock_khz.histogram.summary() {
            // The mean clock can't be more than the fastest sample.
            assert!(clock.alone.delivered_khz <= seen.max + seen.max / 100, "{clock:?}");
        }
    }
}
