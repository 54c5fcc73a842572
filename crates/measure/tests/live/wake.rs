//! Checks the wake meter. It must report a disturbance of known size with that size.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_hostfs::proc::parse_stat;
use evenkeel_measure::disturb::{RtHog, Schedule, Taken};
use evenkeel_measure::meters::wake::{self, Cell, Kind, Report, Settings, Variant};
use evenkeel_measure::{MeterError, Watch};
use evenkeel_sys::{clock, thread};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

/// The number of runs. Machines pause, so one of three runs must succeed.
const TRIES: usize = 3;

fn settings(kind: Kind, variants: &[Variant], gap_ns: u64) -> Settings {
    Settings {
        duration_ns: 1_000_000_000,
        gaps_ns: vec![gap_ns],
        kinds: vec![kind],
        variants: variants.to_vec(),
        cpus: None,
        plain_slack_ns: None,
        waker_delay_ns: 0,
        seed: 1,
    }
}

fn measure(settings: &Settings) -> Report {
    let stop = AtomicBool::new(false);
    wake::run(settings, &Watch::new(&stop, &|_, _| {})).unwrap()
}

fn cell(report: &Report, variant: Variant) -> Option<&Cell> {
    report.cells.iter().find(|cell| cell.variant == variant)
}

/// A quantile in nanoseconds. NaN if every wake was lost, so that every comparison fails.
fn quantile_ns(report: &Report, variant: Variant, q: f64) -> f64 {
    cell(report, variant).and_then(|cell| cell.latency.histogram.quantile(q)).map_or(f64::NAN, |ns| ns as f64)
}

/// Whether the machine is mostly idle apart from the test. If not, the cost of leaving idle cannot be checked.
fn is_quiet() -> bool {
    let stat = || parse_stat(&std::fs::read_to_string("/proc/stat").unwrap()).unwrap();
    let before = stat();
    clock::sleep_until_ns(clock::monotonic_ns() + 500_000_000);
    // The window has 50 ticks of 10 ms on each CPU.
    stat().all.unwrap().since(&before.all.unwrap()).idle > 35 * before.cpus.len() as u64
}

/// Repeats a run until it succeeds, in three attempts during which other work did not keep the machine busy.
fn one_of_three(what: &str, run: impl Fn() -> Result<(), String>) {
    let busy = || (!is_quiet()).then(|| "other work keeps this machine busy".to_owned());
    let unmet = || Needs::on_last_cpu().unmet().or_else(busy);
    fitness::one_of_by(TRIES, || run().map_err(|why| format!("{what}: {why}")), unmet);
}

fn near(seen: f64, wanted: f64, share: f64) -> Result<(), String> {
    if (seen - wanted).abs() <= wanted * share { Ok(()) } else { Err(format!("{seen} instead of {wanted}")) }
}

#[test]
fn slack_reads_back_as_slack() {
    let _host = HostLock::take();
    for slack_ns in [200_000, 1_000_000] {
        one_of_three("slack", || {
            let mut settings = settings(Kind::Timer, &[Variant::Plain, Variant::Slack1], 2_000_000);
            settings.plain_slack_ns = NonZeroU64::new(slack_ns);
            let report = measure(&settings);
            assert_eq!(report.plain_slack_ns, Some(slack_ns));
            let slack = report.parts[0].slack.ok_or("no part")?;
            near(slack.ns, slack_ns as f64, 0.1)
        });
    }
    // A timerfd has no slack.
    let report = measure(&settings(Kind::Timerfd, &[Variant::Plain, Variant::Slack1], 2_000_000));
    assert!(cell(&report, Variant::Slack1).is_none() && report.parts[0].slack.is_none());
}

#[test]
fn a_delayed_waker_is_late_by_its_delay() {
    let _host = HostLock::take();
    if thread::affinity().unwrap().iter().count() < 2 {
        not_judged("it takes two CPUs");
        return;
    }
    for (kind, delay_ns) in [(Kind::Futex, 300_000), (Kind::Udp, 300_000), (Kind::Futex, 1_000_000)] {
        one_of_three(kind.name(), || {
            let mut settings = settings(kind, &[Variant::Plain, Variant::Spinning], 500_000);
            let before = measure(&settings);
            settings.waker_delay_ns = delay_ns;
            let late = measure(&settings);
            // Sleeping and spinning waiters must both show the delay.
            for variant in [Variant::Plain, Variant::Spinning] {
                near(quantile_ns(&late, variant, 0.5) - quantile_ns(&before, variant, 0.5), delay_ns as f64, 0.1)?;
            }
            Ok(())
        });
    }
}

