//! The built-in workloads as a trial uses them, on the machine that runs the tests: each measures what it says, takes new sockets,
//! new starts and knobs of its process, and ends with us. Then what knobs do to them that is known beforehand, by ratios within a
//! few pairs of short windows; the long runs are in docs/findings.

use evenkeel_testkit::fitness as machine;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_stats::Direction;
use evenkeel_sys::{CpuSet, Root, clock, process, sched, thread};
use evenkeel_trial::workload::{self, Options, Placement, Settable};
use evenkeel_trial::{Sample, Workload};

const SETTLE: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(200);
/// A pause of the whole machine in the wrong window is no fault of the code.
const TRIES: usize = 3;

/// Held by whoever loads this machine or switches its settings, be it of another checkout.
fn host() -> File {
    let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
    host.lock().unwrap();
    host
}

fn options(placement: Placement, set: &[(&str, &str)]) -> Options {
    Options {
        programs: Path::new(env!("CARGO_BIN_EXE_evenkeel")).parent().unwrap().to_owned(),
        seed: 1,
        players: None,
        placement,
        command: Vec::new(),
        set: set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>(),
        stop: Default::default(),
        simulated: Default::default(),
    }
}

fn start(name: &str, placement: Placement, set: &[(&str, &str)]) -> Box<dyn Workload> {
    (workload::find(name).unwrap().start)(&options(placement, set)).unwrap()
}

/// As `prove` starts it.
fn settable(name: &str, set: &[(&str, &str)]) -> Settable {
    Settable::start(workload::find(name).unwrap(), &options(Placement::Apart, set)).unwrap()
}

fn window(workload: &mut dyn Workload) -> Sample {
    let mut began = 0;
    let sample = workload.window(SETTLE, WINDOW, &mut || began += 1).unwrap();
    assert_eq!(began, 1, "the window begins once");
    sample
}

