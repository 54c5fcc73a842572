//! Measures the missing time of each CPU, with the sampling meter of `evenkeel measure gaps` in separate threads.
//! Also finds pauses of the whole machine.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::gaps::{self, Class, Keep, LENGTH_MAX_NS, Mode, Order, Seen, Settings, WindowSink};
use evenkeel_measure::meters::rates::Unknown;

use super::read::{absent, odd};
use crate::locked::locked;
use crate::sample::{Counted, CpuGapsSample, GapSample, GapsSample, PauseSample};

/// The minimum length of a gap that the meter counts.
const THRESHOLD_NS: u64 = 10_000;
/// The minimum length of a pause. The hypervisor may cause a shorter stop by its usual scheduling of all CPUs.
const PAUSE_NS_MIN: u64 = 5_000_000;
/// If CPUs return within this time of each other, they count as returning together.
const TOGETHER_NS: u64 = 2_000_000;
/// The minimum length of a gap that can make a tick late.
const GAP_NS_MIN: u64 = 500_000;
/// The maximum number of windows that are kept until the next sample, and of gaps in a sample.
const SEEN_MAX: usize = 1 << 14;
const GAPS_MAX: usize = 64;

/// The sampling meter of all CPUs, and what it found since the last sample.
#[derive(Debug)]
pub(super) struct GapMeter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    counts: GapsSample,
    /// Windows that ended shortly before the last sample. Windows of other CPUs from the same time may arrive later.
    open: Vec<Seen>,
    /// The last time at which a CPU is known to have run.
    running_ns: u64,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    failure: Mutex<Option<String>>,
    stop: AtomicBool,
}

impl GapMeter {
    /// Starts the meter on all CPUs that this process may use.
    pub(super) fn start() -> GapMeter {
        let shared = Arc::new(Shared::default());
        let keep = Arc::clone(&shared);
        let body = move || {
            let samples = Arc::clone(&keep);
            let settings = Settings {
                cpus: None,
                length_ns: LENGTH_MAX_NS,
                threshold_ns: THRESHOLD_NS,
                mode: Mode::Sample,
                order: Order::AllAtOnce,
                class: Class::Ordinary,
                keep: Keep::Newest(1),
                on_window: WindowSink::with(move |seen| {
                    let mut list = locked(&samples.seen);
                    if list.len() < SEEN_MAX {
                        list.push(seen);
                    }
                }),
            };
            while !keep.stop.load(Ordering::Relaxed) {
                if let Err(error) = gaps::run(&settings, &Watch::new(&keep.stop, &|_, _| {})) {
                    *locked(&keep.failure) = Some(error.to_string());
                    return;
                }
            }
        };
        let spawned = std::thread::Builder::new().name("gaps".to_owned()).spawn(body);
        if let Err(error) = &spawned {
            *locked(&shared.failure) = Some(format!("start the gap meter: {error}"));
        }
        let counts = GapsSample::default();
        GapMeter { shared, thread: spawned.ok(), counts, open: Vec::new(), running_ns: 0 }
    }

    /// The counts of the meter since it started.
    pub(super) fn read(&mut self, now_ns: u64) -> Counted<GapsSample> {
        if let Some(why) = &*locked(&self.shared.failure) {
            return Err(failed(why));
        }
        let mut seen = std::mem::take(&mut self.open);
        seen.append(&mut locked(&self.shared.seen));
        let (counts, open) = (&mut self.counts, &mut self.open);
        take(counts, open, &mut self.running_ns, seen, now_ns);
        match counts.cpus.is_empty() {
            true => Err(absent("the gap meter has just begun")),
            false => Ok(counts.clone()),
        }
    }
}

impl Drop for GapMeter {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn failed(why: &str) -> Unknown {
    odd(format!("the gap meter ended: {why}"))
}

/// Adds windows to the counts.
/// Windows that ended just before `now_ns` are kept in `open`, because windows of other CPUs at that time may still arrive.
fn take(counts: &mut GapsSample, open: &mut Vec<Seen>, running_ns: &mut u64, mut seen: Vec<Seen>, now_ns: u64) {
    seen.sort_by_key(|one| one.at_ns);
    let closed_ns = now_ns.saturating_sub(2 * TOGETHER_NS);
    *open = seen.split_off(seen.partition_point(|one| one.at_ns <= closed_ns));
    for one in &seen {
        let cpu: &mut CpuGapsSample = counts.cpus.entry(one.cpu).or_default();
        let share = |ns: u64| (one.stands_for_ns as f64 * ns as f64 / one.window_ns.max(1) as f64) as u64;
        cpu.covered_ns = cpu.covered_ns.saturating_add(one.stands_for_ns);
        cpu.by_threads_ns = cpu.by_threads_ns.saturating_add(share(one.by_threads_ns));
        cpu.by_nobody_ns = cpu.by_nobody_ns.saturating_add(share(one.by_nobody_ns));
    }
    counts.new_pauses = pauses(&seen, *running_ns);
    for pause in &counts.new_pauses {
        counts.pauses = counts.pauses.saturating_add(1);
        counts.paused_ns = counts.paused_ns.saturating_add(pause.to_ns.saturating_sub(pause.from_ns));
    }
    let mut gaps: Vec<GapSample> = seen
        .iter()
        .filter_map(|one| one.gone.map(|gone| GapSample { cpu: one.cpu, from_ns: gone.from_ns, to_ns: gone.to_ns }))
        .filter(|gap| gap.to_ns.saturating_sub(gap.from_ns) >= GAP_NS_MIN)
        .collect();
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.to_ns.saturating_sub(gap.from_ns)));
    gaps.truncate(GAPS_MAX);
    counts.new_gaps = gaps;
    *running_ns = seen.iter().map(|one| one.at_ns).max().unwrap_or(*running_ns).max(*running_ns);
}

