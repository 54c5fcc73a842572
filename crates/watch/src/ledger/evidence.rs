//! Collects the evidence on a server's late ticks from two samples.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::{CpuTicks, TICK_NS};
use evenkeel_measure::meters::rates::ThreadCounts;
use evenkeel_sys::telemetry::LONG_WAIT_OF_PERIOD;
use evenkeel_sys::telemetry::PageHistogram;
use evenkeel_sys::telemetry::layout::lower_bound_ns;

use super::cause::{EXPLAINS, Evidence, LateCount};
use super::usual::{Usual, UsualTimes, stalled_ns};
use crate::sample::{
    GroupSample, GroupsSample, ProcessSample, Sample, ServerSample, TelemetrySample, WaitKind, late_bound_ns,
};

/// A loop that is always behind uses at least this share of the server's CPU time.
const DOMINATES: f64 = 0.9;
/// A thread wakes only for its ticks if at most one in this many of its wakes is another one.
const OTHER_WAKES: u64 = 10;

/// The evidence on a server. None if none of its ticks was late or missed between the samples.
pub(super) fn of_server((before, after): (&Sample, &Sample), server: &ServerSample, usual: &Usual) -> Option<Evidence> {
    let same = |then: &&ServerSample| then.pid == server.pid && then.name == server.name && then.telemetry.is_some();
    let then = before.servers.iter().find(same)?;
    let page = server.telemetry.as_ref()?.as_ref().ok()?;
    let page_before = then.telemetry.as_ref()?.as_ref().ok()?;
    if page.began_realtime_ns != page_before.began_realtime_ns || after.at.monotonic_ns <= before.at.monotonic_ns {
        return None;
    }
    let ticks = late_count(page_before, page, after.asked.late_after_ns)?;
    if ticks.late == 0 && ticks.missed == 0 {
        return None;
    }
    let process = same_process(then, server);
    let ran = page.ticks.saturating_sub(page_before.ticks);
    let thread = process.and_then(|(then, now)| match page.thread {
        // If this root shows the process, thread numbers are the same in the page and in this root.
        Some(tid) => TickThread::numbered(tid, then, now),
        None => tick_thread(then, now, ran),
    });
    let Overruns { count: overruns, excess_ns, work_ns } = overruns(page_before, page, ticks.bound_ns);
    let seen = Counters::between((before, after), process, thread.as_ref(), ticks.bound_ns, usual);
    Some(Evidence {
        ticks,
        run_delay_ns: seen.run_delay_ns,
        late_delay_ns: page
            .late_run_delay_ns
            .zip(page_before.late_run_delay_ns)
            .and_then(|(now, then)| grown(then, now)),
        throttled_ns: seen.throttled_ns,
        throttles: seen.throttles,
        steal_ns: seen.steal_ns,
        interrupts_ns: seen.interrupts_ns,
        usual: seen.usual,
        paused_ns: paused_ns(before, after),
        lock_ns: lock_ns(page_before, page, ticks.bound_ns),
        long_lock_ns: page
            .waits
            .as_ref()
            .zip(page_before.waits.as_ref())
            .and_then(|(now, then)| grown(then.long_ns, now.long_ns)),
        major_faults: page.major_faults.zip(page_before.major_faults).and_then(|(now, then)| grown(then, now)),
        stalled_ns: seen.stalled_ns,
        overruns,
        excess_ns,
        work_ns,
        mean_work_ns: work_ns.checked_div(ran).unwrap_or(0),
        cpu_ns: seen.cpu_ns,
        uncounted_ns: seen.uncounted_ns,
    })
}

/// How long ticks waited for locks, if the server reports it. Waits that are too short to make a tick late are left out if the server
/// reports them separately.
fn lock_ns(before: &TelemetrySample, after: &TelemetrySample, bound_ns: u64) -> Option<u64> {
    let (then, now) = before.waits.as_ref().zip(after.waits.as_ref())?;
    let has_all_that_matter = bound_ns as f64 * EXPLAINS >= after.period_ns? as f64 / LONG_WAIT_OF_PERIOD as f64;
    match has_all_that_matter {
        true => grown(then.long_ns, now.long_ns),
        false => grown(then.total_ns, now.total_ns),
    }
}

