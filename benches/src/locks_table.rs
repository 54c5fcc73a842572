//! `locks-table`: the share of work in the CPU time that threads spend at a lock, and how long they wait for it. It covers typical cases of
//! a server: on one CPU, under a CPU limit, and while the hypervisor takes one of two CPUs away. The table only informs; no limit is
//! checked.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow};
use evenkeel_stats::Histogram;
use evenkeel_sys::clock::{monotonic_ns, realtime_ns, sleep_until_ns, thread_cpu_ns};
use evenkeel_sys::{sched, thread};

use crate::locks::{With, pin, steps_of, work};
use crate::tick::Group;
use crate::turns::{Rounds, in_turns};

const WINDOW_NS: u64 = 400_000_000;
const ROUNDS: usize = 8;

/// What takes CPU time from the measured threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Calm,
    /// A CPU limit of 4 ms in each period of 10 ms.
    Limit,
    /// A real-time thread takes the first CPU for 6 ms of every 10.
    RtHog,
}

struct Column {
    name: &'static str,
    threads: usize,
    /// The number of CPUs.
    cpus: usize,
    with_ns: u64,
    without_ns: u64,
    condition: Condition,
}

const COLUMNS: [Column; 5] = [
    Column {
        name: "A: one CPU, 2 threads, 50/50 us",
        threads: 2,
        cpus: 1,
        with_ns: 50_000,
        without_ns: 50_000,
        condition: Condition::Calm,
    },
    Column {
        name: "B: one CPU, 4 threads, 50/50 us",
        threads: 4,
        cpus: 1,
        with_ns: 50_000,
        without_ns: 50_000,
        condition: Condition::Calm,
    },
    Column {
        name: "C: limit of 4 ms in 10, 2 threads, 200/200 us",
        threads: 2,
        cpus: 1,
        with_ns: 200_000,
        without_ns: 200_000,
        condition: Condition::Limit,
    },
    Column {
        name: "D: two CPUs, the first taken 6 ms in 10, 50/50 us",
        threads: 2,
        cpus: 2,
        with_ns: 50_000,
        without_ns: 50_000,
        condition: Condition::RtHog,
    },
    Column {
        name: "E: two CPUs, 1/1 us",
        threads: 2,
        cpus: 2,
        with_ns: 1000,
        without_ns: 1000,
        condition: Condition::Calm,
    },
];

/// The results of one window.
#[derive(Clone)]
struct Window {
    useful: f64,
    wait_us_p50: f64,
    wait_us_p999: f64,
    operations_per_s: f64,
}

/// Measures all columns and prints the table.
pub(crate) fn print() -> anyhow::Result<()> {
    let cpus: Vec<usize> = thread::affinity().map_err(|errno| anyhow!("read the affinity: {errno}"))?.iter().collect();
    for column in &COLUMNS {
        println!("{}", column.name);
        if cpus.len() < column.cpus {
            println!("  skipped: {} CPUs are needed, {} may be used", column.cpus, cpus.len());
            continue;
        }
        let group = (column.condition == Condition::Limit).then(Group::new).transpose()?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let hog = (column.condition == Condition::RtHog).then(|| scope.spawn(|| steal(cpus[0], &stop)));
            let printed = table(column, &cpus[cpus.len() - column.cpus..], group.as_ref());
            stop.store(true, Ordering::Relaxed);
            let stolen = hog.map(|hog| hog.join().map_err(|_| anyhow!("the real-time thread panicked"))?).transpose();
            printed.and(stolen.map(|_| ()))
        })?;
    }
    Ok(())
}

