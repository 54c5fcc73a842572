//! `--sample`: measures how much of the time is missing, from short windows at random moments.
//!
//! A sampling thread can watch only when it runs, so the moments at which it could not run are the measurement.
//! Each window is fixed in advance, at a random moment of each stratum of time.
//! The thread sleeps until shortly before its window (the lead), and spins through the window.
//! If the thread wakes during or after the window, the part before the wake was missing.
//! Windows that the thread slept through count as much as windows that it watched.
//! So the mean over all windows is the missing share of the time. This is true whatever takes the CPU, and however regularly.
//!
//! Between the thread's wake and its first run, the kernel counts waiting time.
//! Other threads of this machine, or a limit, took that time. The rest of the delay has other causes.
//! So a neighbour that delays the thread before its window adds to the first figure and takes nothing from the second.

use evenkeel_sys::{clock, thread};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::num::NonZeroU64;

use super::probe::{Probe, ProbeResult};
use super::seen::{Seen, Stretch};
use super::stoppable_sleep::StoppableSleep;
use super::windows::{Sums, WINDOW_NS, Window};

/// The initial estimate of the CPU time for a wake and the work around a window.
const AROUND_NS: u64 = 60_000;
/// The target share of one CPU, for all CPUs together. It must stay below a hundredth.
const CPU_SHARE: f64 = 0.006;
/// The bounds of the lead. A wake that takes longer than the upper bound counts as missing time.
const LEAD_NS: (u64, u64) = (150_000, 1_000_000);
/// The lead as a multiple of a fast wake. On a virtual machine whose CPU is available, the slowest wakes take that long.
const LEAD_WAKES: u64 = 5;
/// The initial estimate of the median wake.
const WAKE_NS: u64 = 50_000;
/// The number of recent wakes that determine the lead.
const WAKES: usize = 32;
/// No window begins in this last part of a stratum, so that two windows are never closer than this.
const APART_NS: u64 = 2_000_000;

/// Chooses the windows: one at a random moment of each stratum, independent of earlier results.
#[derive(Debug)]
struct Moments {
    stratum_from_ns: u64,
    chance: ChaCha8Rng,
}

impl Moments {
    fn new(from_ns: u64, seed: u64) -> Moments {
        Moments { stratum_from_ns: from_ns, chance: ChaCha8Rng::seed_from_u64(seed) }
    }

    fn next(&mut self, stratum_ns: u64) -> Window {
        let room_ns = stratum_ns.saturating_sub(APART_NS).max(1);
        let from_ns = self.stratum_from_ns + self.chance.random_range(0..room_ns);
        self.stratum_from_ns += stratum_ns;
        Window { from_ns, to_ns: from_ns + WINDOW_NS, stratum_ns }
    }
}

/// How long before a window the thread should wake. This is longer than a wake takes on an available CPU.
#[derive(Debug, Default)]
struct Lead {
    late_ns: Vec<u64>,
    next: usize,
}

impl Lead {
    /// Records a late wake, without the time that the thread then waited to run.
    fn add(&mut self, late_ns: u64) {
        if self.late_ns.len() < WAKES {
            self.late_ns.push(late_ns);
        } else {
            self.late_ns[self.next] = late_ns;
        }
        self.next = (self.next + 1) % WAKES;
    }

    /// A multiple of the fastest tenth of the wakes. These wakes found the CPU available, even if it is taken four fifths of the time.
    fn ns(&self) -> u64 {
        let mut late_ns = self.late_ns.clone();
        let tenth = late_ns.len() / 10;
        let fast_ns = if late_ns.is_empty() { WAKE_NS } else { *late_ns.select_nth_unstable(tenth).1 };
        fast_ns.saturating_mul(LEAD_WAKES).clamp(LEAD_NS.0, LEAD_NS.1)
    }
}

