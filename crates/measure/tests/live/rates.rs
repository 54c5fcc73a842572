//! Compares the rates meter with disturbances that count themselves.

use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;

use evenkeel_measure::disturb::{PingPong, Toucher};
use evenkeel_measure::meters::rates::{self, Pages, Report, Settings, Target};
use evenkeel_measure::{MeterError, Watch};
use evenkeel_sys::{clock, process, thread};
use evenkeel_testkit::cgroup::Group;
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

/// The number of attempts. On a busy machine a pause may spoil one attempt.
const RUNS: usize = 3;

fn measure(target: Target, for_ms: u64) -> Result<Report, MeterError> {
    let stop = AtomicBool::new(false);
    let settings = Settings { target, for_ms, every_ms: 100, pages: Pages::AsTheyAre };
    rates::run(&settings, &Watch::new(&stop, &|_, _| ()))
}

/// Measures while `disturb` runs until the time that it receives.
fn during<T: Send>(target: Target, for_ms: u64, disturb: impl FnOnce(u64) -> T + Send) -> (Report, T) {
    let start_ns = clock::monotonic_ns();
    let until_ns = start_ns + (for_ms + 200) * 1_000_000;
    std::thread::scope(|scope| {
        let disturbed = scope.spawn(move || disturb(until_ns));
        let report = measure(target, for_ms).unwrap();
        (report, disturbed.join().unwrap())
    })
}

fn within(found: f64, expected: f64, share: f64) -> Result<(), String> {
    let is_so = (found / expected - 1.0).abs() <= share;
    if is_so { Ok(()) } else { Err(format!("{found} is not within {share} of {expected}")) }
}

/// Repeats a run until it is right. One of a few runs must be right.
fn one_of(run: impl Fn() -> Result<(), String>) {
    fitness::one_of(RUNS, &Needs::on_last_cpu(), run);
}

/// Repeats a run while one of our own processes may use a fifth of a CPU.
fn next_to_a_fifth_of_a_cpu(run: impl Fn() -> Result<(), String>) {
    let needs = Needs { missing: 0.3, late_ns: 5_000_000, uneven: 1.0, ..Needs::on_last_cpu() };
    fitness::one_of(RUNS, &needs, run);
}

#[test]
fn page_faults_of_a_process_are_those_that_it_makes() {
    let _host = HostLock::take();
    one_of(|| {
        let us = Target::Process(std::process::id());
        let (report, touched) = during(us, 600, |until_ns| Toucher { pages_per_s: 50_000, until_ns }.touch().unwrap());
        let made = touched.pages as f64 * 1e9 / touched.elapsed_ns as f64;
        let process = report.rates.process.as_ref().unwrap().known().unwrap();
        within(*process.minor_faults_per_s.known().unwrap(), made, 0.1)?;
        let of_all = *report.rates.system.minor_faults_per_s.known().unwrap();
        if of_all < made * 0.9 { Err(format!("{of_all} a second on the machine, {made} by us alone")) } else { Ok(()) }
    });
}

/// The timeline shows a change of the rate during the run. Each interval is counted, and zeros are separate from small rates.
#[test]
fn a_timeline_shows_when_it_began() {
    let _host = HostLock::take();
    one_of(|| {
        let us = Target::Process(std::process::id());
        let (report, touched) = during(us, 1200, |until_ns| {
            clock::sleep_until_ns(until_ns - 800_000_000);
            Toucher { pages_per_s: 50_000, until_ns }.touch().unwrap()
        });
        // The meter must report as many faults as requested, or as many as this machine can make.
        let made = touched.pages as f64 * 1e9 / touched.elapsed_ns as f64;
        let of = |name: &str| report.spread.iter().find(|spread| spread.name == name).unwrap();
        let faults = of("minor_faults_per_s");
        assert_eq!(faults.count, faults.zeros + faults.samples.histogram.count(), "each interval is one or the other");
        let (first, last) = (faults.timeline.first().unwrap(), faults.timeline.last().unwrap());
        assert!(first.start_ns == 0 && last.end_ns == report.elapsed_ns, "{first:?} {last:?}");
        let mean = |from_ns: u64, to_ns: u64| {
            let within = faults.timeline.iter().filter(|part| part.start_ns >= from_ns && part.end_ns <= to_ns);
            let means: Vec<f64> = within.map(|part| part.mean).collect();
            means.iter().sum::<f64>() / means.len() as f64
        };
        let (before, after) = (mean(0, 500_000_000), mean(700_000_000, 1_200_000_000));
        println!("page faults a second: {before} before, {after} after, {made} made");
        let is_seen = before < made * 0.4 && after > made * 0.8;
        if is_seen { Ok(()) } else { Err(format!("{before} before, {after} after, {made} made")) }
    });
}