fn table(column: &Column, cpus: &[usize], group: Option<&Group>) -> anyhow::Result<()> {
    let (plain, inherit) = (evenkeel_rt::Mutex::new(()), evenkeel_rt::InheritMutex::new(()));
    let both = evenkeel_rt::RwLock::new(());
    let (standard, parking) = (std::sync::Mutex::new(()), parking_lot::Mutex::new(()));
    let spinning = spin::mutex::SpinMutex::<_, spin::Spin>::new(());
    macro_rules! while_held {
        ($held:expr) => {
            &|work| {
                let held = $held;
                work();
                drop(held);
            }
        };
    }
    let contenders: [(&str, With<'_>); 6] = [
        ("Mutex", while_held!(plain.lock())),
        ("InheritMutex", while_held!(inherit.lock())),
        ("RwLock, to write", while_held!(both.write())),
        ("std Mutex", while_held!(standard.lock())),
        ("parking_lot", while_held!(parking.lock())),
        ("spin", while_held!(spinning.lock())),
    ];
    let mut windows: Vec<Vec<Window>> = vec![Vec::new(); contenders.len()];
    let cpu = *cpus.last().context("no CPU")?;
    let steps = (steps_of(column.with_ns, cpu)?, steps_of(column.without_ns, cpu)?);
    in_turns(contenders.len(), Rounds { count: ROUNDS, seed: realtime_ns() }, |at| {
        windows[at].push(window(column, cpus, group, steps, contenders[at].1)?);
        Ok(0.0)
    })?;
    println!("  {:<18} {:>22} {:>22} {:>26} {:>10}", "", "work of CPU time", "wait p50 us", "wait p99.9 us", "1,000/s");
    for ((name, _), windows) in contenders.iter().zip(&windows) {
        let column = |of: fn(&Window) -> f64, digits: usize| {
            let mut all: Vec<f64> = windows[1..].iter().map(of).collect(); // the first round warms up
            all.sort_by(f64::total_cmp);
            format!("{:.digits$} [{:.digits$}, {:.digits$}]", all[all.len() / 2], all[0], all[all.len() - 1])
        };
        let rate = column(|window| window.operations_per_s / 1e3, 0);
        let rate = rate.split(' ').next().unwrap_or_default();
        println!(
            "  {name:<18} {:>22} {:>22} {:>26} {rate:>10}",
            column(|window| window.useful, 2),
            column(|window| window.wait_us_p50, 1),
            column(|window| window.wait_us_p999, 0)
        );
    }
    Ok(())
}

fn window(
    column: &Column,
    cpus: &[usize],
    group: Option<&Group>,
    steps: (u64, u64),
    with: With<'_>,
) -> anyhow::Result<Window> {
    let together = Barrier::new(column.threads);
    let body = |number: usize| -> anyhow::Result<(u64, u64, Histogram)> {
        pin(cpus[number % cpus.len()])?;
        group.map_or(Ok(()), Group::enter)?;
        let mut waits = Histogram::new();
        together.wait();
        let (start_cpu_ns, end_ns) = (thread_cpu_ns(), monotonic_ns() + WINDOW_NS);
        let mut operations = 0;
        let mut asked_ns = monotonic_ns();
        while asked_ns < end_ns {
            with(&mut || {
                waits.record(monotonic_ns() - asked_ns);
                work(steps.0);
            });
            work(steps.1);
            operations += 1;
            asked_ns = monotonic_ns();
        }
        Ok((operations, thread_cpu_ns() - start_cpu_ns, waits))
    };
    let (mut operations, mut cpu_ns, mut waits) = (0_u64, 0_u64, Histogram::new());
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..column.threads).map(|number| scope.spawn(move || body(number))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?).collect::<Vec<_>>()
    });
    for one in all {
        let (count, spent_ns, waited) = one?;
        operations += count;
        cpu_ns += spent_ns;
        waits.merge(&waited);
    }
    let us = |q: f64| waits.quantile(q).map_or(f64::NAN, |ns| ns as f64 / 1e3);
    Ok(Window {
        useful: (operations * (column.with_ns + column.without_ns)) as f64 / cpu_ns.max(1) as f64,
        wait_us_p50: us(0.5),
        wait_us_p999: us(0.999),
        operations_per_s: operations as f64 / (WINDOW_NS as f64 / 1e9),
    })
}

/// Takes a CPU for 6 ms of every 10, as a hypervisor may.
fn steal(cpu: usize, stop: &AtomicBool) -> anyhow::Result<()> {
    pin(cpu)?;
    sched::set_fifo(50).map_err(|errno| anyhow!("become real-time: {errno}"))?;
    let mut start_ns = monotonic_ns();
    while !stop.load(Ordering::Relaxed) {
        while monotonic_ns() < start_ns + 6_000_000 {
            std::hint::spin_loop();
        }
        start_ns += 10_000_000;
        sleep_until_ns(start_ns);
    }
    Ok(())
}
