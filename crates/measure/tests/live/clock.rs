//! Checks the clock meter. It must report the known cost of a call, even while the CPU is taken away.

use std::sync::atomic::AtomicBool;

use evenkeel_measure::disturb::{RtHog, Schedule};
use evenkeel_measure::meters::clock::{self, ClockPath, Report, Sources};
use evenkeel_measure::{MeterError, Samples, Watch};
use evenkeel_sys::{clock as time, thread};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

fn measure(calls: u64, cpus_max: usize) -> Report {
    let stop = AtomicBool::new(false);
    let settings = clock::Settings { calls, sources: Sources::Current, cpus_max };
    clock::run(settings, &Watch::new(&stop, &|_, _| {})).unwrap()
}

/// Measures on one CPU, which an RT hog can take.
fn measure_on(cpu: usize) -> Report {
    let body = move || {
        thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
        measure(200_000, 0)
    };
    std::thread::spawn(body).join().unwrap()
}

fn cost<'a>(report: &'a Report, call: &str) -> &'a Samples {
    let of_call = |samples: &&Samples| samples.conditions["call"] == call;
    report.sources[0].costs.iter().find(of_call).unwrap()
}

fn p50_ps(report: &Report, call: &str) -> f64 {
    cost(report, call).histogram.quantile(0.5).unwrap() as f64
}

#[test]
fn system_calls_cost_as_much_as_entering_the_kernel() {
    let _host = HostLock::take();
    fitness::one_of(3, &Needs::on_last_cpu().without_timers(), costs_are_reported);
}

fn costs_are_reported() -> Result<(), String> {
    let report = measure(100_000, 0);
    let source = &report.sources[0];
    let entered = p50_ps(&report, "empty_system_call");
    let ensure = |is_so: bool, what: &str| if is_so { Ok(()) } else { Err(format!("{what}: {:?}", source.costs)) };
    ensure(p50_ps(&report, "clock_gettime_by_system_call") > entered * 0.8, "by system call")?;
    // Two methods must agree: a thread that may not make the system call, and the cost of the call.
    for (call, way) in [("clock_gettime", &source.clock_gettime), ("gettimeofday", &source.gettimeofday)] {
        match way {
            ClockPath::UserSpace => {
                ensure(p50_ps(&report, call) < p50_ps(&report, "clock_gettime_by_system_call"), call)?
            }
            ClockPath::SystemCall => ensure(p50_ps(&report, call) > entered * 0.8, call)?,
            ClockPath::Unknown(why) => not_judged(format_args!("{call}: {why}")),
        }
    }
    assert_eq!(report.disturbed, Vec::<String>::new());
    assert!(source.loop_ratio == Some(1.0) && source.loop_100m_s.unwrap() > 0.0);
    Ok(())
}

#[test]
fn an_rt_hog_takes_time_but_makes_no_call_slower() {
    let _host = HostLock::take();
    let cpu = thread::affinity().unwrap().iter().last().unwrap();
    fitness::one_of(3, &Needs::on_cpu(cpu).without_timers(), || {
        let quiet = measure_on(cpu);
        let start_ns = time::monotonic_ns() + 1_000_000;
        let schedule = Schedule {
            start_ns,
            period_ns: 4_000_000,
            busy_ns: 2_000_000,
            jitter_ns: 500_000,
            jitter_adds_up: false,
            drift_ppm: 0.0,
            seed: 5,
        };
        let hog = match RtHog::start(cpu, 50, schedule, start_ns + 20_000_000_000) {
            Ok(hog) => hog,
            Err(MeterError::Refused { errno, .. }) if errno.is_denial() => {
                not_judged("this user may not have real-time threads");
                return Ok(());
            }
            Err(other) => panic!("{other}"),
        };
        let robbed = measure_on(cpu);
        assert!(!hog.stop().is_empty());
        let ratio = |call: &str| p50_ps(&robbed, call) / p50_ps(&quiet, call);
        let ratios = ["clock_gettime", "gettimeofday", "clock_gettime_by_system_call"].map(ratio);
        // The hog was active, because a batch that it interrupted took far longer.
        let longest = cost(&robbed, "clock_gettime_by_system_call").histogram.max().unwrap() as f64;
        let robbed_p50 = p50_ps(&robbed, "clock_gettime_by_system_call");
        let is_unmoved = ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.1);
        let is_right = is_unmoved && longest > robbed_p50 * 5.0;
        if is_right { Ok(()) } else { Err(format!("{ratios:?} {}", longest / robbed_p50)) }
    });
}
