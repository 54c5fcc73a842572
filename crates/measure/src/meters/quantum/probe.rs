//! The probe of one CPU: a thread that is kept there, spins in bursts, and notes every gap with who took it.
//!
//! As a real-time thread it is interrupted by nobody but the hypervisor, interrupts, and threads of a higher priority. It then owns the
//! CPU while it spins, so that it spins for a tenth of a second and sleeps for most of another: the kernel stops real-time threads that
//! take 0.95 s of a second, which would look like a gap, and others on that CPU wait for a burst at the longest. The lengths are drawn by
//! chance: bursts at set times would add a period of their own.

use evenkeel_stats::periodicity::{Gap, Label, Window};
use evenkeel_sys::rseq::Watcher;
use evenkeel_sys::schedstat::{Counted, RunDelay};
use evenkeel_sys::tsc::{self, Scale};
use evenkeel_sys::{CpuSet, clock, sched, thread};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::Class;
use crate::pinned::stay_on;
use crate::{MeterError, Watch};

/// Below threads of interrupts (50), so that the system keeps its own real-time work.
const PRIORITY: u8 = 10;
/// How long it spins at a time, in nanoseconds.
const BURST_NS: std::ops::Range<u64> = 90_000_000..130_000_000;
/// How long it then sleeps, as a share of the burst: as a real-time thread, and as an ordinary one, whom the scheduler bounds anyway.
const PAUSE_FIFO: f64 = 0.67;
const PAUSE_ORDINARY: f64 = 0.1;
/// Gaps that are kept of one CPU: a minute at a thousand a second.
const GAPS_MAX: usize = 1 << 16;

/// How gaps were told apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "by", content = "instead_of_rseq_because")]
pub enum Labels {
    /// By the kernel's mark on a thread that was preempted (rseq(2)).
    Rseq,
    /// By the kernel's count of this thread's turns, read after each gap, with why the mark does not serve.
    Turns(String),
    /// Not at all, with why not.
    None(String),
}

/// What the probe of one CPU saw.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) windows: Vec<Window>,
    pub(super) gaps: Vec<Gap>,
    pub(super) is_real_time: bool,
    pub(super) labels: Labels,
    /// Gaps beyond the most that are kept.
    pub(super) not_kept: u64,
    /// Why it ended early.
    pub(super) ended: Option<&'static str>,
}

/// Watches `cpu` for `duration_ns` with the calling thread, whose class and CPUs it changes: to be called in a thread of its own.
pub(super) fn watch(
    cpu: usize,
    class: Class,
    threshold_ns: u64,
    duration_ns: u64,
    watch: &Watch<'_>,
) -> Result<Watched, MeterError> {
    let only: CpuSet = [cpu].into_iter().collect();
    stay_on(cpu)?;
    let labeller = Labeller::new();
    let is_real_time = match class {
        Class::Ordinary => false,
        Class::Fifo => sched::set_fifo(PRIORITY)
            .map(|()| true)
            .map_err(|errno| MeterError::refused("make the probe real-time", errno))?,
        Class::Auto => sched::set_fifo(PRIORITY).is_ok(),
    };
    let scale = Scale::measured();
    let mut seen = Seen {
        ticks: Vec::with_capacity(1024),
        bursts: Vec::new(),
        not_kept: 0,
        scale,
        threshold: scale.ticks(threshold_ns).max(1),
        labeller: &labeller,
    };
    let ended = bursts(cpu, &only, is_real_time, &scale, duration_ns, &mut seen, watch);
    let (bursts, gaps, not_kept) = (seen.bursts, seen.ticks, seen.not_kept);
    let scale = scale.since();
    let window = |(from, to): (u64, u64)| Window { start_ns: scale.ns_at(from), end_ns: scale.ns_at(to) };
    let gap = |(from, to, label): (u64, u64, Label)| Gap {
        start_ns: scale.ns_at(from),
        length_ns: scale.length_ns(to.saturating_sub(from)),
        label,
    };
    Ok(Watched {
        windows: bursts.into_iter().map(window).collect(),
        gaps: gaps.into_iter().map(gap).collect(),
        is_real_time,
        labels: labeller.labels,
        not_kept,
        ended,
    })
}

/// Burst after burst until the time is over; says why if it ended before.
fn bursts(
    cpu: usize,
    only: &CpuSet,
    is_real_time: bool,
    scale: &Scale,
    duration_ns: u64,
    seen: &mut Seen<'_>,
    watch: &Watch<'_>,
) -> Option<&'static str> {
    let begin_ns = clock::monotonic_ns();
    // Any two runs differ, and none is chance: what is drawn are lengths only.
    let mut chance = ChaCha8Rng::seed_from_u64(begin_ns ^ cpu as u64);
    loop {
        let now_ns = clock::monotonic_ns();
        if now_ns >= begin_ns.saturating_add(duration_ns) {
            return None;
        }
        if watch.stopped() {
            return Some("stopped before its time");
        }
        watch.progress((now_ns - begin_ns) as f64 / duration_ns as f64, &format!("CPU {cpu}"));
        let burst_ns = chance.random_range(BURST_NS).min(begin_ns + duration_ns - now_ns);
        seen.burst(tsc::ticks() + scale.ticks(burst_ns));
        // A CPU that went offline has its threads moved, and their bounds taken away.
        if thread::affinity().as_ref() != Ok(only) {
            seen.drop_burst();
            return Some("the CPU went offline, or somebody moved the probe");
        }
        let spun_ns = clock::monotonic_ns() - now_ns;
        let pause_ns = spun_ns as f64 * if is_real_time { PAUSE_FIFO } else { PAUSE_ORDINARY };
        clock::sleep_until_ns((now_ns + spun_ns + pause_ns as u64).min(begin_ns + duration_ns));
    }
}

