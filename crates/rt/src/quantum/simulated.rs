//! A simulated machine that takes its CPU away in known ways, and a clock that the `Aligner` aligns. Hours of ticks take a moment.

use evenkeel_stats::periodicity::{Count, Known, Label, detect};

use super::aligner::{Aligner, Given, Seen};
use super::{Aligned, Alignment, Quantum};
use crate::schedule::{Overrun, Schedule};

const MS: f64 = 1e6;
const SECOND_NS: u64 = 1_000_000_000;
const NEVER: (u64, u64) = (0, 0);

/// How the CPU is taken away.
#[derive(Clone, Copy, Debug)]
enum Machine {
    Quiet,
    /// The machine takes the CPU away at fixed times.
    /// The fields are the period in milliseconds, our share, the jitter as a share of the period, and the drift in millionths.
    Slots {
        period_ms: f64,
        share: f64,
        jitter: f64,
        drift_ppm: f64,
        label: Label,
        /// The interval and the length of rests, in seconds. In a rest the CPU is not taken away. If both are 0, there are no rests.
        rests_s: (u64, u64),
    },
    /// Now and then another thread runs for the rest of the scheduler's tick.
    Neighbour,
    /// A CPU limit: a quota in milliseconds, and the time in milliseconds after which the quota is refilled.
    Bucket {
        quota_ms: f64,
        period_ms: f64,
    },
}

struct Cpu {
    machine: Machine,
    now_ns: f64,
    chance: u64,
    left_ns: f64,
    filled: f64,
    lost_ns: f64,
}

impl Cpu {
    fn new(machine: Machine) -> Cpu {
        Cpu { machine, now_ns: 7.0e9, chance: 88_172_645_463_325_252, left_ns: 0.0, filled: -1.0, lost_ns: 0.0 }
    }

