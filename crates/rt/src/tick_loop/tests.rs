//! Tests the whole loop on the real clock. The results do not depend on timing.

use super::*;
#[cfg(target_os = "linux")]
use crate::telemetry::{Count, TelemetryReader};

const FAST: Duration = Duration::from_millis(2);

#[test]
fn dropping_the_guard_ends_the_tick() {
    let mut ticks = TickLoop::builder().period(FAST).align(Align::Never).build().unwrap();
    for number in 0..5 {
        let tick = ticks.wait();
        assert!(tick.number >= number && tick.elapsed() == FAST * (1 + tick.missed as u32));
    }
    let report = ticks.report();
    assert_eq!((report.ticks, report.work_ns.unwrap().count), (5, 5), "the last one too");
    std::mem::forget(ticks.wait());
    let done = ticks.wait().done();
    assert!(done.done_ns >= done.tick.began_ns);
    assert_eq!(ticks.report().work_ns.unwrap().count, 7, "a leaked guard's tick ends with the next wait");
}

#[test]
fn a_detached_tick_stays_open_until_done() {
    let mut ticks = TickLoop::builder().period(FAST).align(Align::Never).build().unwrap();
    assert_eq!((ticks.poll().map(TickGuard::detach), ticks.done()), (None, None), "the first tick is a period away");
    evenkeel_sys::clock::sleep_until_ns(ticks.next_due_ns());
    let tick = ticks.poll().expect("it is due").detach();
    ticks.checkpoint();
    assert!(ticks.report().work_ns.is_none(), "it is still open");
    assert_eq!(ticks.done().map(|done| done.tick), Some(tick));
    assert_eq!((ticks.done(), ticks.report().work_ns.unwrap().count), (None, 1));
    ticks.wait().detach();
    drop(ticks.wait());
    assert_eq!(ticks.report().work_ns.unwrap().count, 3, "the next wait ends it too");
}

#[test]
fn a_panic_in_a_tick_ends_it_too() {
    let mut ticks = TickLoop::builder().period(FAST).align(Align::Never).build().unwrap();
    let tick = std::panic::AssertUnwindSafe(|| {
        let _tick = ticks.wait();
        panic!("in the work");
    });
    assert!(std::panic::catch_unwind(tick).is_err());
    assert_eq!(ticks.report().work_ns.unwrap().count, 1);
}

#[test]
fn a_period_of_0_is_an_error_before_the_thread_is_changed() {
    let refused = |builder: TickLoopBuilder| builder.build().unwrap_err().to_string();
    let expected = "the tick period is 0: set one of at least a nanosecond";
    assert_eq!(refused(TickLoop::builder().period(Duration::ZERO)), expected);
    assert_eq!(refused(TickLoop::builder().rate_hz(0)), expected);
    let ladder = RateSettings { ladder: vec![], ..RateSettings::default() };
    assert!(refused(TickLoop::builder().adaptive_rate(ladder)).starts_with("a ladder of tick periods"));
}

#[cfg(target_os = "linux")]
#[test]
fn every_part_gets_every_tick() {
    let folder = tempfile::tempdir().unwrap();
    let page = TelemetrySettings { folder: Some(folder.path().into()), ..TelemetrySettings::named("loop") };
    // The calls are in arbitrary order: the builder applies the settings in the correct order.
    let builder = TickLoop::builder().telemetry(page).align(Align::Never).memory(MemoryConfig::default());
    let builder = builder.adaptive_rate(RateSettings {
        ladder: vec![FAST, 5 * FAST],
        phase: RatePhase::between(FAST, 5 * FAST),
        ..RateSettings::default()
    });
    let mut ticks = builder.period(FAST).build().unwrap();
    assert_eq!(ticks.period(), FAST, "the period chooses the first rung");
    let reader = TelemetryReader::open(ticks.telemetry_path().unwrap()).unwrap();
    for _ in 0..4 {
        let tick = ticks.wait();
        tick.counters().unwrap().add(Count::Jobs, 3);
    }
    let read = reader.read().unwrap();
    assert_eq!((read.ticks, read.period_ns, read.count(Count::Jobs)), (4, Some(2_000_000), Some(12)));
    assert!(read.faults.is_some() && ticks.setup().memory.is_some());
    ticks.wait().enter_phase(RatePhase::between(5 * FAST, 5 * FAST));
    assert_eq!(ticks.period(), 5 * FAST);
    drop(ticks.wait());
    assert_eq!(reader.read().unwrap().period_ns, Some(10_000_000), "readers see the new period");
}

#[cfg(target_os = "linux")]
#[test]
fn the_setup_report_names_what_is_missing() {
    let fine = SetupReport { thread: None, memory: None };
    assert_eq!(fine.to_string(), "");
    let body = || {
        let nowhere = ThreadConfig { cpus: Some(crate::CpuSet::default()), ..ThreadConfig::unchanged() };
        TickLoop::builder().thread(nowhere).align(Align::Never).build().unwrap().setup().to_string()
    };
    let printed = std::thread::spawn(body).join().unwrap();
    assert!(printed.starts_with("the thread is not pinned to its CPUs, invalid argument (EINVAL): "), "{printed}");
}
