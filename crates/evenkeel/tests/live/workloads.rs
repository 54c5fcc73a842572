//! Checks known effects of knobs on the built-in workloads, as ratios over a few pairs of short windows.
//! docs/findings has the long runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_hostfs::Root;
use evenkeel_stats::{Direction, Pair, Sequential, Verdict};
use evenkeel_sys::{CpuSet, clock, process, sched, thread};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live};
use evenkeel_workload::{Placement, Sample, Settable, Workload};

use crate::workloads_started::{missing_arena, settable, start, try_window};

const SETTLE: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(200);
const TRIES: usize = 3;

fn window(workload: &mut dyn Workload) -> Sample {
    try_window(workload, SETTLE, WINDOW).unwrap()
}

/// The ratio of B's median to A's median, over a few interleaved pairs.
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
    // Switch back to arm A, so that the next measurement starts from it.
    switch(workload, false);
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// Measures several times. Fails if all ratios are outside of `within` although the machine was fit each time.
/// `seen` returns `None` if the machine did not have the condition under test.
fn holds(what: &str, mut seen: impl FnMut() -> Option<f64>, within: std::ops::RangeInclusive<f64>) {
    let needs = Needs::on_last_cpu();
    fitness::holds(TRIES, || {
        let ratio = seen()?;
        println!("{what}: ratio {ratio:.3}");
        if within.contains(&ratio) {
            return Some(Ok(()));
        }
        needs.unmet().is_none().then(|| Err(format!("{what}: {ratio} is not within {within:?}")))
    });
}

#[test]
fn timer_slack_matters_to_a_loop_that_sleeps_and_not_to_one_on_timerfd() {
    let _host = HostLock::take();
    let slack = |how: &str| {
        let mut workload = start("tick", &[("how", how)]);
        let switch = |workload: &mut dyn Workload, is_b: bool| {
            let read_back = workload.set_process("process.timer_slack_ns", is_b.then_some("2000000")).unwrap();
            assert_eq!(read_back, if is_b { "2000000" } else { "50000" });
        };
        let found = ratio(workload.as_mut(), "tick_lateness_us_p50", switch, 3);
        workload.stop();
        Some(found)
    };
    if thread::timer_slack_ns() != Ok(50_000) {
        live::not_judged("whoever started this test has another timer slack than the kernel's default");
        return;
    }
    // A slack of 2 ms is longer than any lateness of timers, even with nested virtualisation.
    // A slack of 50 us is shorter.
    holds("slack 50 us to 2 ms, clock_nanosleep", || slack("nanosleep"), 2.0..=1000.0);
    holds("slack 50 us to 2 ms, timerfd", || slack("timerfd"), 0.8..=1.25);
}