/// Watches the windows of one CPU, which is one of `cpus` in all, until the end of the span.
pub(super) fn watch(
    mut probe: Probe<'_>,
    (begin_ns, end_ns): (u64, u64),
    cpus: usize,
    sleeper: &StoppableSleep,
    stop: &dyn Fn() -> bool,
    on_window: &(dyn Fn(Seen) + Sync),
) -> ProbeResult {
    // Without this setting, the kernel may wake the thread 50 us late. The setting ends with the thread.
    let _ = thread::set_timer_slack_ns(Some(NonZeroU64::MIN));
    let stratum_ns = |cost_ns: f64| ((cost_ns * cpus as f64 / CPU_SHARE) as u64).max(2 * APART_NS);
    let mut moments = Moments::new(begin_ns, clock::monotonic_ns() ^ (probe.cpu() as u64) << 48);
    let (mut lead, mut sums) = (Lead::default(), Sums::default());
    let before_ns = clock::thread_cpu_ns();
    let mut goes_on = sleeper.until(begin_ns);
    probe.start();
    while goes_on {
        let cost_ns = match sums.windows() {
            0 => (LEAD_NS.0 + WINDOW_NS + AROUND_NS) as f64,
            windows => (clock::thread_cpu_ns() - before_ns) as f64 / windows as f64,
        };
        let window = moments.next(stratum_ns(cost_ns));
        let due_ns = window.from_ns.saturating_sub(lead.ns());
        if window.to_ns > end_ns {
            break;
        }
        // The thread did not have the CPU at this moment, so it could not sleep until then. The last absence reaches into this window.
        if due_ns > probe.absent().woke_ns {
            goes_on = sleeper.until(due_ns);
            if !goes_on {
                break;
            }
            let sleep = probe.woke(due_ns);
            lead.add(sleep.ready_ns() - due_ns);
        }
        match probe.watch_window(window, stop) {
            Some(seen) => {
                sums.add(&seen);
                let (by_threads_ns, by_nobody_ns) = seen.missing_ns();
                let absent = probe.absent();
                on_window(Seen {
                    cpu: probe.cpu(),
                    at_ns: window.to_ns,
                    stands_for_ns: window.stratum_ns,
                    window_ns: window.to_ns - window.from_ns,
                    by_threads_ns,
                    by_nobody_ns,
                    gone: Some(Stretch { from_ns: absent.due_ns, to_ns: absent.ready_ns() })
                        .filter(|gone| gone.length_ns() > 0),
                });
            }
            None => break,
        }
    }
    sums.lead_ns = lead.ns();
    probe.finish_sampled(sums)
}

#[cfg(test)]
mod tests {
    use evenkeel_stats::Share;

    use super::super::cause::Cause;
    use super::super::windows::{Sampled, Sleep, Watching};
    use super::*;

    const MS: f64 = 1e6;
    const SECOND_NS: u64 = 1_000_000_000;

    /// A simulated CPU that is taken away periodically, and its other users.
    #[derive(Clone, Copy, Debug)]
    struct Machine {
        period_ms: f64,
        taken: f64,
        jitter: f64,
        /// Whether a thread of this machine takes the CPU. Otherwise the hypervisor does.
        is_inside: bool,
        /// How often an ordinary busy thread delays the waking thread, for up to 3 ms.
        neighbour: f64,
    }

    /// The stretches in which the CPU is taken, in order of time.
    fn schedule(machine: &Machine, length_ns: u64, chance: &mut ChaCha8Rng) -> Vec<(u64, u64)> {
        let period_ns = machine.period_ms * MS;
        let first_ns = chance.random_range(0.0..period_ns);
        let mut gone = Vec::new();
        for turn in 0..(length_ns as f64 / period_ns) as u64 + 2 {
            let off = chance.random_range(-1.0..1.0) * machine.jitter;
            let from_ns = (first_ns + (turn as f64 + off) * period_ns).max(0.0);
            gone.push((from_ns as u64, (from_ns + machine.taken * period_ns) as u64));
        }
        gone
    }