/// The latencies of a sleeper under the stretches of an RT hog, by the hog's own record. The sleeps have the same gap and follow one another.
fn foreseen_ns(taken: &[Taken], gap_ns: u64) -> Vec<u64> {
    let (Some(first), Some(last)) = (taken.first(), taken.last()) else { return Vec::new() };
    let mut now_ns = first.start_ns;
    let mut at = 0;
    let mut latencies = Vec::new();
    while now_ns < last.end_ns {
        let due_ns = now_ns + gap_ns;
        while taken.get(at).is_some_and(|taken| taken.end_ns <= due_ns) {
            at += 1;
        }
        let until_ns = taken.get(at).filter(|taken| taken.start_ns <= due_ns).map_or(due_ns, |taken| taken.end_ns);
        latencies.push(until_ns - due_ns);
        now_ns = until_ns;
    }
    latencies.sort_unstable();
    latencies
}

#[test]
fn an_rt_hog_delays_only_lower_priorities_as_predicted() {
    let _host = HostLock::take();
    let cpu = thread::affinity().unwrap().iter().last().unwrap();
    let gap_ns = 1_300_000;
    one_of_three("an RT hog", || {
        let start_ns = clock::monotonic_ns() + 1_000_000;
        let schedule = Schedule {
            start_ns,
            period_ns: 10_000_000,
            busy_ns: 5_000_000,
            jitter_ns: 2_000_000,
            jitter_adds_up: false,
            drift_ppm: 0.0,
            seed: 3,
        };
        // This priority is below the priority of the meter's real-time wait, which is 50.
        let hog = match RtHog::start(cpu, 20, schedule, start_ns + 10_000_000_000) {
            Ok(hog) => hog,
            Err(MeterError::Refused { errno, .. }) if errno.is_denial() => {
                not_judged("this user may not have real-time threads");
                return Ok(());
            }
            Err(other) => panic!("{other}"),
        };
        let mut settings = settings(Kind::Timerfd, &[Variant::Plain, Variant::Fifo], gap_ns);
        settings.duration_ns = 2_500_000_000;
        let report = measure(&settings);
        let foreseen = foreseen_ns(&hog.stop(), gap_ns);
        for q in [0.85, 0.95] {
            let wanted = foreseen[(foreseen.len() as f64 * q) as usize] as f64;
            near(quantile_ns(&report, Variant::Plain, q), wanted, 0.15).map_err(|why| format!("at {q}: {why}"))?;
        }
        let fifo_ns = quantile_ns(&report, Variant::Fifo, 0.95);
        if fifo_ns < 500_000.0 { Ok(()) } else { Err(format!("real-time waits {fifo_ns} ns behind a lower priority")) }
    });
}

#[test]
fn a_busy_cpu_is_not_reported_as_idle() {
    let _host = HostLock::take();
    let cpu = thread::affinity().unwrap().iter().last().unwrap();
    let settings = settings(Kind::Timerfd, &[Variant::Plain], 1_000_000);
    let is_over = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        scope.spawn(|| {
            thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let report = measure(&settings);
        is_over.store(true, Ordering::Relaxed);
        report
    });
    let share = |report: &Report| cell(report, Variant::Plain).unwrap().idle.idle_share.unwrap();
    assert!(share(&busy) < 0.2, "{}", share(&busy));
    one_of_three("an idle CPU", || {
        let quiet = share(&measure(&settings));
        if quiet > 0.5 { Ok(()) } else { Err(format!("idle for {quiet} of the time")) }
    });
}

#[test]
fn a_wake_is_later_after_sleep_than_where_nobody_slept() {
    let _host = HostLock::take();
    one_of_three("the floor", || {
        let report = measure(&settings(Kind::Timer, &[Variant::Plain, Variant::Slack1, Variant::Spinning], 500_000));
        let [plain, slack1, spinning] =
            [Variant::Plain, Variant::Slack1, Variant::Spinning].map(|variant| quantile_ns(&report, variant, 0.5));
        if plain > slack1 && slack1 > spinning { Ok(()) } else { Err(format!("{plain} {slack1} {spinning}")) }
    });
}