/// The ratio of B's median to A's over a few pairs, in turns.
fn ratio(
    workload: &mut dyn Workload,
    metric: &str,
    mut switch: impl FnMut(&mut dyn Workload, bool),
    pairs: usize,
) -> f64 {
    let mut ratios: Vec<f64> = (0..pairs)
        .map(|pair| {
            let mut seen = [0.0; 2];
            for arm in [pair % 2, 1 - pair % 2] {
                switch(workload, arm == 1);
                seen[arm] = window(workload)[metric];
            }
            seen[1] / seen[0]
        })
        .collect();
    // What comes next is not to be measured in the last arm.
    switch(workload, false);
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// Whether it holds in one of a few tries; what was seen is said. A try gives none where the machine did not let it have what it is about.
fn holds(what: &str, mut seen: impl FnMut() -> Option<f64>, within: std::ops::RangeInclusive<f64>) {
    machine::holds(TRIES, || {
        let ratio = seen()?;
        println!("{what}: ratio {ratio:.3}");
        Some(if within.contains(&ratio) { Ok(()) } else { Err(format!("{what}: {ratio} is not within {within:?}")) })
    });
}

#[test]
fn each_measures_what_it_says_and_is_started_anew() {
    let _host = host();
    for name in ["udp-echo", "tick", "drain"] {
        let mut workload = start(name, Placement::Apart, &[]);
        let pids = workload.pids();
        for _ in 0..2 {
            let sample = window(workload.as_mut());
            for metric in workload.metrics() {
                let number = sample.get(metric.name.as_ref());
                assert!(number.is_some_and(|number| *number > 0.0), "{name}: {metric:?} of {sample:?}");
            }
        }
        match name {
            "tick" => assert!(workload.reopen().is_ok(), "by a new start"),
            _ => {
                workload.reopen().unwrap();
                assert_eq!(workload.pids(), pids, "{name}: new sockets need no new process");
            }
        }
        window(workload.as_mut());
        workload.restart().unwrap();
        assert_ne!(workload.pids(), pids, "{name}");
        window(workload.as_mut());
        println!("{}", workload.describe());
        let pid = workload.pids()[0];
        workload.stop();
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{name} has ended");
    }
}

#[test]
fn timer_slack_matters_to_a_loop_that_sleeps_and_not_to_one_on_timerfd() {
    let _host = host();
    let slack = |how: &str| {
        let mut workload = start("tick", Placement::Apart, &[("how", how)]);
        let switch = |workload: &mut dyn Workload, is_b: bool| {
            let read_back = workload.set_process("process.timer_slack_ns", is_b.then_some("2000000")).unwrap();
            assert_eq!(read_back, if is_b { "2000000" } else { "50000" });
        };
        let found = ratio(workload.as_mut(), "tick_lateness_us_p50", switch, 3);
        workload.stop();
        Some(found)
    };
    if thread::timer_slack_ns() != Ok(50_000) {
        println!("skipped: whoever started this test has another timer slack than the kernel's default");
        return;
    }
    // 2 ms are more than what timers are late by on any machine, be it a virtual one in another; 50 us are not.
    holds("slack 50 us to 2 ms, clock_nanosleep", || slack("nanosleep"), 2.0..=1000.0);
    holds("slack 50 us to 2 ms, timerfd", || slack("timerfd"), 0.8..=1.25);
}

#[test]
fn server_and_load_on_one_cpu_are_nearer_than_on_two() {
    let _host = host();
    if thread::affinity().unwrap().len() < 2 {
        println!("skipped: one CPU is all there is");
        return;
    }
    let placement = || {
        let mut workload = start("udp-echo", Placement::Apart, &[]);
        let pid = workload.pids()[0];
        let switch = |workload: &mut dyn Workload, is_b: bool| {
            let read_back = workload.set_process("workload.placement", is_b.then_some("together")).unwrap();
            assert_eq!(read_back, if is_b { "together" } else { "apart" });
            assert_eq!(thread::affinity_of(pid).unwrap().len(), if is_b { 1 } else { Placement::Apart.cpus().0.len() });
        };
        let found = ratio(workload.as_mut(), "round_trips_per_s", switch, 3);
        assert!(workload.set_process("workload.placement", Some("elsewhere")).is_err());
        workload.stop();
        Some(found)
    };
    holds("apart to together, round trips a second", placement, 1.5..=100.0);
}

#[test]
fn a_setting_is_switched_by_a_new_start_where_it_must_be_and_given_back() {
    let _host = host();
    let mut workload = settable("tick", &[("work-us", "50")]);
    let hz = |workload: &mut Settable| {
        // A busy machine misses ticks: what counts is how many were due, in a window that no pause fills.
        let sample = workload.window(SETTLE, 5 * WINDOW, &mut || {}).unwrap();
        (sample["ticks"] + sample["missed"]) / sample["span_us"] * 1e6
    };
    let first = workload.pids();
    assert_eq!(workload.configure(&[("hz", Some("50")), ("work-us", Some("20"))]).unwrap(), ["50", "20"]);
    let second = workload.pids();
    assert_ne!(second, first, "it was started anew");
    let slow = hz(&mut workload);
    assert!((30.0..75.0).contains(&slow), "{slow} ticks a second");
    assert!(workload.describe().contains("50 ticks a second, busy for 20 us"), "{}", workload.describe());
    // Whatever the value is: all arms go one path.
    assert_eq!(workload.configure(&[("hz", Some("50")), ("work-us", Some("20"))]).unwrap(), ["50", "20"]);
    assert_ne!(workload.pids(), second);
    for (bad, value, expected) in [
        ("hz", "5", "switch workload.hz to 5: design a trial: set hz=5: expected a whole number from 10 to 2000"),
        (
            "colour",
            "red",
            "switch workload.colour to red: design a trial: set colour: the workload tick takes hz, work-us",
        ),
    ] {
        let error = workload.configure(&[(bad, Some(value))]).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(workload.describe().contains("50 ticks a second"), "it runs as before: {}", workload.describe());
        window(&mut workload);
    }
    assert_eq!(workload.configure(&[("hz", None), ("work-us", None)]).unwrap(), ["200", "50"]);
    let fast = hz(&mut workload);
    assert!(
        fast > 2.0 * slow && workload.describe().contains("200 ticks a second, busy for 50 us"),
        "{slow} to {fast}"
    );
    let pid = workload.pids()[0];
    workload.stop();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn what_a_tick_of_the_arena_does_is_switched_while_it_runs() {
    let _host = host();
    if !Path::new(env!("CARGO_BIN_EXE_evenkeel")).parent().unwrap().join("evenkeel-arena").exists() {
        println!("skipped: evenkeel-arena is not built; `cargo build --workspace` builds it");
        return;
    }
    let mut workload = settable("arena", &[("work-us", "200")]);
    let pids = workload.pids();
    // A window of a second is 50 ticks, of which one has the tail.
    let long = |workload: &mut Settable| workload.window(SETTLE, 5 * WINDOW, &mut || {}).unwrap();
    let before = long(&mut workload);
    assert_eq!(workload.configure(&[("work-us", Some("4200"))]).unwrap(), ["4200"]);
    let worked = long(&mut workload);
    assert!(worked["work_us_p50"] > before["work_us_p50"] + 2_000.0, "{before:?} {worked:?}");
    assert_eq!(workload.configure(&[("work-us", None), ("tail-us", Some("9000"))]).unwrap(), ["200", "9000"]);
    let tailed = long(&mut workload);
    assert!(tailed["work_us_p50"] < worked["work_us_p50"], "{worked:?} {tailed:?}");
    assert!(tailed["work_us_p99"] > tailed["work_us_p50"] + 4_000.0, "{tailed:?}");
    assert_eq!(workload.pids(), pids, "no new start was needed");
    // A setting that needs one does not lose those that do not.
    assert_eq!(workload.configure(&[("tick-hz", Some("100")), ("work-us", Some("4200"))]).unwrap(), ["100", "4200"]);
    assert_ne!(workload.pids(), pids);
    let both = long(&mut workload);
    // A busy machine misses ticks: what counts is how many were due.
    let due = |sample: &Sample| sample["ticks"] + sample["missed_ticks"];
    assert!(due(&both) > 1.5 * due(&before), "{before:?} {both:?}");
    // The same work as above; how much of it takes so long, each start finds out anew.
    assert!(both["work_us_p50"] > worked["work_us_p50"] / 2.0, "{worked:?} {both:?}");
    let error = workload.configure(&[("work-us", Some("100001"))]).unwrap_err().to_string();
    assert!(error.starts_with("switch workload.work-us to 100001: set work-us=100001: expected"), "{error}");
    workload.stop();
}

#[test]
fn a_larger_buffer_keeps_what_comes_between_two_readings() {
    let _host = host();
    let delivered = |ask_bytes: &str| {
        // A tenth of the packets and ten times the pause: the same packets wait, and the machine has little to do.
        let set = [("ask-bytes", ask_bytes), ("pps", "16000"), ("drain-ms", "50")];
        let mut workload = start("drain", Placement::Apart, &set);
        let sample = window(workload.as_mut());
        workload.stop();
        (sample["delivered_share"], sample["buffer_bytes"])
    };
    let ((small, small_bytes), (large, large_bytes)) = (delivered("65536"), delivered("1048576"));
    println!("{small_bytes} bytes: {small:.3} delivered; {large_bytes} bytes: {large:.3}");
    if large_bytes < 1e6 {
        println!("skipped: net.core.rmem_max lets a server ask for no more than {large_bytes} bytes");
        return;
    }
    // 800 packets come between two readings; 131,072 bytes hold some 170 small ones.
    assert!(small < 0.6 && large > 2.0 * small, "{small} and {large}");
}

/// How often CPUs were put into a state that takes time to leave, so far.
fn idle_entries() -> u64 {
    let folders = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let number = |file: std::path::PathBuf| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let states =
        folders(Path::new("/sys/devices/system/cpu")).flat_map(|cpu| folders(&cpu.join("cpuidle")).collect::<Vec<_>>());
    let deep = states.filter(|state| number(state.join("latency")).is_some_and(|us| us > 0));
    deep.filter_map(|state| number(state.join("usage"))).sum()
}

#[test]
fn a_cpu_that_may_not_sleep_deeply_answers_sooner() {
    let _host = host();
    let root = Root::live();
    if root.entries("/sys/devices/system/cpu/cpu0/cpuidle").is_err() {
        println!("skipped: the kernel has no idle driver here, so a limit on idling does nothing");
        return;
    }
    if !process::is_root() || thread::affinity().unwrap().len() < 2 {
        println!("skipped: it takes root and two CPUs");
        return;
    }
    let hand = root.hand().unwrap();
    let mut workload = start("udp-echo", Placement::Apart, &[]);
    let mut held = None;
    let mut limit = || {
        let switch = |_: &mut dyn Workload, is_b: bool| {
            // Dropped first: the limit of the arm before ends.
            drop(held.take());
            held = is_b.then(|| hand.hold_dma_latency_us(0).unwrap());
        };
        let before = idle_entries();
        window(workload.as_mut());
        let entries = idle_entries().saturating_sub(before);
        // Where CPUs poll instead of sleeping, by haltpoll or for want of idle time, there is nothing that a limit could better.
        println!("{entries} times a CPU was put to sleep in a window without a limit");
        let found = ratio(workload.as_mut(), "round_trip_us_p50", switch, 3);
        (entries > 500 || found <= 0.9).then_some(found)
    };
    holds("cpuidle.dma_latency_us=0", &mut limit, 0.0..=0.9);
    workload.stop();
}

/// Threads that run only where nobody else would, one on each of our CPUs: what idle knobs come to when they keep CPUs awake, on
/// machines too that have none.
struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// How long such threads were there, and how long of it was gone a millisecond or more at a time: a server that answers takes microseconds, so
/// that was somebody else, and CPUs that are taken away for being used keep nobody awake.
#[derive(Default)]
struct Record {
    all_ns: AtomicU64,
    gone_ns: AtomicU64,
}

impl Record {
    /// The share that was gone since this was asked last.
    fn gone_share(&self) -> f64 {
        self.gone_ns.swap(0, Ordering::Relaxed) as f64 / (self.all_ns.swap(0, Ordering::Relaxed) as f64).max(1.0)
    }
}

impl Awake {
    fn start(record: &Arc<Record>) -> Awake {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |cpu: usize| {
            let (end, record) = (Arc::clone(&stop), Arc::clone(record));
            std::thread::spawn(move || {
                thread::set_affinity(&CpuSet::from_iter([cpu])).unwrap();
                sched::set_idle().unwrap();
                let began_ns = clock::monotonic_ns();
                let (mut look_ns, mut gone_ns) = (began_ns, 0);
                while !end.load(Ordering::Relaxed) {
                    let now_ns = clock::monotonic_ns();
                    gone_ns += if now_ns - look_ns >= 1_000_000 { now_ns - look_ns } else { 0 };
                    look_ns = now_ns;
                }
                record.all_ns.fetch_add(look_ns - began_ns, Ordering::Relaxed);
                record.gone_ns.fetch_add(gone_ns, Ordering::Relaxed);
            })
        };
        let threads = thread::affinity().unwrap().iter().map(spin).collect();
        Awake { stop, threads }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// On CPUs that never sleep both wakes of a round trip are cheap. With `EVENKEEL_CALIBRATE=1` it says how many pairs the sequential test
/// needs for that.
#[test]
fn cpus_that_stay_awake_answer_sooner() {
    let _host = host();
    if thread::affinity().unwrap().len() < 2 {
        println!("skipped: one CPU is all there is");
        return;
    }
    let mut workload = start("udp-echo", Placement::Apart, &[]);
    let (mut awake, record) = (None, Arc::new(Record::default()));
    let mut switch = |_: &mut dyn Workload, is_b: bool| {
        drop(awake.take());
        awake = is_b.then(|| Awake::start(&record));
    };
    if std::env::var_os("EVENKEEL_CALIBRATE").is_none() {
        let seen = || {
            let found = ratio(workload.as_mut(), "round_trip_us_p50", &mut switch, 3);
            let gone_share = record.gone_share();
            println!("the CPUs that were to stay awake were gone for {:.1} % of the time", 100.0 * gone_share);
            (gone_share < 0.05 || found <= 0.9).then_some(found)
        };
        holds("awake", seen, 0.0..=0.9);
        return workload.stop();
    }
    for session in 0..5 {
        let options = evenkeel_stats::Options::new(Direction::Lower);
        let mut test = evenkeel_stats::Sequential::new(options).unwrap();
        while !test.look().decided && test.look().pairs < 40 {
            let mut seen = [0.0; 2];
            let first = usize::from((evenkeel_sys::clock::monotonic_ns() / 64).is_multiple_of(2));
            for arm in [first, 1 - first] {
                switch(workload.as_mut(), arm == 1);
                seen[arm] = window(workload.as_mut())["round_trip_us_p50"];
            }
            test.add(evenkeel_stats::Pair { a: seen[0], b: seen[1] }).unwrap();
            println!("session {session}: {seen:?}");
        }
        println!("session {session}: {:?}", test.look());
    }
    workload.stop();
}

#[test]
fn a_running_server_is_looked_at_by_its_page_also_after_a_new_start() {
    let _host = host();
    let programs = Path::new(env!("CARGO_BIN_EXE_evenkeel")).parent().unwrap();
    let session = format!("evenkeel test {}", std::process::id());
    let arena = || {
        let mut command = std::process::Command::new(programs.join("evenkeel-arena"));
        command.args(["--session", &session, "--work-us", "100"]).stdin(std::process::Stdio::piped());
        process::die_with_parent(command.stdout(std::process::Stdio::piped()));
        let mut server = command.spawn().unwrap();
        let mut first = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.as_mut().unwrap()), &mut first).unwrap();
        assert!(first.contains("addr"), "{first}");
        server
    };
    if !programs.join("evenkeel-arena").exists() {
        println!("skipped: evenkeel-arena is not built; `cargo build --workspace` builds it");
        return;
    }
    let end = |mut server: std::process::Child| {
        drop(server.stdin.take());
        server.wait().unwrap();
    };
    let server = arena();
    let mut workload = start("telemetry", Placement::Apart, &[("session", &session)]);
    assert_eq!(workload.pids(), [server.id()]);
    assert_eq!(window(workload.as_mut())["restarts"], 0.0);
    let error = workload.set_process("process.timer_slack_ns", Some("1")).unwrap_err().to_string();
    assert!(error.contains("the server was not started by us"), "{error}");
    end(server);
    let server = arena();
    let sample = window(workload.as_mut());
    for metric in workload.metrics() {
        assert!(sample.contains_key(metric.name.as_ref()), "{metric:?}");
    }
    assert_eq!(workload.pids(), [server.id()], "the one that came after it");
    end(server);
}
