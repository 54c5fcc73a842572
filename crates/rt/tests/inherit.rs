//! A real-time thread that waits for a lock of an ordinary one, on a CPU that other ordinary threads keep busy: with a lock that
//! lends its priority it waits for about what the holder itself takes.

#![expect(clippy::unwrap_used, reason = "a test that can't set its stage fails")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use evenkeel_rt::InheritMutex;
use evenkeel_sys::{CpuSet, clock, sched, thread};

const NEIGHBOURS: usize = 3;
const HELD_NS: u64 = 20_000_000;

fn pin(cpu: usize) {
    thread::set_affinity(&[cpu].into_iter().collect::<CpuSet>()).unwrap();
}

fn work(cpu_ns: u64) {
    let end_ns = thread_cpu_ns() + cpu_ns;
    while thread_cpu_ns() < end_ns {
        std::hint::spin_loop();
    }
}

fn thread_cpu_ns() -> u64 {
    clock::thread_cpu_ns()
}

/// How long a real-time thread takes there for what the holder has to do: what a hypervisor takes is in both, and in CPU time or not as the
/// kernel has it; none without real-time threads.
fn alone_ns(cpu: usize) -> Option<u64> {
    let worker = std::thread::spawn(move || {
        pin(cpu);
        sched::set_fifo(10).ok()?;
        let start_ns = clock::monotonic_ns();
        work(HELD_NS);
        Some(clock::monotonic_ns() - start_ns)
    });
    worker.join().unwrap()
}

/// How long the waiter waits from when the holder has the lock and 20 ms of work to do; none without real-time threads.
fn waited_ns(cpu: usize) -> Option<u64> {
    let lock = Arc::new(InheritMutex::new(()));
    let (held, is_held) = mpsc::channel();
    let holder = std::thread::spawn({
        let lock = Arc::clone(&lock);
        move || {
            pin(cpu);
            let _guard = lock.lock();
            held.send(()).unwrap();
            work(HELD_NS);
        }
    });
    is_held.recv().unwrap();
    let waiter = std::thread::spawn(move || {
        pin(cpu);
        sched::set_fifo(10).ok()?;
        let start_ns = clock::monotonic_ns();
        drop(lock.lock());
        Some(clock::monotonic_ns() - start_ns)
    });
    let waited = waiter.join().unwrap();
    holder.join().unwrap();
    waited
}

#[test]
fn a_real_time_waiter_waits_for_the_holder_alone() {
    let cpu = thread::affinity().unwrap().iter().last().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let neighbours: Vec<_> = (0..NEIGHBOURS)
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                pin(cpu);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    // The machine may pause, or do others' work meanwhile: the best of some waits is held against the best of the bare work.
    let waits: Option<Vec<(u64, u64)>> = (0..5).map(|_| Some((waited_ns(cpu)?, alone_ns(cpu)?))).collect();
    stop.store(true, Ordering::Relaxed);
    neighbours.into_iter().for_each(|thread| thread.join().unwrap());
    let Some(waits) = waits else {
        println!("skipped: this user may not have real-time threads");
        return;
    };
    println!("waited, and alone, {waits:?} ns for a holder with {HELD_NS} ns to do");
    // Sharing the CPU with three others would make it four times as long.
    let (waited_ns, alone_ns): (Vec<u64>, Vec<u64>) = waits.iter().copied().unzip();
    let best = |of: &[u64]| of.iter().copied().min().unwrap_or(0);
    assert!(best(&waited_ns) < best(&alone_ns) * 3 / 2, "{waits:?}");
}
