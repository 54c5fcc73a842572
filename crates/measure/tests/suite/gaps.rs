//! Tests that the gaps meter refuses invalid requests, and ends with consistent sums when it is stopped.

use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_measure::Watch;
use evenkeel_measure::meters::gaps::{self, Class, Keep, Mode, Order, Settings, WindowSink};
use evenkeel_sys::thread;

fn settings(cpu: usize) -> Settings {
    Settings {
        cpus: Some([cpu].into_iter().collect()),
        length_ns: 3_600_000_000_000,
        threshold_ns: 1000,
        mode: Mode::Spin,
        order: Order::AllAtOnce,
        class: Class::Ordinary,
        keep: Keep::Longest(3),
        on_window: WindowSink::default(),
    }
}

fn last_cpu() -> usize {
    thread::affinity().unwrap().iter().last().unwrap()
}

#[test]
fn a_cpu_that_cannot_be_used_is_named() {
    let stop = AtomicBool::new(false);
    let watch = Watch::new(&stop, &|_, _| {});
    let beyond = last_cpu() + 1;
    let refused = gaps::run(&settings(beyond), &watch).unwrap_err().to_string();
    assert!(refused.starts_with(&format!("measure CPUs {beyond}: this process may use CPUs ")), "{refused}");
    assert!(gaps::run(&Settings { threshold_ns: 3, ..settings(last_cpu()) }, &watch).is_err());
}

#[test]
fn a_stop_ends_it_with_the_partial_data() {
    let stop = AtomicBool::new(false);
    let progress = |share: f64, _: &str| stop.store(share > 0.0, Ordering::Relaxed);
    let report = gaps::run(&settings(last_cpu()), &Watch::new(&stop, &progress)).unwrap();
    assert!(report.length_ns < 3_600_000_000_000, "it did not run for its hour");
    assert_eq!(report.cpus[0].gaps.len() as u64 + report.lost.count, report.all.count);
    assert_eq!(report.cpus[0].lengths.histogram.count(), report.all.count);
}

#[test]
fn a_stop_ends_spinning_and_sleeping_probes() {
    let sample = Settings { mode: Mode::Sample, ..settings(last_cpu()) };
    let gapless = Settings { threshold_ns: 3_000_000_000_000, ..settings(last_cpu()) };
    for settings in [sample, gapless] {
        let stop = AtomicBool::new(false);
        let progress = |share: f64, _: &str| stop.store(share > 0.0, Ordering::Relaxed);
        let report = gaps::run(&settings, &Watch::new(&stop, &progress)).unwrap();
        assert!(report.length_ns < 3_600_000_000_000, "it did not run for its hour");
    }
}