/// The last wait that was long for a tick, as text.
pub(super) fn lock_words(page: &TelemetrySample) -> Option<String> {
    let last = page.waits.as_ref()?.last.as_ref()?;
    let what = match last.kind {
        WaitKind::Mutex => "a mutex",
        WaitKind::InheritMutex => "a mutex that inherits priority",
        WaitKind::Read => "a lock to read",
        WaitKind::Write => "a lock to write",
        WaitKind::Event => "an event",
    };
    let does = if last.kind == WaitKind::Event { "set" } else { "held" };
    let whose = match (last.by, &last.by_name) {
        (Some(by), Some(name)) => format!("{does} by {name} (thread {by})"),
        (Some(by), None) => format!("{does} by thread {by}"),
        (None, _) => format!("{does} by an unknown thread"),
    };
    Some(format!("the last one {:.1} ms for {what} at {:#x}, {whose}", last.length_ns as f64 / 1e6, last.address))
}

/// How long the machine was paused between two samples, if the gap meter ran.
pub(super) fn paused_ns(before: &Sample, after: &Sample) -> Option<u64> {
    let of = |sample: &Sample| Some(sample.gaps.as_ref()?.as_ref().ok()?.paused_ns);
    // If the earlier sample has no count, the meter started after that sample, with a count of zero.
    of(after)?.checked_sub(of(before).unwrap_or(0))
}

fn grown(before: u64, after: u64) -> Option<u64> {
    after.checked_sub(before)
}

/// The process in both samples. `None` if the process changed.
pub(super) fn same_process<'a>(
    then: &'a ServerSample,
    now: &'a ServerSample,
) -> Option<(&'a ProcessSample, &'a ProcessSample)> {
    let process = then.process.as_ref().ok().zip(now.process.as_ref().ok());
    process.filter(|(then, now)| then.start_ticks == now.start_ticks)
}

/// How the counters of a thread, its CPU and its control group changed between two samples. `None` means unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) run_delay_ns: Option<u64>,
    pub(super) throttled_ns: Option<u64>,
    /// The number of the limit's periods in which it stopped the groups.
    pub(super) throttles: Option<u64>,
    pub(super) steal_ns: Option<u64>,
    pub(super) interrupts_ns: Option<u64>,
    /// The part of these times that the CPU and the host always have.
    pub(super) usual: UsualTimes,
    pub(super) stalled_ns: Option<u64>,
    pub(super) cpu_ns: Option<u64>,
    /// The CPU time that none of the counters includes: the CPU was away, and nothing reported the absence.
    pub(super) uncounted_ns: Option<u64>,
}

impl Counters {
    pub(super) fn between(
        (before, after): (&Sample, &Sample),
        process: Option<(&ProcessSample, &ProcessSample)>,
        thread: Option<&TickThread<'_>>,
        bound_ns: u64,
        usual: &Usual,
    ) -> Counters {
        let groups = before.host.groups.as_ref().ok().zip(after.host.groups.as_ref().ok());
        let cpu = thread.and_then(|thread| thread.cpu);
        let stat = before.host.stat.as_ref().ok().zip(after.host.stat.as_ref().ok());
        let of_one = |cpu: &usize, of: fn(&CpuTicks) -> u64| {
            let (then, now) = stat?;
            grown(of(then.cpus.get(cpu)?), of(now.cpus.get(cpu)?))?.checked_mul(TICK_NS)
        };
        let on_cpu = |of: fn(&CpuTicks) -> u64| match cpu {
            Some(cpu) => of_one(&cpu, of),
            // The thread's CPUs are unknown.
            // If no CPU of the machine lost enough time for a late tick, neither did the thread's CPUs.
            None => {
                let (_, now) = stat?;
                thread?;
                let all = now.cpus.keys().map(|cpu| of_one(cpu, of)).collect::<Option<Vec<u64>>>()?;
                all.into_iter().max().filter(|ns| *ns < bound_ns)
            }
        };
        let elapsed_ns = after.at.monotonic_ns.saturating_sub(before.at.monotonic_ns);
        let interrupts_ns = on_cpu(|times| times.irq.saturating_add(times.softirq));
        let steal_ns = on_cpu(|times| times.steal);
        let stalled_ns = stalled_ns(before, after);
        let times = UsualTimes {
            interrupts_ns: interrupts_ns.unwrap_or(0),
            steal_ns: steal_ns.unwrap_or(0),
            stalled_ns: stalled_ns.unwrap_or(0),
        };
        let throttled = process.and_then(|(then, now)| throttled(then, now, groups?));
        Counters {
            run_delay_ns: thread.and_then(|thread| grown(thread.before.run_delay_ns, thread.after.run_delay_ns)),
            throttled_ns: throttled.map(|(ns, _)| ns),
            throttles: throttled.map(|(_, periods)| periods),
            steal_ns,
            interrupts_ns,
            usual: usual.parts_of(times, cpu, elapsed_ns),
            stalled_ns,
            cpu_ns: thread.and_then(|thread| grown(thread.before.cpu_ns, thread.after.cpu_ns)),
            uncounted_ns: stat.and_then(|(_, now)| {
                let cpus = cpu.map_or_else(|| now.cpus.keys().copied().collect(), |cpu| vec![cpu]);
                let counted = cpus.iter().map(|cpu| of_one(cpu, CpuTicks::total)).collect::<Option<Vec<u64>>>()?;
                Some(elapsed_ns.saturating_sub(counted.into_iter().min()?))
            }),
        }
    }
}

