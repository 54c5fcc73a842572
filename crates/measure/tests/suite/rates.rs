//! Tests that the rates meter ends with its process and when it is stopped, and finds a control group by its directory.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use evenkeel_measure::meters::rates::{self, Pages, Report, Settings, Target};
use evenkeel_measure::{MeterError, Watch};
use evenkeel_testkit::cgroup::Group;
use evenkeel_testkit::skipped;

fn measure(target: Target, for_ms: u64) -> Result<Report, MeterError> {
    let settings = Settings { target, for_ms, every_ms: 5, pages: Pages::AsTheyAre };
    rates::run(&settings, &Watch::new(&AtomicBool::new(false), &|_, _| ()))
}

#[test]
fn a_process_that_ends_meanwhile_is_measured_until_then() {
    const LIMIT_MS: u64 = 60_000;
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let input = Mutex::new(child.stdin.take());
    // Close the input of `cat` at the first progress report, which comes after the first reading. Then `cat` ends.
    let progress = |_: f64, _: &str| drop(input.lock().unwrap().take());
    let settings =
        Settings { target: Target::Process(child.id()), for_ms: LIMIT_MS, every_ms: 5, pages: Pages::AsTheyAre };
    let report = rates::run(&settings, &Watch::new(&AtomicBool::new(false), &progress)).unwrap();
    let process = report.rates.process.as_ref().unwrap().known().unwrap();
    assert!(
        process.ended.as_ref().is_some_and(|why| why.starts_with("it ended during the measurement")),
        "{process:?}"
    );
    assert!(report.elapsed_ns < LIMIT_MS * 1_000_000, "it ends with its process");
    child.wait().unwrap();
    let none = measure(Target::Process(child.id()), 100).unwrap_err();
    assert!(none.to_string().ends_with("no process has this number"), "{none}");
    let none = measure(Target::Group("/evenkeel-has-none".to_owned()), 100).unwrap_err();
    assert!(matches!(none, MeterError::WrongUse { .. }), "{none}");
}

#[test]
fn it_ends_when_asked() {
    let stop = AtomicBool::new(true);
    let settings = Settings { target: Target::Machine, for_ms: 3_600_000, every_ms: 1000, pages: Pages::AsTheyAre };
    let report = rates::run(&settings, &Watch::new(&stop, &|_, _| ())).unwrap();
    assert_eq!(report.readings, 2, "the readings up to the stop are reported");
}

/// Each interval of a timeline is counted once, as zero or as another rate, and the timeline covers the whole time.
#[test]
fn a_timeline_has_every_interval() {
    let report = measure(Target::Process(std::process::id()), 50).unwrap();
    let faults = report.spread.iter().find(|spread| spread.name == "minor_faults_per_s").unwrap();
    assert_eq!(faults.count, faults.zeros + faults.samples.histogram.count());
    assert_eq!(faults.count, report.readings - 1);
    let (first, last) = (faults.timeline.first().unwrap(), faults.timeline.last().unwrap());
    assert!(first.start_ns == 0 && last.end_ns == report.elapsed_ns, "{first:?} {last:?}");
}

#[test]
fn a_group_is_found_by_its_process_and_by_its_directory() {
    let group = match Group::with_cpu_limit(20_000, 100_000) {
        Ok(group) => group,
        Err(why) => return skipped(why),
    };
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    group.enter(child.id());
    for target in [Target::Process(child.id()), Target::Group(group.path().display().to_string())] {
        let report = measure(target, 10).unwrap();
        let level = &report.rates.group.levels.known().unwrap()[0];
        assert!(group.path().ends_with(level.directory.trim_start_matches('/')), "{level:?}");
        let quota = level.quota.known().unwrap().unwrap();
        assert_eq!((quota.quota_us, quota.period_us), (20_000, 100_000));
    }
    drop(child.stdin.take());
    child.wait().unwrap();
}