/// Gaps and bursts on the cycle counter.
struct Seen<'a> {
    ticks: Vec<(u64, u64, Label)>,
    bursts: Vec<(u64, u64)>,
    not_kept: u64,
    scale: Scale,
    threshold: u64,
    labeller: &'a Labeller,
}

impl Seen<'_> {
    /// Spins until the counter reads `until`.
    fn burst(&mut self, until: u64) {
        let mut mark = self.labeller.mark();
        self.labeller.arm();
        let start = tsc::ticks();
        let mut last = start;
        while last < until && self.not_kept == 0 {
            // Between the last reading and this line a preemption clears what was armed before; from here on, what is armed now.
            let held = self.labeller.held();
            self.labeller.arm();
            let now = tsc::ticks();
            if now.wrapping_sub(last) >= self.threshold && now > last {
                let taken = self.labeller.taken(held && self.labeller.held(), &mut mark);
                self.keep(last, now, taken);
                self.labeller.arm();
                // To label a gap takes a microsecond at most, where the kernel's count is read; it is no gap.
                last = tsc::ticks();
            } else {
                last = now;
            }
        }
        self.bursts.push((start, last));
    }

    /// Keeps a gap. One that somebody outside began and another thread ended is two: when the hypervisor gives the CPU back, a tick of
    /// the scheduler's is due, and whoever waits gets his turn there and then. Of the two only the second is in the kernel's count.
    fn keep(&mut self, from: u64, to: u64, taken: Taken) {
        let waited = taken.waited_ns.map_or(0, |ns| self.scale.ticks(ns)).min(to - from);
        let outside = to - from - waited;
        // A limit's pauses are not in the count of every kernel: what is hardly counted at all is no turn, and nothing is known of the rest.
        let is_both = taken.label == Label::Preempted && outside >= self.threshold && waited >= (to - from) / 10;
        let gaps = if is_both {
            [Some((from, from + outside, Label::Foreign)), Some((from + outside, to, Label::Preempted))]
        } else {
            [Some((from, to, taken.label)), None]
        };
        for gap in gaps.into_iter().flatten() {
            if self.ticks.len() < GAPS_MAX {
                self.ticks.push(gap);
            } else {
                self.not_kept += 1;
            }
        }
    }

    /// Forgets the last burst: it may have been on another CPU.
    fn drop_burst(&mut self) {
        if let Some((start, _)) = self.bursts.pop() {
            self.ticks.retain(|(from, ..)| *from < start);
        }
    }
}

/// Tells gaps apart by the best means there is.
struct Labeller {
    labels: Labels,
    rseq: Option<Watcher>,
    turns: Option<RunDelay>,
}

/// Who took a gap, and how much of it this thread waited for its turn inside the guest, as far as the kernel counts.
struct Taken {
    label: Label,
    waited_ns: Option<u64>,
}

impl Labeller {
    fn new() -> Labeller {
        let tested = Watcher::of_this_thread().and_then(|watcher| watcher.self_test().map(|()| watcher));
        let turns = RunDelay::of_this_thread();
        let (labels, rseq) = match (tested, &turns) {
            (Ok(watcher), _) => (Labels::Rseq, Some(watcher)),
            (Err(why), Ok(_)) => (Labels::Turns(why.to_string()), None),
            (Err(why), Err(errno)) => (Labels::None(format!("{why}; and the kernel counts no turns: {errno}")), None),
        };
        Labeller { labels, rseq, turns: turns.ok() }
    }

    #[inline(always)]
    fn arm(&self) {
        if let Some(watcher) = &self.rseq {
            watcher.arm();
        }
    }

    #[inline(always)]
    fn held(&self) -> bool {
        self.rseq.as_ref().is_none_or(Watcher::intact)
    }

    /// What the kernel counts of this thread.
    fn mark(&self) -> Option<Counted> {
        self.turns.as_ref()?.read().ok()
    }

    fn taken(&self, held: bool, mark: &mut Option<Counted>) -> Taken {
        if self.rseq.is_some() && held {
            return Taken { label: Label::Foreign, waited_ns: None };
        }
        let before = std::mem::replace(mark, self.mark());
        let since = before.zip(*mark);
        let waited_ns = since.map(|(before, now)| now.run_delay_ns.saturating_sub(before.run_delay_ns));
        let label = match since {
            _ if self.rseq.is_some() => Label::Preempted,
            Some((before, now)) if now.turns > before.turns => Label::Preempted,
            Some(_) => Label::Foreign,
            None => Label::Unknown,
        };
        Taken { label, waited_ns }
    }
}