/// The number of values that are certainly above `bound_ns`, and a lower bound of their sum.
fn above(histogram: &PageHistogram, bound_ns: u64) -> (u64, u64) {
    let buckets = histogram.buckets.iter().enumerate().filter(|(at, _)| lower_bound_ns(*at) >= bound_ns);
    buckets.fold((0, 0), |(count, sum): (u64, u64), (at, more)| {
        (count.saturating_add(*more), sum.saturating_add(more.saturating_mul(lower_bound_ns(at))))
    })
}

/// `None` if the lateness from which a tick counts as late is unknown.
fn late_count(before: &TelemetrySample, after: &TelemetrySample, asked_ns: Option<u64>) -> Option<LateCount> {
    let bound_ns = late_bound_ns(asked_ns, after.period_ns)?;
    let lateness = after.lateness.to_page().since(&before.lateness.to_page());
    let (late, lateness_ns) = above(&lateness, bound_ns);
    let missed = after.missed.saturating_sub(before.missed);
    // Each missed tick counts as one period of lateness.
    let missed_ns = missed.saturating_mul(after.period_ns.unwrap_or(bound_ns));
    Some(LateCount { late, missed, lateness_ns: lateness_ns.max(missed_ns), bound_ns })
}

/// Ticks whose work took longer than the period, so that the next tick had to be late.
struct Overruns {
    count: u64,
    /// The total time by which these ticks exceeded the period.
    excess_ns: u64,
    /// The total time of work of all ticks.
    work_ns: u64,
}

fn overruns(before: &TelemetrySample, after: &TelemetrySample, bound_ns: u64) -> Overruns {
    let work = after.work.to_page().since(&before.work.to_page());
    let period_ns = after.period_ns.unwrap_or(u64::MAX);
    let (count, worked_ns) = above(&work, period_ns.saturating_add(bound_ns));
    let excess_ns = worked_ns.saturating_sub(count.saturating_mul(period_ns));
    Overruns { count, excess_ns, work_ns: work.sum_ns }
}

/// The thread that runs the ticks.
pub(super) struct TickThread<'a> {
    before: &'a ThreadCounts,
    after: &'a ThreadCounts,
    /// The CPU of the thread. None unless it was the same in both samples.
    cpu: Option<usize>,
}

impl<'a> TickThread<'a> {
    /// Finds the thread with this number.
    pub(super) fn numbered(tid: u32, before: &'a ProcessSample, after: &'a ProcessSample) -> Option<TickThread<'a>> {
        let cpus = before.thread_cpus.get(&tid).zip(after.thread_cpus.get(&tid));
        let cpu = cpus.filter(|(then, now)| then == now).map(|(cpu, _)| *cpu);
        Some(TickThread { before: before.threads.get(&tid)?, after: after.threads.get(&tid)?, cpu })
    }

    /// Whether the thread hardly ever slept for another reason than to wait for its next tick. Then it waited for a CPU only before ticks
    /// and in ticks.
    pub(super) fn wakes_only_for(&self, ticks: u64) -> bool {
        let slept = self.after.voluntary_switches.saturating_sub(self.before.voluntary_switches);
        slept <= ticks.saturating_add(ticks / OTHER_WAKES).saturating_add(1)
    }
}

