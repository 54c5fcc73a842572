//! The probe of one CPU: a pinned thread that spins in bursts and records every gap, together with who took the CPU.
//!
//! Only the hypervisor, interrupts, and threads of a higher priority interrupt a real-time probe.
//! While the probe spins, it owns the CPU. So it spins for a tenth of a second and sleeps for most of another tenth.
//! The kernel stops real-time threads that run for 0.95 s of a second, which would look like a gap.
//! Other threads on that CPU wait for one burst at most.
//! The lengths are random, because bursts at fixed times would add a period of their own.

use evenkeel_stats::periodicity::{Gap, Label, Window};
use evenkeel_sys::rseq::Watcher;
use evenkeel_sys::schedstat::{Counted, RunDelay};
use evenkeel_sys::tsc::{self, Scale};
use evenkeel_sys::{CpuSet, clock, sched, thread};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::settings::Class;
use crate::pinned::stay_on;
use crate::{MeterError, Watch};

/// The probe's real-time priority. It is below the priority of interrupt threads (50), so that the system's own real-time work goes first.
const PRIORITY: u8 = 10;
/// How long the probe spins at a time, in nanoseconds.
const BURST_NS: std::ops::Range<u64> = 90_000_000..130_000_000;
/// How long the probe then sleeps, as a share of the burst:
/// for a real-time thread, and for an ordinary thread, which the scheduler limits anyway.
const PAUSE_FIFO: f64 = 0.67;
const PAUSE_ORDINARY: f64 = 0.1;
/// The maximum number of gaps per CPU. It covers a minute with a thousand gaps per second.
const GAPS_MAX: usize = 1 << 16;

/// How the probe distinguished the causes of gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "by", content = "instead_of_rseq_because")]
pub enum Labels {
    /// By the kernel's mark on a preempted thread (rseq(2)).
    Rseq,
    /// By the kernel's count of the probe's switches, read after each gap. The text is the reason why the mark does not work.
    Turns(String),
    /// The probe could not distinguish the causes. The text is the reason.
    None(String),
}

/// The result of one CPU's probe.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) windows: Vec<Window>,
    pub(super) gaps: Vec<Gap>,
    pub(super) is_real_time: bool,
    pub(super) labels: Labels,
    /// The number of gaps that were not recorded, because `GAPS_MAX` gaps were already recorded.
    pub(super) not_kept: u64,
    /// Why the probe ended early. None if it did not end early.
    pub(super) ended: Option<&'static str>,
}

/// Watches `cpu` for `duration_ns` on the calling thread, whose class and CPUs it changes. Call it in a separate thread.
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
    let mut seen = BurstLog {
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

/// Runs bursts until the time is over. If it ended early, returns the reason.
fn bursts(
    cpu: usize,
    only: &CpuSet,
    is_real_time: bool,
    scale: &Scale,
    duration_ns: u64,
    seen: &mut BurstLog<'_>,
    watch: &Watch<'_>,
) -> Option<&'static str> {
    let begin_ns = clock::monotonic_ns();
    // Use a different seed for each run. The seed need not be unpredictable, because it only sets lengths.
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
        // When a CPU goes offline, the kernel moves the CPU's threads and removes their affinity.
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
struct BurstLog<'a> {
    ticks: Vec<(u64, u64, Label)>,
    bursts: Vec<(u64, u64)>,
    not_kept: u64,
    scale: Scale,
    threshold: u64,
    labeller: &'a Labeller,
}

impl BurstLog<'_> {
    /// Spins until the counter reads `until`.
    fn burst(&mut self, until: u64) {
        let mut turns = self.labeller.mark();
        let mut mark = Mark::default();
        self.labeller.arm();
        let start = tsc::ticks();
        let mut last = start;
        while last < until && self.not_kept == 0 {
            let now = tsc::ticks();
            let step = mark.after(now.wrapping_sub(last) >= self.threshold && now > last, self.labeller.held());
            if step.arm {
                self.labeller.arm();
            }
            if let Some(held) = step.gap {
                let taken = self.labeller.taken(held, now - last, &self.scale, &mut turns);
                self.keep(last, now, taken);
                // Labelling a gap takes up to a microsecond if it reads the kernel's count. That time is not a gap.
                last = tsc::ticks();
            } else {
                last = now;
            }
        }
        self.bursts.push((start, last));
    }

    /// Records a gap.
    /// When the hypervisor returns the CPU, a scheduler tick is due, and a waiting thread runs at once.
    /// Such a gap began outside the guest, and another thread ended it.
    /// Record this gap as two gaps, because the kernel's count has only the second.
    fn keep(&mut self, from: u64, to: u64, taken: Taken) {
        let waited = taken.waited_ns.map_or(0, |ns| self.scale.ticks(ns)).min(to - from);
        let outside = to - from - waited;
        // Some kernels do not count the pauses of a limit.
        // If the kernel counted hardly any of the gap, it was not another thread's turn, and the cause of the rest is unknown.
        // The kernel does not count the switches either, which belong to the guest. They take less than a tenth of the gap.
        let is_both = taken.label == Label::Preempted
            && outside >= self.threshold.max((to - from) / 10)
            && waited >= (to - from) / 10;
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

    /// Drops the last burst, because it may have run on another CPU.
    fn drop_burst(&mut self) {
        if let Some((start, _)) = self.bursts.pop() {
            self.ticks.retain(|(from, ..)| *from < start);
        }
    }
}