    fn random(&mut self) -> f64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The start and the end of gap number `turn`.
    fn gap(&self, turn: f64) -> (f64, f64) {
        let Machine::Slots { period_ms, share, jitter, drift_ppm, .. } = self.machine else { return (0.0, 0.0) };
        let period_ns = period_ms * MS * (1.0 + drift_ppm / 1e6);
        // A random number that depends only on the number of the gap.
        let mixed = (turn as i64 as u64).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let chance = ((mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11) as f64 / (1_u64 << 53) as f64;
        let from_ns = turn * period_ns + (2.0 * chance - 1.0) * jitter * period_ms * MS;
        (from_ns, from_ns + (1.0 - share) * period_ms * MS)
    }

    /// The gap that contains `ns`, or the next one.
    fn gap_at(&self, ns: f64) -> (f64, f64) {
        let Machine::Slots { period_ms, drift_ppm, .. } = self.machine else { return (f64::MAX, f64::MAX) };
        let first = (ns / (period_ms * MS * (1.0 + drift_ppm / 1e6))).floor() - 2.0;
        (0..6).map(|at| self.gap(first + f64::from(at))).find(|(_, to)| *to > ns).unwrap()
    }

    fn rests(&self) -> bool {
        let Machine::Slots { rests_s: (every_s, for_s), .. } = self.machine else { return false };
        let second = self.now_ns as u64 / SECOND_NS;
        every_s > 0 && second % every_s >= every_s - for_s
    }

    /// Moves the time forward to the next moment at which the CPU is available.
    fn get(&mut self) {
        match self.machine {
            Machine::Quiet => {}
            Machine::Slots { .. } => {
                let (from, to) = self.gap_at(self.now_ns);
                if self.now_ns >= from && !self.rests() {
                    self.now_ns = to;
                }
            }
            Machine::Neighbour => {
                if self.random() < 0.05 {
                    self.now_ns = (self.now_ns / (4.0 * MS)).ceil() * 4.0 * MS;
                }
            }
            Machine::Bucket { quota_ms, period_ms } => {
                let filled = (self.now_ns / (period_ms * MS)).floor();
                if filled > self.filled {
                    (self.filled, self.left_ns) = (filled, quota_ms * MS);
                }
                if self.left_ns <= 0.0 {
                    self.now_ns = (filled + 1.0) * period_ms * MS;
                    (self.filled, self.left_ns) = (filled + 1.0, quota_ms * MS);
                }
            }
        }
    }

    fn sleep_until(&mut self, ns: u64) {
        self.now_ns = self.now_ns.max(ns as f64 + 20_000.0 + 20_000.0 * self.random());
        self.get();
        // Waking up costs a little CPU time.
        self.work(3_000.0);
    }

    fn work(&mut self, mut ns: f64) {
        while ns > 0.0 {
            let before_ns = self.now_ns;
            self.get();
            self.lost_ns += self.now_ns - before_ns;
            let until_ns = match self.machine {
                Machine::Quiet => f64::MAX,
                Machine::Slots { .. } => {
                    let (from, to) = self.gap_at(self.now_ns);
                    // During a rest, the machine takes no CPU time away.
                    if from > self.now_ns { from } else { to }
                }
                Machine::Neighbour => self.now_ns + 4.0 * MS,
                Machine::Bucket { period_ms, .. } => {
                    let filling = (self.filled + 1.0) * period_ms * MS;
                    filling.min(self.now_ns + self.left_ns)
                }
            };
            let part = ns.min((until_ns - self.now_ns).max(1.0));
            self.now_ns += part;
            self.left_ns -= part;
            ns -= part;
        }
    }

    fn label(&self) -> Label {
        match self.machine {
            Machine::Slots { label, .. } => label,
            _ => Label::Preempted,
        }
    }
}

struct Run {
    /// When each tick was due, and its time from due to done in milliseconds.
    ticks: Vec<(u64, f64)>,
    aligned: Aligned,
}

impl Run {
    /// The mean time from due to done, between two times in seconds.
    fn mean_ms(&self, from_s: u64, to_s: u64) -> f64 {
        let within = |(due_ns, _): &&(u64, f64)| (from_s..to_s).contains(&((*due_ns - 7 * SECOND_NS) / SECOND_NS));
        let (sum, count) =
            self.ticks.iter().filter(within).fold((0.0, 0), |(sum, count), (_, ms)| (sum + ms, count + 1));
        sum / f64::from(count)
    }
}

#[derive(Clone, Copy)]
struct Server {
    period_ms: f64,
    work_ms: f64,
    seconds: u64,
    /// When the first tick is due, in milliseconds after the start.
    first_ms: f64,
    aligns: bool,
}

const SERVER: Server = Server { period_ms: 20.0, work_ms: 3.5, seconds: 20, first_ms: 20.0, aligns: true };

fn run(machine: Machine, server: Server) -> Run {
    let mut cpu = Cpu::new(machine);
    let start_ns = cpu.now_ns as u64;
    let period_ns = (server.period_ms * MS) as u64;
    let mut schedule = Schedule::new(start_ns + (server.first_ms * MS) as u64, period_ns, Overrun::Skip);
    let limit = match machine {
        Machine::Bucket { quota_ms, period_ms } => Some(((quota_ms * MS) as u64, (period_ms * MS) as u64)),
        _ => None,
    };
    let mut aligner = Aligner::new(start_ns, period_ns, Given { limit, tick_ns: Some(4_000_000) });
    let mut ticks = Vec::new();
    let label = cpu.label();
    while cpu.now_ns < (start_ns + server.seconds * SECOND_NS) as f64 {
        let now_ns = cpu.now_ns as u64;
        if server.aligns {
            let by_ns = aligner.move_ns(now_ns, schedule.due_ns());
            if by_ns != 0 && now_ns < schedule.due_ns() {
                schedule.shift(by_ns, now_ns);
            }
        }
        let due = schedule.next(now_ns);
        let sleeps = now_ns < due.due_ns;
        aligner.idle_from(now_ns);
        while server.aligns
            && let Some(wake_ns) = aligner.next_wake_ns(cpu.now_ns as u64, due.due_ns)
        {
            cpu.sleep_until(wake_ns);
            aligner.woke(wake_ns, cpu.now_ns as u64, |_| label);
        }
        if cpu.now_ns < due.due_ns as f64 {
            cpu.sleep_until(due.due_ns);
        } else {
            cpu.get();
        }
        let began_ns = cpu.now_ns as u64;
        if sleeps {
            aligner.began(due.due_ns, began_ns, |_| label);
        }
        cpu.lost_ns = 0.0;
        cpu.work(server.work_ms * MS);
        let done_ns = cpu.now_ns as u64;
        let lost_ns = if label == Label::Preempted { cpu.lost_ns as u64 } else { 0 };
        ticks.push((due.due_ns, (done_ns - due.due_ns) as f64 / MS));
        aligner.ticked(&Seen { due_ns: due.due_ns, began_ns, done_ns, lost_ns });
        if let Some(watch) = aligner.asks(done_ns) {
            let known = Known { count: Count::All, ..Known::default() };
            let said = detect(watch.windows(), watch.gaps(), &known);
            aligner.found(done_ns, schedule.due_ns(), &said);
        }
    }
    Run { ticks, aligned: aligner.report() }
}

/// The least mean over all phases of a clock that does not move. Drift is off, because it would slide the clock through all phases.
fn best_ms(machine: Machine, server: Server) -> f64 {
    let still = match machine {
        Machine::Slots { period_ms, share, jitter, label, .. } => {
            Machine::Slots { period_ms, share, jitter, drift_ppm: 0.0, label, rests_s: NEVER }
        }
        other => other,
    };
    let at = |part: u32| {
        let server = Server {
            first_ms: server.period_ms * (1.0 + f64::from(part) / 40.0),
            aligns: false,
            seconds: 10,
            ..server
        };
        run(still, server).mean_ms(1, 10)
    };
    (0..40).map(at).fold(f64::MAX, f64::min)
}

/// Ticks whose period is a multiple of the slots' period, with work that fits into the slots' share.
fn fitting(period_ms: f64, share: f64) -> Server {
    let period_ms = period_ms * (20.0 / period_ms).round().max(1.0);
    Server { period_ms, work_ms: 3.5_f64.min(0.6 * share * period_ms), ..SERVER }
}

#[test]
fn ticks_are_put_where_the_cpu_comes_back() {
    for label in [Label::Preempted, Label::Foreign] {
        for period_ms in [5.0, 8.0, 10.0, 15.6, 20.0, 30.0] {
            for share in [0.2, 0.4, 0.6, 0.8, 0.9] {
                for (jitter, drift_ppm) in [(0.0, 0.0), (0.02, 100.0)] {
                    let machine = Machine::Slots { period_ms, share, jitter, drift_ppm, label, rests_s: NEVER };
                    let server = fitting(period_ms, share);
                    let run = run(machine, server);
                    let (got, best) = (run.mean_ms(10, 20), best_ms(machine, server));
                    assert!(got <= best * 1.05, "{machine:?}: {got:.3} ms, best {best:.3}: {:?}", run.aligned);
                }
            }
        }
    }
}

/// Realistic slots, whose clock drifts against ours.
fn drifting(rests_s: (u64, u64)) -> Machine {
    Machine::Slots { period_ms: 10.0, share: 0.4, jitter: 0.02, drift_ppm: 100.0, label: Label::Foreign, rests_s }
}

#[test]
fn they_stay_there_for_an_hour() {
    let machine = drifting(NEVER);
    let hour = run(machine, Server { seconds: 3600, ..SERVER });
    let best = best_ms(machine, SERVER);
    for minute in 1..60 {
        let got = hour.mean_ms(minute * 60, minute * 60 + 60);
        assert!(got <= best * 1.05, "minute {minute}: {got:.3} ms, best {best:.3}: {:?}", hour.aligned);
    }
    let Quantum::FixedSlot(slot) = hour.aligned.quantum else { panic!("{:?}", hour.aligned) };
    assert!((slot.period_ns - 10_001_000.0).abs() < 2_000.0 && (slot.share - 0.4).abs() < 0.03, "{slot:?}");
    assert!(hour.aligned.moves < 20, "{:?}", hour.aligned);
}

/// If slots disappear for a while, the aligner loses them, but their clock runs on.
/// The aligner finds them again soon, the tenth time as well as the first.
#[test]
fn slots_that_come_back_are_found_again() {
    let every_s = 200;
    let machine = drifting((every_s, 30));
    let run = run(machine, Server { seconds: 2000, ..SERVER });
    let best = best_ms(machine, SERVER);
    for turn in 1..10 {
        // The simulated run begins at the machine's seventh second.
        let back_s = turn * every_s - 7;
        let got = run.mean_ms(back_s + 20, back_s + 165);
        // At a place that is bad once in twenty ticks, ticks are 7 % slower. A few good ticks there must not make it the best place.
        assert!(got <= best * 1.02, "time {turn}: {got:.3} ms, best {best:.3}: {:?}", run.aligned);
    }
}

/// Ticks come slightly before the CPU comes back, so noise hides the gain of coming later. The aligner moves them nevertheless.
#[test]
fn ticks_that_are_a_little_early_are_moved() {
    let machine = Machine::Slots {
        period_ms: 10.0,
        share: 0.4,
        jitter: 0.0,
        drift_ppm: 0.0,
        label: Label::Foreign,
        rests_s: NEVER,
    };
    // The run begins with a gap of six milliseconds.
    let starts = |early_ms: f64| Server { first_ms: 26.0 - early_ms, ..SERVER };
    let best = run(machine, Server { aligns: false, ..starts(-0.05) }).mean_ms(10, 20);
    for early_ms in [0.03, 0.06, 0.1, 0.15, 0.3] {
        let run = run(machine, starts(early_ms));
        let got = run.mean_ms(10, 20);
        assert!(got <= best * 1.005, "{early_ms} ms early: {got:.3} ms, best {best:.3}: {:?}", run.aligned);
    }
}

#[test]
fn a_period_that_fits_nothing_is_reported_and_left_alone() {
    let machine = Machine::Slots {
        period_ms: 13.7,
        share: 0.5,
        jitter: 0.0,
        drift_ppm: 0.0,
        label: Label::Foreign,
        rests_s: NEVER,
    };
    let run = run(machine, SERVER);
    assert_eq!(run.aligned.alignment, Alignment::NoMultiple, "{:?}", run.aligned);
    assert!(run.aligned.quantum.period_ns().is_some_and(|ns| ns.abs_diff(13_700_000) < 3_000), "{:?}", run.aligned);
}

#[test]
fn under_a_limit_the_best_place_is_found() {
    for (quota_ms, period_ms, ticks_ms, work_ms) in
        [(4.0, 10.0, 20.0, 6.5), (4.0, 10.0, 50.0, 13.0), (4.0, 10.0, 20.0, 3.5), (40.0, 100.0, 20.0, 9.0)]
    {
        let machine = Machine::Bucket { quota_ms, period_ms };
        let server = Server { period_ms: ticks_ms, work_ms, seconds: 30, ..SERVER };
        let run = run(machine, server);
        let (got, best) = (run.mean_ms(20, 30), best_ms(machine, server));
        assert!(got <= best * 1.05, "{machine:?}: {got:.3} ms, best {best:.3}: {:?}", run.aligned);
        assert_eq!(run.aligned.probes, 0, "what is limited is not spent");
    }
}

#[test]
fn where_nothing_is_periodic_nothing_is_lost() {
    for machine in [Machine::Quiet, Machine::Neighbour] {
        let server = Server { seconds: 600, ..SERVER };
        let (with, without) = (run(machine, server), run(machine, Server { aligns: false, ..server }));
        let (got, left) = (with.mean_ms(0, 600), without.mean_ms(0, 600));
        assert!(got <= left * 1.01, "{machine:?}: {got:.4} ms, {left:.4} unaligned: {:?}", with.aligned);
        assert!(!matches!(with.aligned.quantum, Quantum::FixedSlot(_)), "{:?}", with.aligned);
        if matches!(machine, Machine::Quiet) {
            let interval_ns = (with.ticks.last().unwrap().0 - with.ticks[0].0) as f64 / (with.ticks.len() - 1) as f64;
            assert!(
                (interval_ns - 20.0 * MS).abs() < 1_000.0,
                "{interval_ns}: the moves for the search do not add up to zero"
            );
        }
    }
}