/// Finds the thread that runs the ticks: the only thread, or else the only thread that sleeps about once per tick.
/// The second choice must also be the busiest thread.
/// If the tick loop never sleeps, another thread that sleeps is not the busiest, and must not be mistaken for the tick's thread.
fn tick_thread<'a>(before: &'a ProcessSample, after: &'a ProcessSample, ticks: u64) -> Option<TickThread<'a>> {
    if after.threads_beyond > 0 || ticks == 0 {
        return None;
    }
    let is_alone = after.threads.len() == 1 && before.threads.len() == 1;
    let both = after.threads.iter().filter_map(|(tid, now)| Some((*tid, before.threads.get(tid)?, now)));
    let both: Vec<(u32, &ThreadCounts, &ThreadCounts)> = both.collect();
    let ran = |then: &ThreadCounts, now: &ThreadCounts| now.cpu_ns.saturating_sub(then.cpu_ns);
    let sleeps =
        |then: &ThreadCounts, now: &ThreadCounts| now.voluntary_switches.saturating_sub(then.voluntary_switches);
    let busiest = both.iter().copied().max_by_key(|(_, then, now)| ran(then, now))?;
    let sleepers = both.iter().filter(|(_, then, now)| sleeps(then, now) >= ticks / 2);
    let sleepers: Vec<u32> = sleepers.map(|(tid, ..)| *tid).collect();
    let all_ns = both.iter().map(|(_, then, now)| ran(then, now)).fold(0, u64::saturating_add);
    let is_it = match sleepers[..] {
        _ if is_alone => true,
        // A loop that is always behind never sleeps, and uses nearly all of the server's CPU time.
        [] => ran(busiest.1, busiest.2) as f64 >= all_ns as f64 * DOMINATES,
        [one] => one == busiest.0,
        _ => false,
    };
    let (tid, ..) = Some(busiest).filter(|_| is_it)?;
    TickThread::numbered(tid, before, after)
}

/// How long limits stopped the groups of a process, and in how many of their periods. `None` if this is unknown for one of the groups, if
/// the process moved to another group, or if a limit changed between the samples.
fn throttled(
    process_before: &ProcessSample,
    process: &ProcessSample,
    (before, after): (&GroupsSample, &GroupsSample),
) -> Option<(u64, u64)> {
    // The groups of servers are always read, even if there are more groups than the limit.
    let own = process.group.as_ref().filter(|own| process_before.group.as_ref() == Some(*own))?;
    let of = |sample: &GroupsSample| {
        let own = sample.limited.iter().filter(|(path, _)| GroupsSample::is_in(own, path));
        own.map(|(path, group)| (path.clone(), *group)).collect::<BTreeMap<String, GroupSample>>()
    };
    let (before, after) = (of(before), of(after));
    if !before.keys().eq(after.keys()) {
        return None;
    }
    before.values().zip(after.values()).try_fold((0_u64, 0_u64), |(ns, periods), (then, now)| {
        let more_ns = grown(then.throttled_us?, now.throttled_us?)?.checked_mul(1000)?;
        let more = grown(then.throttled_periods?, now.throttled_periods?)?;
        Some((ns.checked_add(more_ns)?, periods.checked_add(more)?))
    })
}

/// The upper bound of what on-time ticks were late in total, between two samples.
pub(super) fn on_time_ns(before: &TelemetrySample, after: &TelemetrySample, bound_ns: u64) -> u64 {
    let lateness = after.lateness.to_page().since(&before.lateness.to_page());
    let on_time = lateness.buckets.iter().enumerate().filter(|(at, _)| lower_bound_ns(*at) < bound_ns);
    on_time.fold(0, |sum: u64, (at, count)| sum.saturating_add(count.saturating_mul(lower_bound_ns(at + 1))))
}
