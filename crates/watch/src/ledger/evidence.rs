//! What two samples say of a server's late ticks.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::{CpuTicks, TICK_NS};
use evenkeel_measure::meters::rates::ThreadCounts;
use evenkeel_sys::stall::Stalls;
use evenkeel_sys::telemetry::PageHistogram;
use evenkeel_sys::telemetry::layout::BOUNDS_NS;

use super::cause::{Evidence, LateCount};
use crate::sample::{Counted, GroupsSample, ProcessSample, Sample, ServerSample, TelemetrySample};

/// The share of the server's CPU time that a loop which is always behind uses at least.
const DOMINATES: f64 = 0.9;

/// The evidence for a server, if any of its ticks was late or missed between the samples.
pub(super) fn of_server(before: &Sample, after: &Sample, server: &ServerSample) -> Option<Evidence> {
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
    let grown = |before: u64, after: u64| after.checked_sub(before);
    let process = then.process.as_ref().ok().zip(server.process.as_ref().ok());
    let process = process.filter(|(then, now)| then.start_ticks == now.start_ticks);
    let thread = process.and_then(|(then, now)| tick_thread(then, now, page.ticks.saturating_sub(page_before.ticks)));
    let groups = before.host.groups.as_ref().ok().zip(after.host.groups.as_ref().ok());
    let cpu = thread.as_ref().and_then(|thread| thread.cpu);
    let on_cpu = |of: fn(&CpuTicks) -> u64| {
        let (then, now) = before.host.stat.as_ref().ok().zip(after.host.stat.as_ref().ok())?;
        grown(of(then.cpus.get(&cpu?)?), of(now.cpus.get(&cpu?)?))?.checked_mul(TICK_NS)
    };
    let stalls = |of: fn(&Sample) -> &Counted<Stalls>| {
        let (then, now) = of(before).as_ref().ok().zip(of(after).as_ref().ok())?;
        grown(then.some_us, now.some_us)?.checked_mul(1000)
    };
    let io_ns = stalls(|sample| &sample.host.pressure.io);
    let memory_ns = stalls(|sample| &sample.host.pressure.memory);
    let Overruns { count: overruns, excess_ns, work_ns } = overruns(page_before, page, ticks.bound_ns);
    Some(Evidence {
        ticks,
        run_delay_ns: thread.as_ref().and_then(|thread| grown(thread.before.run_delay_ns, thread.after.run_delay_ns)),
        throttled_ns: process.and_then(|(then, now)| throttled_ns(then, now, groups?)),
        steal_ns: on_cpu(|times| times.steal),
        interrupts_ns: on_cpu(|times| times.irq.saturating_add(times.softirq)),
        major_faults: page.major_faults.zip(page_before.major_faults).and_then(|(now, then)| grown(then, now)),
        stalled_ns: io_ns.zip(memory_ns).map(|(io, memory)| io.max(memory)),
        overruns,
        excess_ns,
        work_ns,
        cpu_ns: thread.as_ref().and_then(|thread| grown(thread.before.cpu_ns, thread.after.cpu_ns)),
    })
}

/// The lower bound of a bucket, in nanoseconds.
fn lower_ns(at: usize) -> u64 {
    at.checked_sub(1).and_then(|at| BOUNDS_NS.get(at)).copied().unwrap_or(0)
}

/// The values that are certainly above `bound_ns`: their number, and the least that they add up to.
fn above(histogram: &PageHistogram, bound_ns: u64) -> (u64, u64) {
    let buckets = histogram.buckets.iter().enumerate().filter(|(at, _)| lower_ns(*at) >= bound_ns);
    buckets.fold((0, 0), |(count, sum): (u64, u64), (at, more)| {
        (count.saturating_add(*more), sum.saturating_add(more.saturating_mul(lower_ns(at))))
    })
}

/// `None` if no bound is known.
fn late_count(before: &TelemetrySample, after: &TelemetrySample, asked_ns: Option<u64>) -> Option<LateCount> {
    let bound_ns = asked_ns.or_else(|| after.period_ns.map(|period_ns| period_ns / 4))?;
    let lateness = after.lateness.to_page().since(&before.lateness.to_page());
    let (late, lateness_ns) = above(&lateness, bound_ns);
    let missed = after.missed.saturating_sub(before.missed);
    // Between two ticks that ran, each missed one stands for a period in which something else went on.
    let missed_ns = missed.saturating_mul(after.period_ns.unwrap_or(bound_ns));
    Some(LateCount { late, missed, lateness_ns: lateness_ns.max(missed_ns), bound_ns })
}

/// Ticks that worked so long that the next one had to be late.
struct Overruns {
    count: u64,
    /// Beyond the period, together.
    excess_ns: u64,
    /// The work of all ticks.
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
struct TickThread<'a> {
    before: &'a ThreadCounts,
    after: &'a ThreadCounts,
    /// Its CPU, if it was the same at both samples.
    cpu: Option<usize>,
}

/// The only thread; else the only one that sleeps as often as ticks come, if it is also the busiest: a loop that never sleeps must not be
/// taken for a thread beside it that does.
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
    let (tid, then, now) = Some(busiest).filter(|_| is_it)?;
    let cpus = before.thread_cpus.get(&tid).zip(after.thread_cpus.get(&tid));
    let cpu = cpus.filter(|(then, now)| then == now).map(|(cpu, _)| *cpu);
    Some(TickThread { before: then, after: now, cpu })
}

/// How long limits stopped the groups of a process. `None` if that is not known of one of them, or the process or a limit moved meanwhile.
fn throttled_ns(
    process_before: &ProcessSample,
    process: &ProcessSample,
    (before, after): (&GroupsSample, &GroupsSample),
) -> Option<u64> {
    // The groups of servers are read each time, however many others there are.
    let own = process.group.as_ref().filter(|own| process_before.group.as_ref() == Some(*own))?;
    let of = |sample: &GroupsSample| {
        let own = sample.limited.iter().filter(|(path, _)| GroupsSample::is_in(own, path));
        own.map(|(path, group)| (path.clone(), group.throttled_us)).collect::<BTreeMap<String, Option<u64>>>()
    };
    let (before, after) = (of(before), of(after));
    if !before.keys().eq(after.keys()) {
        return None;
    }
    let grown = before.values().zip(after.values()).map(|(then, now)| (*now)?.checked_sub((*then)?)?.checked_mul(1000));
    grown.into_iter().try_fold(0_u64, |sum, ns| sum.checked_add(ns?))
}
