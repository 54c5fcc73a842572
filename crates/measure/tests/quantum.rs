//! `quantum` under a thief of known shape: what it says of period, share and phase is compared with the thief's schedule, on a CPU that is
//! otherwise idle and on one with an ordinary busy neighbour; and it must say nothing where there is nothing.
//!
//! `EVENKEEL_CALIBRATE=1` runs the whole grid, two minutes for each test, and prints every run.

#![expect(clippy::unwrap_used, reason = "a test that can't set its stage fails")]

use evenkeel_testkit::fitness as machine;

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use evenkeel_measure::disturb::{Schedule, Taken, Thief};
use evenkeel_measure::meters::quantum::{self, Class, Cpu, Method, Settings};
use evenkeel_measure::{MeterError, Watch};
use evenkeel_stats::periodicity::{Count, Model};
use evenkeel_sys::{CpuSet, clock, thread};
use machine::Needs;

const MS: f64 = 1e6;
/// Above the probe's priority.
const THIEF_PRIORITY: u8 = 60;

/// One test at a time in this process, and one such process on this host.
struct Alone(#[expect(dead_code, reason = "held")] (MutexGuard<'static, ()>, File));

impl Alone {
    fn on_this_host() -> Alone {
        static HERE: Mutex<()> = Mutex::new(());
        let here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
        let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
        host.lock().unwrap();
        Alone((here, host))
    }
}

fn calibrates() -> bool {
    std::env::var_os("EVENKEEL_CALIBRATE").is_some()
}

/// The CPU that is measured: the last one, where the fewest other things run.
fn cpu() -> usize {
    thread::affinity().unwrap().iter().last().unwrap()
}

/// Who shares the CPU with what is measured.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nobody,
    Neighbour,
}

impl Beside {
    /// For one try, and gone before it is asked what the machine takes by itself: on a machine of one CPU a neighbour of ours would be an
    /// excuse for everything.
    fn start(self) -> Option<Neighbour> {
        (self == Beside::Neighbour).then(|| Neighbour::on(cpu()))
    }
}