    /// When the CPU is available again, at or after `at_ns`.
    fn there(gone: &[(u64, u64)], at_ns: u64) -> u64 {
        let next = gone.partition_point(|(_, until)| *until <= at_ns);
        gone.get(next).filter(|(from, _)| *from <= at_ns).map_or(at_ns, |(_, until)| there(gone, *until))
    }

    /// When a thread has used the CPU for `work_ns`, from `at_ns` on. Its time slice continues only while the CPU is available.
    fn after_work(gone: &[(u64, u64)], mut at_ns: u64, mut work_ns: u64) -> u64 {
        let next = gone.partition_point(|(_, until)| *until <= at_ns);
        for (from, until) in &gone[next..] {
            let free_ns = from.saturating_sub(at_ns);
            if work_ns < free_ns {
                break;
            }
            work_ns -= free_ns;
            at_ns = at_ns.max(*until);
        }
        at_ns + work_ns
    }

    /// What happens to a thread that sleeps until `due_ns`.
    fn slept(machine: &Machine, gone: &[(u64, u64)], due_ns: u64, chance: &mut ChaCha8Rng) -> Sleep {
        let latency_ns = chance.random_range(8_000..30_000);
        let ready_ns = if machine.is_inside { due_ns } else { there(gone, due_ns) } + latency_ns;
        let mut woke_ns = there(gone, ready_ns);
        if chance.random_bool(machine.neighbour) {
            woke_ns = after_work(gone, woke_ns, chance.random_range(0..300) * 10_000);
        }
        Sleep { due_ns, woke_ns, waited_ns: woke_ns - ready_ns, throttled_ns: 0 }
    }

    /// The meter's estimate of the missing share, and the true share in this run.
    fn sampled(machine: &Machine, length_ns: u64, seed: u64) -> (Sampled, f64) {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let gone = schedule(machine, length_ns, &mut chance);
        let cause = if machine.is_inside { Cause::Preemption } else { Cause::Hypervisor };
        let (mut moments, mut lead, mut sums) = (Moments::new(0, seed + 1), Lead::default(), Sums::default());
        let mut absent = Sleep::default();
        loop {
            // This is the window spacing on two CPUs. It is a multiple of most periods.
            let window = moments.next(80_000_000);
            if window.to_ns > length_ns {
                break;
            }
            let due_ns = window.from_ns.saturating_sub(lead.ns());
            if due_ns > absent.woke_ns {
                absent = slept(machine, &gone, due_ns, &mut chance);
                lead.add(absent.ready_ns() - due_ns);
            }
            let mut watching = Watching::new(window, &absent);
            let [not_ready, waited] = absent.stretches();
            watching.add(not_ready.0, not_ready.1 - not_ready.0, Cause::Hypervisor);
            watching.add(waited.0, waited.1 - waited.0, Cause::Preemption);
            let next = gone.partition_point(|(from, _)| *from <= absent.woke_ns);
            for (from, until) in gone[next..].iter().take_while(|(from, _)| *from < window.to_ns) {
                watching.add(*from, until - from, cause);
                absent = Sleep { due_ns: *from, woke_ns: *until, waited_ns: 0, throttled_ns: 0 };
            }
            sums.add(&watching);
        }
        let all = Window { from_ns: 0, to_ns: length_ns, stratum_ns: 0 };
        let truth: u64 = gone.iter().map(|(from, until)| all.holds_ns(*from, *until)).sum();
        (sums.sampled().unwrap(), truth as f64 / length_ns as f64)
    }

    /// One of the shares that the meter reports.
    type Figure = fn(&Sampled) -> Share;

    /// Returns for each figure the mean error of the estimate, and how often its interval contains the truth. It uses runs of two lengths.
    fn judged<const N: usize>(machine: &Machine, figures: [Figure; N]) -> [(f64, f64); N] {
        const RUNS: u64 = 120;
        let mut sums = [(0.0, 0.0); N];
        for seed in 0..RUNS {
            let length_ns = if seed % 2 == 0 { 3 * SECOND_NS } else { 10 * SECOND_NS };
            let (sampled, truth) = sampled(machine, length_ns, seed);
            for ((off, held), figure) in sums.iter_mut().zip(figures) {
                let said = figure(&sampled);
                *off += said.share - truth;
                *held += f64::from(u8::from(said.low <= truth && truth <= said.high));
            }
        }
        sums.map(|(off, held)| (off / RUNS as f64, held / RUNS as f64))
    }

