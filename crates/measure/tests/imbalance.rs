//! A CPU that one of our own threads fills, and one that packets are taken in on: both must be told by name, with what they took.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]

use evenkeel_testkit::fitness as machine;

use std::fs::File;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_measure::Watch;
use evenkeel_measure::meters::imbalance::{self, Report, Settings, Shape};
use evenkeel_sys::{CpuSet, clock, thread};
use machine::Needs;

const NAME: &str = "ek-fills-a-cpu";

fn alone() -> File {
    let lock = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

fn measured(for_ns: u64) -> Report {
    let stop = AtomicBool::new(false);
    let settings = Settings { for_ns, part_ns: 500_000_000 };
    imbalance::run(&settings, &Watch::new(&stop, &|_, _| {})).unwrap()
}

/// Runs `work` over and over on one CPU while `body` runs; gives what the body gave, and the share of the CPU that the work had.
fn beside<T>(cpu: usize, work: impl Fn() + Send, body: impl FnOnce() -> T) -> (T, f64) {
    let (stop, is_ready) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (stop, is_ready) = (&stop, &is_ready);
        let inside = move || {
            thread::set_affinity(&CpuSet::from_iter([cpu])).unwrap();
            let (start_ns, ran_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
            is_ready.store(true, Ordering::Release);
            while !stop.load(Ordering::Relaxed) {
                work();
            }
            (clock::thread_cpu_ns() - ran_ns) as f64 / (clock::monotonic_ns() - start_ns) as f64
        };
        let worker = std::thread::Builder::new().name(NAME.to_owned()).spawn_scoped(scope, inside).unwrap();
        while !is_ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let answer = body();
        stop.store(true, Ordering::Relaxed);
        (answer, worker.join().unwrap())
    })
}

#[test]
fn a_spinner_is_told_by_name() {
    let _alone = alone();
    let cpu = thread::affinity().unwrap().iter().last().unwrap();
    machine::one_of(3, &Needs::on_cpu(cpu), || {
        let (report, had) = beside(cpu, std::hint::spin_loop, || measured(1_500_000_000));
        let seen = report.whole.cpus.iter().find(|seen| seen.cpu == cpu).unwrap();
        let ours = seen.threads.iter().find(|thread| thread.name == NAME);
        println!("{:?} {:?}, it had {had:.3}: {ours:?}", report.whole.shape, report.whole.full_cpus);
        // Where the others are full too, the machine is full and not uneven; that is for the machine to say.
        let is_told =
            report.whole.full_cpus.contains(&cpu) && matches!(report.whole.shape, Shape::Uneven | Shape::Full);
        let is_right = ours.is_some_and(|thread| (thread.share - had).abs() < 0.06 && thread.pid == std::process::id());
        if is_told && is_right && report.parts == 3 { Ok(()) } else { Err(format!("{:?}", report.whole)) }
    });
}

#[test]
fn packets_are_told_as_softirqs_of_the_cpu_that_takes_them() {
    let _alone = alone();
    let cpu = thread::affinity().unwrap().first().unwrap();
    machine::one_of(3, &Needs::on_cpu(cpu), || {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        let sent = AtomicU64::new(0);
        // Each packet is there before the next one goes: one softirq each.
        let send = || {
            let mut bytes = [0; 8];
            if one.send(&bytes).is_ok() && other.recv(&mut bytes).is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        };
        let start_ns = clock::monotonic_ns();
        let (report, _) = beside(cpu, send, || measured(1_000_000_000));
        let per_s = sent.load(Ordering::Relaxed) as f64 / (clock::monotonic_ns() - start_ns) as f64 * 1e9;
        let seen = report.whole.cpus.iter().find(|seen| seen.cpu == cpu).unwrap();
        let told = seen.softirqs.iter().find(|softirq| softirq.name == "NET_RX").map_or(0.0, |softirq| softirq.per_s);
        println!("{per_s:.0} packets in a second were told as {told:.0} softirqs");
        if (0.8..1.25).contains(&(told / per_s)) { Ok(()) } else { Err(format!("{told} of {per_s}")) }
    });
}

#[test]
fn a_stop_ends_it() {
    let stop = AtomicBool::new(true);
    let settings = Settings { for_ns: 3_600_000_000_000, part_ns: 1_000_000_000 };
    let report = imbalance::run(&settings, &Watch::new(&stop, &|_, _| {})).unwrap();
    assert_eq!(report.parts, 1);
}

/// A try counts where the machine was as the test needs it, however often it was not: a test that never holds must fail there.
#[test]
fn only_a_machine_that_was_unfit_each_time_is_an_excuse() {
    // Of each try whether it holds, and else whether the machine was fit.
    let told = |tries: &[(bool, bool)]| {
        let (mut at, mut runs) = (0, 0);
        let at = std::cell::Cell::from_mut(&mut at);
        let run = || {
            let holds = tries[at.get()].0;
            runs += 1;
            if holds { Ok(()) } else { Err("it does not hold".to_owned()) }
        };
        let unmet = || {
            let is_fit = tries[at.replace(at.get() + 1)].1;
            (!is_fit).then(|| "busy".to_owned())
        };
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| machine::one_of_by(3, run, unmet)));
        (shown.ok(), runs)
    };
    let (held, fit, unfit) = ((true, true), (false, true), (false, false));
    assert_eq!(told(&[fit, fit, held]), (Some(true), 3));
    assert_eq!(told(&[fit, fit, fit]), (None, 3));
    assert_eq!(told(&[unfit, fit, unfit, fit, unfit, fit]), (None, 6), "three failed on a fit machine");
    assert_eq!(told(&[unfit, unfit, unfit, held]), (Some(true), 4));
    assert_eq!(told(&[unfit, fit, unfit, unfit, fit, unfit]), (Some(false), 6), "that is said");
}
