//! Ticks on a CPU that a real-time thread takes away at set times: without being told anything, the clock has to put them where they are
//! done about as soon as a clock's that was told.
//!
//! `EVENKEEL_CALIBRATE=1` runs the whole grid, and prints every run.

#![expect(clippy::unwrap_used, reason = "a test that can't set its stage fails")]

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_rt::{Align, Aligned, Quantum, ThreadWishes, TickClock, TickSettings, TickThread};
use evenkeel_sys::{CpuSet, clock, sched, thread};

const MS: f64 = 1e6;

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

fn cpu() -> usize {
    thread::affinity().unwrap().iter().last().unwrap()
}

fn pin(cpu: usize) {
    thread::set_affinity(&CpuSet::from_iter([cpu])).unwrap();
}

/// A thread that takes the CPU away.
struct Taker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<bool>>,
}

#[derive(Clone, Copy, Debug)]
struct Slots {
    period_ms: f64,
    share: f64,
    jitter: f64,
    drift_ppm: f64,
    /// A beginning of our share.
    start_ns: u64,
}

impl Taker {
    fn start(body: impl FnOnce(&AtomicBool) -> bool + Send + 'static) -> Taker {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Taker { stop, thread: Some(std::thread::spawn(move || body(&stopped))) }
    }

    fn thief(cpu: usize, slots: Slots) -> Taker {
        Taker::start(move |stop| {
            pin(cpu);
            if sched::set_fifo(60).is_err() {
                return false;
            }
            let period_ns = slots.period_ms * MS * (1.0 + slots.drift_ppm / 1e6);
            let busy_ns = slots.period_ms * MS * (1.0 - slots.share);
            let mut chance = 88_172_645_463_325_252_u64;
            let mut turn = 0.0;
            while !stop.load(Ordering::Relaxed) {
                chance ^= chance << 13;
                chance ^= chance >> 7;
                chance ^= chance << 17;
                let jitter = ((chance >> 11) as f64 / (1_u64 << 52) as f64 - 1.0) * slots.jitter * period_ns;
                let end_ns = slots.start_ns as f64 + turn * period_ns + jitter;
                clock::sleep_until_ns((end_ns - busy_ns) as u64);
                while clock::monotonic_ns() < end_ns as u64 {
                    std::hint::spin_loop();
                }
                turn += 1.0;
            }
            true
        })
    }

    fn neighbour(cpu: usize) -> Taker {
        Taker::start(move |stop| {
            pin(cpu);
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            true
        })
    }

    /// Whether it did anything.
    fn stop(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().is_some_and(|thread| thread.join().unwrap())
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.end();
    }
}

#[derive(Clone, Copy, Debug)]
struct Server {
    period_ms: f64,
    work_ms: f64,
    seconds: f64,
    align: Align,
    /// Where it is told to begin: the first tick is due so long after a beginning of our share.
    told: Option<(u64, f64)>,
    sets_up: bool,
}

struct Ran {
    /// From due to done in milliseconds, of every tick, with the second of its begin.
    ticks: Vec<(f64, f64)>,
    aligned: Aligned,
    mean_interval_ms: f64,
}

impl Ran {
    fn after(&self, second: f64) -> Vec<f64> {
        let mut ms: Vec<f64> = self.ticks.iter().filter(|(at, _)| *at >= second).map(|(_, ms)| *ms).collect();
        ms.sort_unstable_by(f64::total_cmp);
        ms
    }
    fn median_after(&self, second: f64) -> f64 {
        let ms = self.after(second);
        ms[ms.len() / 2]
    }
    fn mean_after(&self, second: f64) -> f64 {
        let ms = self.after(second);
        ms.iter().sum::<f64>() / ms.len() as f64
    }
}

