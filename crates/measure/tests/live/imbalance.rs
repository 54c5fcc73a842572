//! One of our own threads fills a CPU, and packets arrive on another CPU. The meter must report both by name, with their shares.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_measure::Watch;
use evenkeel_measure::meters::imbalance::{self, Report, Settings, Shape};
use evenkeel_sys::{CpuSet, clock, thread};
use evenkeel_testkit::HostLock;
use evenkeel_testkit::fitness::{self, Needs};

const NAME: &str = "ek-fills-a-cpu";

fn measured(for_ns: u64) -> Report {
    let stop = AtomicBool::new(false);
    let settings = Settings { for_ns, part_ns: 500_000_000 };
    imbalance::run(&settings, &Watch::new(&stop, &|_, _| {})).unwrap()
}

/// Repeats `work` on one CPU while `body` runs. Returns the result of `body`, and the CPU share of the work.
fn during<T>(cpu: usize, work: impl Fn() + Send, body: impl FnOnce() -> T) -> (T, f64) {
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
fn a_spinner_is_reported_by_name() {
    let _host = HostLock::take();
    let cpu = thread::affinity().unwrap().iter().last().unwrap();
    fitness::one_of(3, &Needs::on_cpu(cpu), || {
        let (report, had) = during(cpu, std::hint::spin_loop, || measured(1_500_000_000));
        let seen = report.whole.cpus.iter().find(|seen| seen.cpu == cpu).unwrap();
        let ours = seen.threads.iter().find(|thread| thread.name == NAME);
        println!("{:?} {:?}, it had {had:.3}: {ours:?}", report.whole.shape, report.whole.full_cpus);
        // If the other CPUs are full too, the machine is full rather than uneven.
        let is_reported =
            report.whole.full_cpus.contains(&cpu) && matches!(report.whole.shape, Shape::Uneven | Shape::Full);
        let is_right = ours.is_some_and(|thread| (thread.share - had).abs() < 0.06 && thread.pid == std::process::id());
        if is_reported && is_right && report.parts == 3 { Ok(()) } else { Err(format!("{:?}", report.whole)) }
    });
}

#[test]
fn packets_are_reported_as_softirqs_of_the_receiving_cpu() {
    let _host = HostLock::take();
    let cpu = thread::affinity().unwrap().first().unwrap();
    fitness::one_of(3, &Needs::on_cpu(cpu), || {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        let sent = AtomicU64::new(0);
        // Each packet arrives before the next packet is sent, so each needs one softirq.
        let send = || {
            let mut bytes = [0; 8];
            if one.send(&bytes).is_ok() && other.recv(&mut bytes).is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        };
        let start_ns = clock::monotonic_ns();
        let (report, _) = during(cpu, send, || measured(1_000_000_000));
        let per_s = sent.load(Ordering::Relaxed) as f64 / (clock::monotonic_ns() - start_ns) as f64 * 1e9;
        let seen = report.whole.cpus.iter().find(|seen| seen.cpu == cpu).unwrap();
        let reported =
            seen.softirqs.iter().find(|softirq| softirq.name == "NET_RX").map_or(0.0, |softirq| softirq.per_s);
        println!("{per_s:.0} packets per second were reported as {reported:.0} softirqs");
        if (0.8..1.25).contains(&(reported / per_s)) { Ok(()) } else { Err(format!("{reported} of {per_s}")) }
    });
}