    /// The result for one figure on all simulated machines:
    /// the smallest and the largest mean error, and how often the interval contained the truth.
    #[derive(Clone, Copy, Debug)]
    struct Row {
        least: f64,
        most: f64,
        held: f64,
    }

    impl Row {
        /// Whether the mean error is near zero on every machine, and the interval is as reliable as promised.
        /// A mean of 120 runs with 37 or 124 windows has a standard error below 0.006.
        fn is_unbiased(&self) -> bool {
            self.least > -0.03 && self.most < 0.03 && self.held >= 0.95
        }
    }

    fn table<const N: usize>(is_inside: bool, neighbour: f64, figures: [Figure; N]) -> [Row; N] {
        let mut rows = [Row { least: f64::MAX, most: f64::MIN, held: 0.0 }; N];
        let mut places = 0.0;
        for period_ms in [4.0, 7.3, 20.0, 100.0] {
            for taken in [0.1, 0.3, 0.5, 0.8] {
                for jitter in [0.0, 0.03, 0.1] {
                    let machine = Machine { period_ms, taken, jitter, is_inside, neighbour };
                    let judged = judged(&machine, figures);
                    for (row, (off, held)) in rows.iter_mut().zip(judged) {
                        (row.least, row.most) = (row.least.min(off), row.most.max(off));
                        row.held += held;
                    }
                    places += 1.0;
                    if std::env::var_os("EVENKEEL_CALIBRATE").is_some() {
                        println!("{machine:?}: {judged:?}");
                    }
                }
            }
        }
        rows.iter_mut().for_each(|row| row.held /= places);
        println!("inside {is_inside}, neighbour {neighbour}: {rows:?}");
        rows
    }

    #[test]
    fn the_share_is_unbiased_and_its_interval_covers_it() {
        for is_inside in [false, true] {
            let own: Figure = if is_inside { |said| said.by_threads } else { |said| said.by_nobody_inside };
            for row in table(is_inside, 0.0, [|said| said.missing, own]) {
                assert!(row.is_unbiased(), "inside {is_inside}: {row:?}");
            }
        }
    }

    #[test]
    fn a_busy_neighbour_makes_no_figure_smaller() {
        for neighbour in [0.3, 0.9] {
            let [by_nobody, missing] = table(false, neighbour, [|said| said.by_nobody_inside, |said| said.missing]);
            assert!(by_nobody.is_unbiased(), "{by_nobody:?}");
            assert!(missing.least > -0.03, "{missing:?}");
            let [by_threads] = table(true, neighbour, [|said| said.by_threads]);
            assert!(by_threads.least > -0.03, "{by_threads:?}");
        }
    }

    #[test]
    fn work_goes_on_where_the_cpu_is_available() {
        let gone = [(10, 20), (30, 40), (35, 50)];
        for (at, work, done) in
            [(0, 5, 5), (0, 10, 20), (0, 15, 25), (12, 0, 20), (12, 9, 29), (25, 5, 50), (25, 6, 51), (60, 7, 67)]
        {
            assert_eq!(after_work(&gone, at, work), done, "{work} from {at}");
        }
    }

    #[test]
    fn the_lead_is_learned_from_the_wakes_that_met_the_cpu() {
        let mut lead = Lead::default();
        assert_eq!(lead.ns(), 250_000);
        // Four of five wakes find a CPU that is taken for milliseconds.
        (0..100_u64).for_each(|at| lead.add(if at % 5 == 0 { 40_000 } else { 3_000_000 + at }));
        assert_eq!(lead.ns(), 200_000);
        (0..100).for_each(|_| lead.add(u64::MAX));
        assert_eq!(lead.ns(), LEAD_NS.1);
    }
}
