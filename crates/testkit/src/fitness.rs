//! Measures what this machine does to a bare thread that spins, works and sleeps.
//! After a failure, a live check asks whether the machine was fit for it, so that a busy hypervisor does not look like a bug.
//!
//! A live check measures the machine after each failed try. The try counts only if the machine was fit at that time.
//! If all tries of a check count and fail, the check fails. If fewer failures count, the check is not judged.

use std::num::NonZeroU64;

use evenkeel_sys::{clock, sched, thread};

use crate::live;

const SPIN_NS: u64 = 300_000_000;
/// Gaps longer than this are longer than an interrupt.
const GAP_NS: u64 = 100_000;
const SLEEPS: usize = 100;
const SLEEP_NS: u64 = 2_000_000;
const WORKS: usize = 400;
/// Lower than the priority of the tests' disturbers, which have ended by then.
const FIFO_PRIORITY: u8 = 50;

/// What a test requires of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The CPU to examine.
    pub cpu: usize,
    /// The maximum missing share of a spinning thread's time.
    pub missing: f64,
    /// The maximum p90 of timer lateness.
    pub late_ns: u64,
    /// The maximum CPU time of a sleep.
    pub turn_ns: u64,
    /// The maximum of [`Machine::uneven`]: how much slower the slowest tenth of equal work is than the fastest.
    pub uneven: f64,
    /// Whether a real-time thread is tested, which ordinary threads do not disturb.
    pub is_real_time: bool,
}

impl Needs {
    /// The properties that an ordinary virtual machine has on this CPU.
    pub fn on_cpu(cpu: usize) -> Needs {
        Needs { cpu, missing: 0.02, late_ns: 120_000, turn_ns: 20_000, uneven: 0.25, is_real_time: false }
    }

    /// Drops the requirement on timers, for a check in which no thread sleeps.
    pub fn without_timers(self) -> Needs {
        Needs { late_ns: u64::MAX, turn_ns: u64::MAX, ..self }
    }

    /// The requirements for the last CPU, on which the fewest other programs run.
    pub fn on_last_cpu() -> Needs {
        Needs::on_cpu(thread::affinity().unwrap().iter().last().unwrap())
    }

    /// The requirement that the machine fails to meet now. `None` if it is fit.
    pub fn unmet(&self) -> Option<String> {
        let Machine { missing, late_ns, turn_ns, uneven, .. } = Machine::seen_by(self.cpu, self.is_real_time);
        let all = [
            (missing > self.missing, format!("{:.1} % of a spinning thread's time are missing", missing * 100.0)),
            (late_ns > self.late_ns, format!("a tenth of all timers wake {late_ns} ns late or later")),
            (turn_ns > self.turn_ns, format!("a sleep costs {turn_ns} ns of CPU time")),
            (uneven > self.uneven, format!("the same work takes {:.0} % longer at times", uneven * 100.0)),
        ];
        let unmet: Vec<String> = all.into_iter().filter_map(|(is_unmet, why)| is_unmet.then_some(why)).collect();
        (!unmet.is_empty()).then(|| unmet.join(", "))
    }
}

/// The measurements of a bare thread on one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The share of a spinning thread's time in gaps longer than an interrupt.
    pub missing: f64,
    /// The median lateness with which timers woke the thread.
    pub late_p50_ns: u64,
    /// The 90th percentile of the lateness with which timers woke the thread.
    pub late_ns: u64,
    /// The CPU time of a sleep: falling asleep and waking up.
    pub turn_ns: u64,
    /// How much slower the slowest tenth of equal work is than the fastest.
    pub uneven: f64,
}

impl Machine {
    /// Measures as an ordinary thread, in two thirds of a second.
    pub fn seen_on(cpu: usize) -> Machine {
        Machine::seen_by(cpu, false)
    }