/// Distinguishes the causes of gaps by the best available means.
struct Labeller {
    labels: Labels,
    rseq: Option<Watcher>,
    turns: Option<RunDelay>,
}

/// Who took a gap, and how long this thread waited to run inside the guest, as far as the kernel counts such waits.
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
            (Err(why), Err(errno)) => {
                (Labels::None(format!("{why}; and the kernel does not count context switches: {errno}")), None)
            }
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

    /// The kernel's counts of this thread.
    fn mark(&self) -> Option<Counted> {
        self.turns.as_ref()?.read().ok()
    }

    /// Finds who took a gap of this many ticks.
    /// The gap came from outside the guest only if neither the mark nor the count shows another thread's turn.
    fn taken(&self, held: bool, ticks: u64, scale: &Scale, turns: &mut Option<Counted>) -> Taken {
        let before = std::mem::replace(turns, self.mark());
        let since = before.zip(*turns);
        let waited_ns = since.map(|(before, now)| now.run_delay_ns.saturating_sub(before.run_delay_ns));
        let has_turns = since.map(|(before, now)| now.turns > before.turns);
        let held = self.rseq.is_some().then_some(held);
        Taken { label: label(held, has_turns, waited_ns, scale.length_ns(ticks)), waited_ns }
    }
}

/// Finds who took a gap. It uses the mark if there is one, and the kernel's counts of turns and of waiting if available.
fn label(held: Option<bool>, has_turns: Option<bool>, waited_ns: Option<u64>, length_ns: u64) -> Label {
    // The count may include short turns before the gap. It proves the cause only if it explains most of the gap.
    let waited_most = waited_ns.is_some_and(|ns| ns >= length_ns / 2);
    match (held, has_turns) {
        (Some(false), _) => Label::Preempted,
        (Some(true), _) if waited_most => Label::Preempted,
        (Some(true), _) => Label::Foreign,
        (None, Some(true)) => Label::Preempted,
        (None, Some(false)) => Label::Foreign,
        (None, None) => Label::Unknown,
    }
}

/// The state of the mark between two readings of the counter.
/// The probe arms a cleared mark again only after the loop has seen it.
/// So the probe misses no turn of another thread, wherever in the loop the turn falls.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// The mark was cleared after the last reading. The other thread's turn may lie before the next reading.
    was_cleared: bool,
}

/// What to do after a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// Whether the mark stayed set during the gap before the reading. None without a gap.
    gap: Option<bool>,
    /// Whether to arm the mark.
    arm: bool,
}

impl Mark {
    /// Decides what to do after a reading and a check of the mark. `is_gap` says whether a gap precedes the reading.
    fn after(&mut self, is_gap: bool, held: bool) -> Step {
        let gap = is_gap.then_some(held && !self.was_cleared);
        // Start anew after a gap: the loop reads the counter again after it has armed the mark.
        self.was_cleared = !is_gap && !held;
        Step { gap, arm: is_gap || !held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_seen_wherever_in_the_loop_it_falls() {
        // The loop reads the counter, checks the mark, and arms it if necessary. Another thread may run before any of these steps.
        for turn in 0..11 {
            let (mut mark, mut armed, mut clock, mut last) = (Mark::default(), true, 0, 0);
            let mut at = 0;
            let mut gaps = Vec::new();
            let mut step = |armed: &mut bool, clock: &mut u64| {
                *clock += 1;
                if at == turn {
                    (*armed, *clock) = (false, *clock + 1000);
                }
                at += 1;
            };
            for _ in 0..6 {
                step(&mut armed, &mut clock);
                let now = clock;
                step(&mut armed, &mut clock);
                let next = mark.after(now - last >= 500, armed);
                if next.arm {
                    step(&mut armed, &mut clock);
                    armed = true;
                }
                gaps.extend(next.gap);
                last = if next.gap.is_some() { clock } else { now };
            }
            assert_eq!(gaps, [false], "a turn before step {turn}");
        }
        let mut mark = Mark::default();
        let held = [(false, true), (true, true), (false, true)].map(|(is_gap, held)| mark.after(is_gap, held).gap);
        assert_eq!(held, [None, Some(true), None], "nobody's turn");
        let after_a_short_turn =
            [(false, false), (false, true), (true, true)].map(|(is_gap, held)| mark.after(is_gap, held).gap);
        assert_eq!(after_a_short_turn, [None, None, Some(true)]);
    }

    #[test]
    fn the_hypervisor_is_named_only_if_nothing_inside_explains_the_gap() {
        let table = [
            (Some(true), None, None, Label::Foreign),
            (Some(true), Some(true), Some(100), Label::Foreign),
            (Some(true), Some(true), Some(900), Label::Preempted),
            (Some(false), Some(false), Some(0), Label::Preempted),
            (None, Some(true), Some(900), Label::Preempted),
            (None, Some(false), Some(0), Label::Foreign),
            (None, None, None, Label::Unknown),
        ];
        for (held, has_turns, waited_ns, said) in table {
            assert_eq!(label(held, has_turns, waited_ns, 1000), said, "{held:?} {has_turns:?} {waited_ns:?}");
        }
    }
}