fn serve(cpu: usize, server: Server) -> Ran {
    let body = move || {
        let wishes = ThreadWishes { cpus: Some([cpu].into_iter().collect()), ..ThreadWishes::default() };
        let _thread = if server.sets_up {
            Some(TickThread::set_up(&wishes))
        } else {
            pin(cpu);
            None
        };
        let period = Duration::from_nanos((server.period_ms * MS) as u64);
        let mut clock = TickClock::start(TickSettings { period, align: server.align, ..TickSettings::default() });
        if let Some((start_ns, quantum_ms)) = server.told {
            let since = (clock.next_due_ns() as f64 - start_ns as f64) / (quantum_ms * MS);
            clock.shift_ns(((since.ceil() - since) * quantum_ms * MS + 50_000.0) as i64);
        }
        let begin_ns = clock::monotonic_ns();
        let mut ticks = Vec::with_capacity(1 << 16);
        let (mut first, mut last) = (0, 0);
        loop {
            let tick = clock.wait();
            let until_ns = clock::thread_cpu_ns() + (server.work_ms * MS) as u64;
            while clock::thread_cpu_ns() < until_ns {
                std::hint::spin_loop();
            }
            let done = clock.done().unwrap();
            let second = (tick.began_ns - begin_ns) as f64 / 1e9;
            if first == 0 {
                first = tick.began_ns;
            }
            last = tick.began_ns;
            ticks.push((second, done.due_to_done_ns() as f64 / MS));
            if second > server.seconds {
                break;
            }
        }
        let mean_interval_ms = (last - first) as f64 / MS / (ticks.len() - 1) as f64;
        Ran { ticks, aligned: clock.aligned(), mean_interval_ms }
    };
    std::thread::spawn(body).join().unwrap()
}

const SERVER: Server =
    Server { period_ms: 20.0, work_ms: 3.5, seconds: 12.0, align: Align::Measured, told: None, sets_up: true };

fn calibrates() -> bool {
    std::env::var_os("EVENKEEL_CALIBRATE").is_some()
}

#[test]
fn ticks_find_the_share_that_a_thief_leaves() {
    let _alone = Alone::on_this_host();
    let cpu = cpu();
    let mut all = vec![(10.0, 0.4, 0.0, 0.0)];
    if calibrates() {
        all = vec![
            (10.0, 0.4, 0.0, 0.0),
            (10.0, 0.4, 0.02, 100.0),
            (5.0, 0.6, 0.02, 100.0),
            (20.0, 0.4, 0.0, 0.0),
            (20.0, 0.6, 0.02, 100.0),
            (8.0, 0.8, 0.02, 100.0),
            (15.6, 0.4, 0.02, 100.0),
            (30.0, 0.2, 0.02, 100.0),
            (5.0, 0.9, 0.0, 0.0),
        ];
    }
    for (period_ms, share, jitter, drift_ppm) in all {
        let slots = Slots { period_ms, share, jitter, drift_ppm, start_ns: clock::monotonic_ns() + 20_000_000 };
        let ticks_ms = period_ms * (20.0_f64 / period_ms).round().max(1.0);
        let server = Server { period_ms: ticks_ms, work_ms: 3.5_f64.min(0.6 * share * ticks_ms), ..SERVER };
        let thief = Taker::thief(cpu, slots);
        let ran = serve(cpu, server);
        if !thief.stop() {
            println!("skipped: this user may not have real-time threads");
            return;
        }
        let slots = Slots { drift_ppm: 0.0, start_ns: clock::monotonic_ns() + 20_000_000, ..slots };
        let thief = Taker::thief(cpu, slots);
        let told =
            serve(cpu, Server { align: Align::Never, seconds: 3.0, told: Some((slots.start_ns, period_ms)), ..server });
        let un = serve(cpu, Server { align: Align::Never, seconds: 3.0, told: None, ..server });
        drop(thief);
        println!(
            "{period_ms} {share} {jitter} {drift_ppm} ticks {ticks_ms}/{}: median {:.3} mean {:.3}, told {:.3} {:.3}, unaligned {:.3} {:.3}, interval {:.4}",
            server.work_ms,
            ran.median_after(8.0),
            ran.mean_after(8.0),
            told.median_after(0.5),
            told.mean_after(0.5),
            un.median_after(0.5),
            un.mean_after(0.5),
            ran.mean_interval_ms
        );
        println!("   {:?}", ran.aligned);
    }
}

#[test]
fn a_neighbour() {
    let _alone = Alone::on_this_host();
    let cpu = cpu();
    for sets_up in [true, false] {
        for is_quiet in [true, false] {
            let _neighbour = (!is_quiet).then(|| Taker::neighbour(cpu));
            let server = Server { sets_up, seconds: 10.0, ..SERVER };
            let ran = serve(cpu, server);
            let un = serve(cpu, Server { align: Align::Never, ..server });
            println!(
                "set up {sets_up} quiet {is_quiet}: median {:.3} mean {:.3}; unaligned {:.3} {:.3}, interval {:.4}\n  {:?}",
                ran.median_after(0.0),
                ran.mean_after(0.0),
                un.median_after(0.0),
                un.mean_after(0.0),
                ran.mean_interval_ms,
                ran.aligned
            );
        }
    }
}