/// Finds the times in which no CPU ran: several CPUs returned together, and no CPU ran shortly before. The windows must be sorted by time.
fn pauses(seen: &[Seen], running_ns: u64) -> Vec<PauseSample> {
    let mut gone: Vec<(usize, u64, u64)> =
        seen.iter().filter_map(|one| one.gone.map(|gone| (one.cpu, gone.from_ns, gone.to_ns))).collect();
    gone.retain(|(_, from_ns, to_ns)| to_ns.saturating_sub(*from_ns) >= PAUSE_NS_MIN);
    gone.sort_by_key(|(.., to_ns)| *to_ns);
    let watched = seen.iter().map(|one| one.cpu).collect::<BTreeSet<usize>>().len();
    let mut found = Vec::new();
    let mut rest = &gone[..];
    while let Some((.., first_ns)) = rest.first() {
        let end = rest.partition_point(|(.., to_ns)| *to_ns <= first_ns.saturating_add(TOGETHER_NS));
        let (together, others) = rest.split_at(end);
        rest = others;
        let cpus: BTreeSet<usize> = together.iter().map(|(cpu, ..)| *cpu).collect();
        // The whole machine is paused from the moment at which the last of these CPUs stopped.
        let from_ns = together.iter().map(|(_, from_ns, _)| *from_ns).max().unwrap_or(0);
        // The pause ended when the first CPU returned.
        let to_ns = *first_ns;
        let ran = |at_ns: u64| at_ns > from_ns && at_ns < to_ns;
        let has_run = seen.iter().any(|one| ran(one.at_ns)) || ran(running_ns);
        if is_whole(cpus.len(), watched) && !has_run {
            let before = seen.iter().map(|one| one.at_ns).filter(|at_ns| *at_ns <= from_ns).max();
            let not_before_ns = before.unwrap_or(0).max(running_ns.min(from_ns));
            found.push(PauseSample { from_ns, to_ns, not_before_ns });
        }
    }
    found
}

/// Whether the CPUs that return together are the whole machine: all of a few CPUs, or more than half of many.
/// In a short pause, not every CPU has a window.
fn is_whole(cpus: usize, watched: usize) -> bool {
    const FEW: usize = 4;
    cpus >= 2 && if watched <= FEW { cpus == watched } else { cpus * 2 > watched }
}

#[cfg(test)]
mod tests {
    use evenkeel_measure::meters::gaps::Stretch;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Creates a window of a CPU at the millisecond `at_ms`. If `gone_since_ms` is set, the CPU did not run since that time.
    fn seen(cpu: usize, at_ms: u64, gone_since_ms: Option<u64>) -> Seen {
        let gone = gone_since_ms.map(|from_ms| Stretch { from_ns: from_ms * MS, to_ns: at_ms * MS - MS / 2 });
        let (by_threads_ns, by_nobody_ns) = (0, if gone.is_some() { 50_000 } else { 0 });
        Seen { cpu, at_ns: at_ms * MS, stands_for_ns: 50 * MS, window_ns: 100_000, by_threads_ns, by_nobody_ns, gone }
    }

    #[test]
    fn a_pause_is_where_several_cpus_come_back_together() {
        let pause = |from_ms, to_us: u64, before_ms| PauseSample {
            from_ns: from_ms * MS,
            to_ns: to_us * 1000,
            not_before_ns: before_ms * MS,
        };
        let both = [seen(0, 90, None), seen(0, 300, Some(140)), seen(1, 301, Some(120))];
        assert_eq!(pauses(&both, 0), [pause(140, 299_500, 90)]);
        assert_eq!(pauses(&both, 110 * MS), [pause(140, 299_500, 110)], "seen running by the sample before");
        let table = [
            ("one CPU", vec![seen(0, 300, Some(140)), seen(1, 305, None)]),
            ("one after the other", vec![seen(0, 300, Some(140)), seen(1, 340, Some(200))]),
            ("short", vec![seen(0, 300, Some(297)), seen(1, 300, Some(296))]),
            ("one was running", vec![seen(2, 200, None), seen(0, 300, Some(140)), seen(1, 301, Some(120))]),
            ("nothing", Vec::new()),
        ];
        for (name, list) in table {
            assert_eq!(pauses(&list, 0), [], "{name}");
        }
        assert_eq!(pauses(&both, 200 * MS), [], "seen running meanwhile");
    }

    #[test]
    fn windows_stand_for_the_time_around_them_and_wait_for_other_cpus() {
        let (mut counts, mut open, mut running_ns) = (GapsSample::default(), Vec::new(), 0);
        let list = vec![seen(0, 100, None), seen(0, 150, None), seen(0, 300, Some(180)), seen(1, 300, Some(190))];
        take(&mut counts, &mut open, &mut running_ns, list, 303 * MS);
        assert_eq!((open.len(), counts.pauses, running_ns), (2, 0, 150 * MS));
        assert_eq!(counts.cpus[&0], CpuGapsSample { covered_ns: 100 * MS, ..CpuGapsSample::default() });
        let rest = std::mem::take(&mut open);
        take(&mut counts, &mut open, &mut running_ns, rest, 400 * MS);
        assert_eq!((counts.pauses, counts.new_pauses.len(), counts.new_gaps.len()), (1, 1, 2));
        assert_eq!(counts.cpus[&0].by_nobody_ns, 25 * MS, "half of the window was missing");
        assert_eq!(counts.paused_ns, 109_500_000, "both were away for so long");
        take(&mut counts, &mut open, &mut running_ns, Vec::new(), 500 * MS);
        assert_eq!((counts.pauses, counts.new_pauses.len(), counts.new_gaps.len()), (1, 0, 0));
    }
}