    fn seen_by(cpu: usize, is_real_time: bool) -> Machine {
        // Use a separate thread, because its settings end with it.
        let look = move || {
            thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
            thread::set_timer_slack_ns(Some(NonZeroU64::MIN)).unwrap();
            if is_real_time {
                sched::set_fifo(FIFO_PRIORITY).unwrap();
            }
            let missing = missing();
            let (late_p50_ns, late_ns, turn_ns) = late();
            Machine { missing, late_p50_ns, late_ns, turn_ns, uneven: uneven() }
        };
        std::thread::spawn(look).join().unwrap()
    }
}

fn missing() -> f64 {
    let start_ns = clock::monotonic_ns();
    let (mut last_ns, mut missing_ns) = (start_ns, 0);
    while last_ns < start_ns + SPIN_NS {
        let now_ns = clock::monotonic_ns();
        missing_ns += if now_ns - last_ns > GAP_NS { now_ns - last_ns } else { 0 };
        last_ns = now_ns;
    }
    missing_ns as f64 / (last_ns - start_ns) as f64
}

fn late() -> (u64, u64, u64) {
    let cpu_ns = clock::thread_cpu_ns();
    let mut late_ns: Vec<u64> = (0..SLEEPS)
        .map(|_| {
            let due_ns = clock::monotonic_ns() + SLEEP_NS;
            clock::sleep_until_ns(due_ns);
            clock::monotonic_ns() - due_ns
        })
        .collect();
    let turn_ns = (clock::thread_cpu_ns() - cpu_ns) / SLEEPS as u64;
    late_ns.sort_unstable();
    (late_ns[SLEEPS / 2], late_ns[SLEEPS * 9 / 10], turn_ns)
}

fn uneven() -> f64 {
    let mut took_ns: Vec<u64> = (0..WORKS)
        .map(|_| {
            let start_ns = clock::monotonic_ns();
            let mut word = 1_u64;
            for _ in 0..100_000 {
                word = std::hint::black_box(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
            std::hint::black_box(word);
            clock::monotonic_ns() - start_ns
        })
        .collect();
    took_ns.sort_unstable();
    took_ns[WORKS * 9 / 10] as f64 / took_ns[WORKS / 10].max(1) as f64 - 1.0
}

/// Runs a check up to `tries` times until it holds. After each failure it asks whether the machine meets `needs`. Returns whether it held;
/// see [`holds`].
pub fn one_of(tries: usize, needs: &Needs, run: impl FnMut() -> Result<(), String>) -> bool {
    one_of_by(tries, run, || needs.unmet())
}

/// The same as [`one_of`], with your own machine check: `unmet` returns the requirement that the machine fails to meet at this moment.
pub fn one_of_by(
    tries: usize,
    mut run: impl FnMut() -> Result<(), String>,
    mut unmet: impl FnMut() -> Option<String>,
) -> bool {
    holds(tries, || {
        let Err(why) = run() else { return Some(Ok(())) };
        let Some(excuse) = unmet() else { return Some(Err(why)) };
        println!("a try failed: {why}; the machine was unfit: {excuse}");
        None
    })
}

/// Panics after `tries` failures on a fit machine.
/// A try on an unfit machine (`None`) does not count and is repeated, at most `tries` times.
/// After that the check is reported as not judged. Returns whether it held.
pub fn holds(tries: usize, mut try_it: impl FnMut() -> Option<Result<(), String>>) -> bool {
    let (mut failed, mut unfit) = (Vec::new(), 0);
    while failed.len() < tries && unfit <= tries {
        match try_it() {
            Some(Ok(())) => return true,
            Some(Err(why)) => failed.push(why),
            None => unfit += 1,
        }
    }
    assert!(failed.len() < tries, "{tries} tries failed on a fit machine: {failed:#?}");
    live::not_judged(format_args!("the machine was unfit in {unfit} tries; the other failures: {failed:?}"));
    false
}

/// The share of a CPU that a thread gets while it only reads the clock.
pub fn spinning_share() -> f64 {
    let spin = || {
        let (start_ns, cpu_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
        while clock::monotonic_ns() < start_ns + SPIN_NS {
            std::hint::spin_loop();
        }
        (clock::thread_cpu_ns() - cpu_ns) as f64 / (clock::monotonic_ns() - start_ns) as f64
    };
    std::thread::spawn(spin).join().unwrap()
}