#[test]
fn server_and_load_on_one_cpu_are_nearer_than_on_two() {
    let _host = HostLock::take();
    if thread::affinity().unwrap().len() < 2 {
        live::not_judged("one CPU is all there is");
        return;
    }
    let placement = || {
        let mut workload = start("udp-echo", &[]);
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
fn what_a_tick_of_the_arena_does_is_switched_while_it_runs() {
    let _host = HostLock::take();
    if let Some(why) = missing_arena() {
        return live::not_judged(why);
    }
    fitness::one_of(TRIES, &Needs::on_last_cpu().without_timers(), || {
        let mut workload = settable("arena", &[("work-us", "200")]);
        // A window of one second has 50 ticks, and at least one of them has the additional work.
        let long = |workload: &mut Settable| try_window(workload, SETTLE, 5 * WINDOW).unwrap();
        let before = long(&mut workload);
        workload.configure(&[("work-us", Some("4200"))]).unwrap();
        let worked = long(&mut workload);
        workload.configure(&[("work-us", None), ("tail-us", Some("9000"))]).unwrap();
        let tailed = long(&mut workload);
        workload.configure(&[("tick-hz", Some("100")), ("work-us", Some("4200"))]).unwrap();
        let both = long(&mut workload);
        workload.stop();
        let p50 = |sample: &Sample| sample["work_us_p50"];
        // A busy machine misses ticks, so compare the ticks that were due.
        let due = |sample: &Sample| sample["ticks"] + sample["missed_ticks"];
        let table = [
            ("work is added", p50(&worked) > p50(&before) + 2_000.0),
            ("work is taken away", p50(&tailed) < p50(&worked)),
            ("a tail is added", tailed["work_us_p99"] > p50(&tailed) + 4_000.0),
            ("ticks come twice as often", due(&both) > 1.5 * due(&before)),
            // Each new start measures again how much work takes this long.
            ("the work is the same after a new start", p50(&both) > p50(&worked) / 2.0),
        ];
        let wrong: Vec<&str> = table.into_iter().filter_map(|(what, holds)| (!holds).then_some(what)).collect();
        let seen = || format!("{wrong:?}: {before:?} {worked:?} {tailed:?} {both:?}");
        if wrong.is_empty() { Ok(()) } else { Err(seen()) }
    });
}

#[test]
fn a_larger_buffer_keeps_what_comes_between_two_readings() {
    let _host = HostLock::take();
    let delivered = |ask_bytes: &str| {
        // A tenth of the packets with ten times the pause gives the same number of waiting packets,
        // but little work for the machine.
        let set = [("ask-bytes", ask_bytes), ("pps", "16000"), ("drain-ms", "50")];
        let mut workload = start("drain", &set);
        let sample = window(workload.as_mut());
        workload.stop();
        (sample["delivered_share"], sample["buffer_bytes"])
    };
    fitness::one_of(TRIES, &Needs::on_last_cpu(), || {
        let ((small, small_bytes), (large, large_bytes)) = (delivered("65536"), delivered("1048576"));
        let seen = format!("{small_bytes} bytes: {small:.3} delivered; {large_bytes} bytes: {large:.3}");
        if large_bytes < 1e6 {
            live::not_judged(format_args!("net.core.rmem_max lets a server ask for no more: {seen}"));
            return Ok(());
        }
        // 800 packets arrive between two readings. A buffer of 131,072 bytes holds about 170 small packets.
        if small < 0.6 && large > 2.0 * small { Ok(()) } else { Err(seen) }
    });
}

/// How often CPUs have entered an idle state that takes time to leave.
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
    let _host = HostLock::take();
    let root = Root::live();
    if root.entries("/sys/devices/system/cpu/cpu0/cpuidle").is_err() {
        live::not_judged("the kernel has no idle driver here, so a limit on idling does nothing");
        return;
    }
    if !process::is_root() || thread::affinity().unwrap().len() < 2 {
        live::not_judged("it takes root and two CPUs");
        return;
    }
    let hand = root.writer().unwrap();
    let mut workload = start("udp-echo", &[]);
    let mut held = None;
    let mut limit = || {
        let switch = |_: &mut dyn Workload, is_b: bool| {
            // Drop the old limit first, because it would otherwise also apply in the new arm.
            drop(held.take());
            held = is_b.then(|| hand.hold_dma_latency_us(0).unwrap());
        };
        let before = idle_entries();
        window(workload.as_mut());
        let entries = idle_entries().saturating_sub(before);
        // If CPUs poll instead of sleeping (haltpoll), or have no idle time, a limit can't improve anything.
        println!("CPUs were put to sleep {entries} times in a window without a limit");
        let found = ratio(workload.as_mut(), "round_trip_us_p50", switch, 3);
        (entries > 500 || found <= 0.9).then_some(found)
    };
    holds("cpuidle.dma_latency_us=0", &mut limit, 0.0..=0.9);
    workload.stop();
}

/// One thread per CPU, which runs only if the CPU would otherwise be idle.
/// The threads keep CPUs awake as some idle knobs do, even on machines without these knobs.
struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// How long these threads existed, and how much of that time was missing in gaps of a millisecond or more.
/// A server that answers takes only microseconds, so another guest took the missing time.
/// If the hypervisor takes a busy CPU away, these threads do not keep it awake.
#[derive(Default)]
struct Record {
    all_ns: AtomicU64,
    gone_ns: AtomicU64,
}

impl Record {
    /// The share of missing time since the last call.
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

/// If CPUs never sleep, both wake-ups of a round trip are fast.
#[test]
fn cpus_that_stay_awake_answer_sooner() {
    let _host = HostLock::take();
    if thread::affinity().unwrap().len() < 2 {
        return live::not_judged("there is one CPU only");
    }
    let mut workload = start("udp-echo", &[]);
    let (mut awake, record) = (None, Arc::new(Record::default()));
    let mut switch = |_: &mut dyn Workload, is_b: bool| {
        drop(awake.take());
        awake = is_b.then(|| Awake::start(&record));
    };
    let seen = || {
        let found = ratio(workload.as_mut(), "round_trip_us_p50", &mut switch, 3);
        let gone_share = record.gone_share();
        println!("the CPUs that should stay awake were missing for {:.1} % of the time", 100.0 * gone_share);
        (gone_share < 0.05 || found <= 0.9).then_some(found)
    };
    holds("awake", seen, 0.0..=0.9);
    workload.stop();
}

/// The sequential test that trials use must detect the effect within a usual number of pairs.
#[test]
fn the_sequential_test_sees_that_cpus_stay_awake() {
    const PAIRS_MAX: usize = 40;
    let _host = HostLock::take();
    if thread::affinity().unwrap().len() < 2 {
        return live::not_judged("there is one CPU only");
    }
    let mut workload = start("udp-echo", &[]);
    let record = Arc::new(Record::default());
    fitness::one_of(TRIES, &Needs::on_last_cpu(), || {
        let mut test = Sequential::new(evenkeel_stats::Options::new(Direction::Lower)).unwrap();
        while !test.look().decided && test.look().pairs < PAIRS_MAX {
            let mut seen = [0.0; 2];
            let first = usize::from((clock::monotonic_ns() / 64).is_multiple_of(2));
            for arm in [first, 1 - first] {
                let _awake = (arm == 1).then(|| Awake::start(&record));
                seen[arm] = window(workload.as_mut())["round_trip_us_p50"];
            }
            test.add(Pair { a: seen[0], b: seen[1] }).unwrap();
        }
        let look = test.look();
        println!("{look:?}");
        if look.verdict == Verdict::Better { Ok(()) } else { Err(format!("{look:?}")) }
    });
    workload.stop();
}