/// An ordinary thread that is always busy.
struct Neighbour {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    fn on(cpu: usize) -> Neighbour {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            thread::set_affinity(&CpuSet::from_iter([cpu])).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Neighbour { stop, thread: Some(thread) }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// What is put under the meter.
#[derive(Clone, Copy, Debug)]
struct Place {
    period_ms: f64,
    share: f64,
    jitter: f64,
    drift_ppm: f64,
    seed: u64,
}

/// How far the meter is off.
#[derive(Clone, Copy, Debug)]
struct Off {
    /// As a share of the period.
    period: f64,
    share: f64,
    phase_ms: f64,
}

impl Off {
    fn is_within_the_bars(&self) -> bool {
        self.period.abs() <= 0.01 && self.share.abs() <= 0.03 && self.phase_ms.abs() <= 0.3
    }
}

fn measure(settings: &Settings) -> Result<Cpu, MeterError> {
    let stop = AtomicBool::new(false);
    let mut report = quantum::run(settings, &Watch::new(&stop, &|_, _| ()))?;
    Ok(report.cpus.remove(0))
}

fn settings(class: Class, count: Count, method: Method) -> Settings {
    Settings { cpus: Some(CpuSet::from_iter([cpu()])), class, count, method, ..Settings::default() }
}

/// What a meter of that class needs of the CPU that it measures. To a real-time one ordinary threads on it are no excuse, be they ours; and it
/// is the thief's own record that tells what a turn of it took, so that dear ones are none either.
fn needs(class: Class, missing: f64) -> Needs {
    Needs { missing, turn_ns: u64::MAX, is_real_time: class == Class::Fifo, ..Needs::on_cpu(cpu()) }
}

/// The thief at `place`, and what each of `settings` says of it; none where this user may not have one.
fn under_a_thief<const N: usize>(place: Place, settings: [&Settings; N]) -> Option<[(Cpu, Option<Off>); N]> {
    let period_ns = (place.period_ms * MS) as u64;
    let schedule = Schedule {
        start_ns: clock::monotonic_ns() + 10_000_000,
        period_ns,
        busy_ns: (place.period_ms * MS * (1.0 - place.share)) as u64,
        jitter_ns: (place.period_ms * MS * place.jitter) as u64,
        drift_ppm: place.drift_ppm,
        seed: place.seed,
    };
    let until_ns = clock::monotonic_ns() + 10_000_000_000;
    let thief = match Thief::start(cpu(), THIEF_PRIORITY, schedule, until_ns) {
        Ok(thief) => thief,
        Err(MeterError::Refused { errno, .. }) if errno.is_denial() => {
            println!("skipped: this user may not have real-time threads");
            return None;
        }
        Err(other) => panic!("{other}"),
    };
    let said = settings.map(|settings| measure(settings).unwrap());
    let taken = thief.stop();
    Some(said.map(|cpu| {
        let off = off(&schedule, &taken, &cpu);
        (cpu, off)
    }))
}

fn off(schedule: &Schedule, taken: &[Taken], cpu: &Cpu) -> Option<Off> {
    let slots = cpu.slots?;
    // What it took by its own record: where each timer wakes late, that is less than was asked for, by so much of each turn.
    let mut busy_ns: Vec<u64> = taken.iter().map(|one| one.end_ns - one.start_ns).collect();
    busy_ns.sort_unstable();
    let busy_ns = busy_ns.get(busy_ns.len() / 2).map_or(schedule.busy_ns, |ns| (*ns).min(schedule.busy_ns));
    let period_ns = schedule.period_ns as f64 * (1.0 + schedule.drift_ppm / 1e6);
    // The beginning that it names is compared with the nearest true one.
    let since = slots.share_start_ns.saturating_sub(schedule.start_ns + schedule.busy_ns) as f64;
    let late_ns = since - (since / period_ns).round() * period_ns;
    Some(Off {
        period: slots.period_ns / period_ns - 1.0,
        share: slots.share - (1.0 - busy_ns as f64 / period_ns),
        phase_ms: late_ns / MS,
    })
}

fn places() -> Vec<Place> {
    let place = |(period_ms, share): (f64, f64), (jitter, drift_ppm): (f64, f64)| Place {
        period_ms,
        share,
        jitter,
        drift_ppm,
        seed: (period_ms * 10.0 + share * 100.0) as u64,
    };
    if !calibrates() {
        return vec![
            place((10.0, 0.4), (0.02, 100.0)),
            place((5.0, 0.9), (0.0, 0.0)),
            place((30.0, 0.2), (0.02, 100.0)),
        ];
    }
    let mut places = Vec::new();
    for period_ms in [5.0, 8.0, 10.0, 15.6, 20.0, 30.0] {
        for share in [0.2, 0.4, 0.6, 0.8, 0.9] {
            for noise in [(0.0, 0.0), (0.02, 100.0)] {
                places.push(place((period_ms, share), noise));
            }
        }
    }
    places
}

fn word(off: Option<Off>) -> String {
    off.map_or("nothing".to_owned(), |off| {
        format!("period {:+.4} % share {:+.4} phase {:+.3} ms", off.period * 100.0, off.share, off.phase_ms)
    })
}

/// Over all places, how many the meter has right; the comparison method's beside it.
fn grid(class: Class, beside: Beside) -> (u32, u32) {
    let ours = settings(class, Count::All, Method::Fold);
    let siege = settings(class, Count::All, Method::Siege);
    let (mut right, mut runs) = (0, 0);
    let (mut siege_found, mut siege_period, mut siege_right) = (0, 0, 0);
    let mut worst = Off { period: 0.0, share: 0.0, phase_ms: 0.0 };
    for place in places() {
        // A pause of the whole machine may fall into one run, and not into each of three.
        let tries = if calibrates() { 1 } else { 3 };
        let mut one = || {
            let _neighbour = beside.start();
            let Some([(cpu, off), (_, theirs)]) = under_a_thief(place, [&ours, &siege]) else { return false };
            let is_right = off.is_some_and(|off| off.is_within_the_bars());
            if let Some(off) = off.filter(|_| is_right) {
                worst.period = worst.period.max(off.period.abs());
                worst.share = worst.share.max(off.share.abs());
                worst.phase_ms = worst.phase_ms.max(off.phase_ms.abs());
            }
            siege_found += u32::from(theirs.is_some());
            siege_period += u32::from(theirs.is_some_and(|off| off.period.abs() <= 0.01));
            siege_right += u32::from(theirs.is_some_and(|off| off.is_within_the_bars()));
            let Place { period_ms, share, jitter, .. } = place;
            let sure = cpu.confidence.unwrap();
            println!(
                "{period_ms:>4} ms share {share} jitter {jitter}: {} confidence {sure:.2} | siege: {}",
                word(off),
                word(theirs)
            );
            if !is_right {
                println!("    {:?} {:?}", cpu.seen, cpu.lost);
            }
            is_right
        };
        runs += 1;
        if calibrates() {
            right += u32::from(one());
            continue;
        }
        // Where other guests take the CPU too, theirs are no slots of the thief's: that is said, and nothing is counted.
        let needs = needs(class, 0.01);
        let is_shown = machine::one_of(tries, &needs, || if one() { Ok(()) } else { Err(format!("{place:?}")) });
        right += u32::from(is_shown);
        runs -= u32::from(!is_shown);
    }
    println!("right: {right} of {runs}; the worst of the right ones: {worst:?}");
    println!("siege: found {siege_found}, period within 1 % {siege_period}, right in all {siege_right}");
    (right, runs)
}

fn nearly_all((right, runs): (u32, u32)) {
    assert!(f64::from(right) >= 0.95 * f64::from(runs), "{right} of {runs}");
}

fn may_have_a_thief() -> bool {
    let place = Place { period_ms: 20.0, share: 0.9, jitter: 0.0, drift_ppm: 0.0, seed: 1 };
    let short = Settings { duration_ns: 100_000_000, ..settings(Class::Ordinary, Count::All, Method::Fold) };
    under_a_thief(place, [&short]).is_some()
}

#[test]
fn a_thief_alone_is_read_back() {
    let _alone = Alone::on_this_host();
    if may_have_a_thief() {
        nearly_all(grid(Class::Fifo, Beside::Nobody));
    }
}

#[test]
fn a_thief_beside_an_ordinary_neighbour_is_read_back() {
    let _alone = Alone::on_this_host();
    if may_have_a_thief() {
        nearly_all(grid(Class::Fifo, Beside::Neighbour));
    }
}

/// A thief in the guest is an ordinary thread's neighbour too, so that this has no bar: it says what is left without rights, and how a
/// neighbour spoils it where its turns are counted.
#[test]
fn a_thief_seen_without_rights() {
    let _alone = Alone::on_this_host();
    if calibrates() && may_have_a_thief() {
        grid(Class::Ordinary, Beside::Nobody);
    }
}

#[test]
fn a_thief_beside_a_neighbour_seen_without_rights() {
    let _alone = Alone::on_this_host();
    if calibrates() && may_have_a_thief() {
        grid(Class::Ordinary, Beside::Neighbour);
    }
}

/// How often each class and count makes a period up.
fn made_up(beside: Beside, kinds: &[(Class, Count)]) {
    // Of two runs one may meet a hypervisor that does take slots; of twenty, one. One that always does is seen by a bare loop too.
    let (tries, runs, made_up_max) = if calibrates() { (1, 20, 1) } else { (2, 1, 0) };
    for (class, count) in kinds {
        let one = || {
            let _neighbour = beside.start();
            let mut made_up = 0;
            for _ in 0..runs {
                let said = match measure(&settings(*class, *count, Method::Fold)) {
                    Ok(said) => said,
                    Err(MeterError::Refused { errno, .. }) if errno.is_denial() => {
                        println!("skipped: this user may not have real-time threads");
                        return Ok(());
                    }
                    Err(other) => panic!("{other}"),
                };
                println!("{class:?} {count:?}: {:?} {:?} {}", said.model, said.confidence, said.why);
                if !matches!(said.model, Some(Model::None | Model::Irregular)) {
                    made_up += 1;
                    println!("    {:?}", said.seen);
                }
            }
            let why = || format!("{class:?} {count:?}: {made_up} of {runs} periods are made up");
            if made_up <= made_up_max { Ok(()) } else { Err(why()) }
        };
        machine::one_of(tries, &needs(*class, 0.005).without_timers(), one);
    }
}

#[test]
fn an_idle_cpu_has_no_period() {
    let _alone = Alone::on_this_host();
    made_up(Beside::Nobody, &[(Class::Fifo, Count::All), (Class::Ordinary, Count::Foreign)]);
}

#[test]
fn an_ordinary_neighbour_is_no_hypervisor() {
    let _alone = Alone::on_this_host();
    made_up(
        Beside::Neighbour,
        &[(Class::Fifo, Count::All), (Class::Ordinary, Count::Foreign), (Class::Ordinary, Count::All)],
    );
}

/// A control group with a limit, of version 1, or of version 2 where that has the controller. Removed when dropped, and before it is
/// made anew, so that a test that was killed leaves it no longer than until the next.
struct Group(String);

impl Group {
    fn with_limit(quota_us: u64, period_us: u64) -> Option<Group> {
        let has_controller = |mount: &&str| {
            let controllers =
                std::fs::read_to_string(Path::new(mount).join("cgroup.subtree_control")).unwrap_or_default();
            Path::new(mount).join("cpu.cfs_quota_us").exists()
                || controllers.split_whitespace().any(|name| name == "cpu")
        };
        let mount = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].into_iter().find(has_controller)?;
        let folder = format!("{mount}/evenkeel-quantum-test");
        let _ = std::fs::remove_dir(&folder);
        std::fs::create_dir(&folder).ok()?;
        let group = Group(folder);
        let write = |name: &str, text: String| std::fs::write(format!("{}/{name}", group.0), text);
        let set = if Path::new(&group.0).join("cpu.max").exists() {
            write("cpu.max", format!("{quota_us} {period_us}"))
        } else {
            write("cpu.cfs_period_us", period_us.to_string())
                .and_then(|()| write("cpu.cfs_quota_us", quota_us.to_string()))
        };
        set.ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

const IN_A_GROUP: &str = "EVENKEEL_TEST_RUNS_IN_A_GROUP";

#[test]
fn a_cpu_limit_is_a_bucket() {
    if std::env::var_os(IN_A_GROUP).is_some() {
        for count in [Count::Foreign, Count::All] {
            let said = measure(&settings(Class::Auto, count, Method::Fold)).unwrap();
            println!("{count:?}: {:?} {:?} {:?}: {}", said.model, said.period_ms, said.share, said.why);
            let found = (said.model, said.period_ms, said.share);
            assert_eq!(found, (Some(Model::TokenBucket), Some(20.0), Some(0.4)), "{said:?}");
        }
        return;
    }
    let _alone = Alone::on_this_host();
    let Some(group) = Group::with_limit(8_000, 20_000) else {
        println!("skipped: no control group with a CPU limit can be made here");
        return;
    };
    let in_the_group = || {
        let child = Command::new("sh")
            .args(["-c", "echo $$ >\"$1\" && shift && exec \"$@\"", "sh", &format!("{}/cgroup.procs", group.0)])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "a_cpu_limit_is_a_bucket", "--nocapture"])
            .env(IN_A_GROUP, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
        println!("{said}");
        if child.status.success() { Ok(()) } else { Err(said) }
    };
    machine::one_of(3, &Needs::on_cpu(cpu()), in_the_group);
}
