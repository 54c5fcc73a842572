//! Checks a CPU's clock while another thread uses the CPU.
//! The clock must not change, and the delivered cycles must fall by the share that the other thread took.

use std::sync::atomic::AtomicBool;

use evenkeel_measure::disturb::{RtHog, Schedule};
use evenkeel_measure::meters::frequency::{self, Counter, CpuClock, Report, Settings};
use evenkeel_measure::{MeterError, Watch};
use evenkeel_sys::{clock, thread};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

fn measured() -> Report {
    let stop = AtomicBool::new(false);
    let settings = Settings { each_ns: 150_000_000, pairs_max: 1 };
    frequency::run(&settings, &Watch::new(&stop, &|_, _| {})).unwrap()
}

fn clock_of(report: &Report, cpu: usize) -> &CpuClock {
    report.cpus.iter().find(|clock| clock.cpu == cpu).unwrap()
}

fn is_emulated() -> bool {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cpuinfo.contains("TCG") || cpuinfo.contains("QEMU Virtual CPU")
}

#[test]
fn time_taken_from_a_cpu_is_missing_in_delivered_cycles() {
    let _host = HostLock::take();
    let cpu = thread::affinity().unwrap().iter().last().unwrap();
    fitness::one_of(3, &Needs::on_cpu(cpu).without_timers(), || {
        let quiet = measured();
        let schedule = Schedule {
            start_ns: clock::monotonic_ns(),
            period_ns: 5_000_000,
            busy_ns: 2_000_000,
            jitter_ns: 0,
            jitter_adds_up: false,
            drift_ppm: 0.0,
            seed: 1,
        };
        let hog = match RtHog::start(cpu, 20, schedule, clock::monotonic_ns() + 10_000_000_000) {
            Ok(hog) => hog,
            Err(MeterError::Refused { errno, .. }) if errno.is_denial() => {
                not_judged("no right to real-time threads");
                return Ok(());
            }
            Err(error) => panic!("{error}"),
        };
        let robbed = measured();
        drop(hog);
        let clock_khz = |report: &Report| clock_of(report, cpu).alone.clock_khz.histogram.summary().unwrap().p50 as f64;
        let unmoved = clock_khz(&robbed) / clock_khz(&quiet);
        let delivered = clock_of(&robbed, cpu).alone.delivered_khz as f64 / clock_khz(&robbed);
        println!("clock {:.0} kHz, robbed to clock {unmoved:.3}, delivered {delivered:.3}", clock_khz(&quiet));
        // The hog takes two of every five milliseconds. A neighbour on the machine can only take more.
        let is_right = (0.95..1.05).contains(&unmoved) && (0.54..0.63).contains(&delivered);
        if is_right { Ok(()) } else { Err(format!("{unmoved} {delivered}")) }
    });
}

#[test]
fn a_multiplication_takes_three_additions() {
    let _host = HostLock::take();
    // A change of the clock, or work on the same core, affects the result.
    fitness::one_of(3, &Needs::on_last_cpu().without_timers(), || is_as_expected(&measured()));
}

fn is_as_expected(report: &Report) -> Result<(), String> {
    match report.assumption.multiply_to_add {
        Some(ratio) if is_emulated() => not_judged(format_args!("an emulated CPU has no cycles ({ratio:.2})")),
        Some(ratio) if !report.assumption.holds.unwrap() => return Err(format!("multiply to add: {ratio}")),
        Some(_) => {}
        None => not_judged("nothing is known of this processor's multiplications"),
    }
    assert!(report.counter_khz > 1000);
    for clock in &report.cpus {
        let seen = clock.alone.clock_khz.histogram.summary().unwrap();
        // The delivered clock cannot exceed the fastest sample.
        assert!(clock.alone.delivered_khz <= seen.max + seen.max / 100, "{clock:?}");
        assert!(clock.all_busy.is_some());
        if let Counter::Khz(khz) = clock.alone.aperf_mperf {
            let ratio = khz as f64 / seen.p50 as f64;
            if !is_emulated() && !(0.9..1.1).contains(&ratio) {
                return Err(format!("delivered to the processor's own count: {ratio}"));
            }
        }
    }
    for vector in &report.vectors {
        assert!(vector.after_to_before.is_some_and(|ratio| ratio > 0.2), "{vector:?}");
    }
    Ok(())
}