#[test]
fn switches_are_those_of_two_threads_that_wake_each_other() {
    let _host = HostLock::take();
    let cpu = thread::affinity().unwrap().iter().last().unwrap();
    one_of(|| {
        let us = Target::Process(std::process::id());
        let (report, played) = during(us, 600, |until_ns| PingPong { cpu, until_ns }.play().unwrap());
        let per_s = |count: u64| count as f64 * 1e9 / played.elapsed_ns as f64;
        let turns = 2.0 * per_s(played.rounds);
        let process = report.rates.process.as_ref().unwrap().known().unwrap();
        let voluntary = *process.voluntary_switches_per_s.known().unwrap();
        let involuntary = *process.involuntary_switches_per_s.known().unwrap();
        within(voluntary, per_s(played.voluntary_switches), 0.15)?;
        within(voluntary + involuntary, per_s(played.voluntary_switches + played.involuntary_switches), 0.15)?;
        // Each turn is a switch. A thread that is preempted while it wakes its partner has a second switch when it waits.
        if !(turns * 0.85..=turns * 2.3).contains(&(voluntary + involuntary)) {
            return Err(format!("{voluntary} + {involuntary} switches in {turns} turns"));
        }
        let of_all = *report.rates.system.context_switches_per_s.known().unwrap();
        if of_all < turns * 0.85 {
            Err(format!("{of_all} a second on the machine, {turns} by us alone"))
        } else {
            Ok(())
        }
    });
}

/// A child that spins.
struct Spinner(Child);

impl Spinner {
    fn inside(group: &Group) -> Spinner {
        let mut command = Command::new("sh");
        let child = process::die_with_parent(command.args(["-c", "while :; do :; done"])).spawn().unwrap();
        group.enter(child.id());
        Spinner(child)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_limit_stops_a_spinner_for_the_rest_of_the_period() {
    let _host = HostLock::take();
    let group = match Group::with_cpu_limit(20_000, 100_000) {
        Ok(group) => group,
        Err(why) => return not_judged(why),
    };
    let spinner = Spinner::inside(&group);
    next_to_a_fifth_of_a_cpu(|| {
        let report = measure(Target::Process(spinner.0.id()), 1500).map_err(|error| error.to_string())?;
        let level = &report.rates.group.levels.known().unwrap()[0];
        let quota = level.quota.known().unwrap().unwrap();
        assert_eq!((quota.quota_us, quota.period_us), (20_000, 100_000));
        let elapsed_s = report.elapsed_ns as f64 / 1e9;
        let periods = *level.periods.known().unwrap() as f64;
        within(periods, elapsed_s * 10.0, 0.2)?;
        within(*level.throttled_periods.known().unwrap() as f64, periods, 0.2)?;
        // The spinner ran, was throttled, or waited for its neighbours. While it is throttled, older kernels also count it as waiting.
        let process = report.rates.process.as_ref().unwrap().known().unwrap();
        let ran = process.cpu.known().unwrap();
        let still = *level.throttled_ns.known().unwrap() as f64 / report.elapsed_ns as f64;
        let waited = *process.run_delay.known().unwrap();
        println!("ran {ran:.3}, stood still {still:.3}, waited {waited:.3}");
        within(ran + still + waited, 1.0, 0.15).or_else(|_| within(ran + waited, 1.0, 0.15))?;
        within(*ran, 0.2, 0.3)
    });
}
