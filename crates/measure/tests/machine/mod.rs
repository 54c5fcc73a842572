//! What this machine does to a thread that no meter has a part in: it spins, it works, it sleeps. A test that finds a number off in each of
//! its tries asks here whether the machine could have shown it, so that a hypervisor with other guests is not taken for a fault of a meter.
//!
//! It is asked only after a try has failed: on a machine that is as a test needs it, three failed tries are a fault, and the test says so.

#![allow(dead_code, reason = "each test file uses its part")]

use std::num::NonZeroU64;

use evenkeel_sys::{clock, thread};

const SPIN_NS: u64 = 300_000_000;
/// What an interrupt takes no longer than.
const GAP_NS: u64 = 100_000;
const SLEEPS: usize = 100;
const SLEEP_NS: u64 = 2_000_000;
const WORKS: usize = 400;

/// What a test needs of its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub(crate) cpu: usize,
    /// The most that may be missing of the time of a thread that spins.
    pub(crate) missing: f64,
    /// How late nine of ten timers may wake.
    pub(crate) late_ns: u64,
    /// The most CPU time that a sleep may cost.
    pub(crate) turn_ns: u64,
    /// How much longer the same work may take at one time than at another.
    pub(crate) uneven: f64,
}

impl Needs {
    /// What an ordinary virtual machine of ones own has to give.
    pub(crate) fn of(cpu: usize) -> Needs {
        Needs { cpu, missing: 0.02, late_ns: 120_000, turn_ns: 20_000, uneven: 0.25 }
    }

    /// The same for a test in which nothing sleeps: late and dear timers are no excuse for it.
    pub(crate) fn but_timers(self) -> Needs {
        Needs { late_ns: u64::MAX, turn_ns: u64::MAX, ..self }
    }

    /// Of the CPU on which the fewest other things run.
    pub(crate) fn of_last_cpu() -> Needs {
        Needs::of(thread::affinity().unwrap().iter().last().unwrap())
    }

    /// What is not so at this moment.
    pub(crate) fn unmet(&self) -> Option<String> {
        let Machine { missing, late_ns, turn_ns, uneven, .. } = Machine::seen_on(self.cpu);
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

/// What a bare thread saw on one CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The share of its time that a spinning thread did not see, in stretches that are too long for an interrupt.
    pub(crate) missing: f64,
    /// How late its timers woke it: the median, and what a tenth is over.
    pub(crate) late_p50_ns: u64,
    pub(crate) late_ns: u64,
    /// CPU time for a sleep and the way back.
    pub(crate) turn_ns: u64,
    /// By how much the slowest tenth of equal works is slower than the fastest.
    pub(crate) uneven: f64,
}

impl Machine {
    /// Takes two thirds of a second.
    pub(crate) fn seen_on(cpu: usize) -> Machine {
        // A thread of its own: what it sets for itself ends with it.
        let look = move || {
            thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
            thread::set_timer_slack_ns(Some(NonZeroU64::MIN)).unwrap();
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

/// Runs until it is as it should be, so many times at the most. Else it fails with what was said; and is skipped, aloud, if the machine was
/// not as the test needs it beside one of the tries. Gives whether it was shown.
pub(crate) fn one_of(tries: usize, needs: &Needs, mut run: impl FnMut() -> Result<(), String>) -> bool {
    let (mut said, mut unmet) = (Vec::new(), Vec::new());
    for _ in 0..tries {
        match run() {
            Ok(()) => return true,
            Err(why) => {
                println!("a try failed: {why}");
                said.push(why);
                unmet.extend(needs.unmet());
            }
        }
    }
    assert!(!unmet.is_empty(), "each of {tries} tries failed: {said:#?}");
    println!("skipped: this machine can't show it: {unmet:?}; it was {said:#?}");
    false
}
