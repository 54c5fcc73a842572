//! Finds stretches in which our thread did not run on a CPU: how long they were, and who took the CPU.
//! A server's tick loses exactly this time. The meter uses a server's own means.
//! The meter needs no tracer, and needs a privilege only to read names.

mod cause;
mod caveat;
mod interrupts;
mod limit;
mod probe;
mod sample;
mod seen;
mod settings;
mod stoppable_sleep;
mod takers;
mod tally;
mod traced;
mod turns;
mod windows;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_hostfs::Root;
use evenkeel_sys::tracepoint::{Ready, Tracepoint};
use evenkeel_sys::tsc::{self, Scale};
use evenkeel_sys::{Errno, clock, cpu_limit, thread};
use serde::Serialize;

pub use cause::{Cause, Class, Evidence, Interrupts, Taker, classify};
pub use caveat::GapsCaveat;
pub use interrupts::Source;
pub use limit::Limit;
use probe::{Plan, Probe, ProbeReads, ProbeResult};
pub use seen::{Seen, Stretch};
pub use settings::{Mode, Order, Settings, WindowSink};
use stoppable_sleep::StoppableSleep;
pub use tally::{Gap, Keep, RanInstead, Sum};
use traced::Traced;
pub use windows::Sampled;
use windows::Sums;

use crate::{Lost, MeterError, Samples, Unit, Watch};

/// How often to read interrupts, switch records and the clocks.
const WINDOW_NS: u64 = 500_000_000;
/// The time in which the threads start before the first thread spins.
const START_NS: u64 = 40_000_000;
/// The maximum length of a measurement: ten days.
pub const LENGTH_MAX_NS: u64 = 864_000_000_000_000;

/// One CPU.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// The CPU's number.
    pub cpu: usize,
    /// How long the probe watched this CPU, in nanoseconds.
    pub watched_ns: u64,
    /// How long the probe did other work and did not watch this CPU, in nanoseconds.
    pub blind_ns: u64,
    /// The sum of all gaps of this CPU.
    pub all: Sum,
    /// The missing share of the watched time. If the probe sampled, this is the estimate of `sampled`.
    pub share: f64,
    /// The missing share with its interval, from samples. None if the probe spun, or if no window fell into the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// The gaps by cause.
    pub causes: BTreeMap<&'static str, Sum>,
    /// The gaps by the thread that ran instead.
    pub takers: BTreeMap<String, Sum>,
    /// Interrupts and deferred work during the run, the most frequent first.
    pub interrupts: Vec<Source>,
    /// Gaps by interrupt source, if tracepoints report it.
    pub interrupted_by: BTreeMap<String, Sum>,
    /// The listed gaps, in order of time.
    pub gaps: Vec<Gap>,
    /// Gaps that are not listed, or that the probe did not see.
    pub lost: Lost,
    /// The lengths of the gaps.
    pub lengths: Samples,
    /// How late the probe woke from its sleeps. None for a probe that did not sleep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_late: Option<Samples>,
    /// Switch records that were lost because they came too fast. For such gaps, the thread that ran instead may be unknown.
    pub switch_records_lost: u64,
    /// Tracepoint records that were lost because they came too fast. For such gaps, the interrupt source is unknown.
    pub trace_records_lost: u64,
    /// Why the probe did not watch this CPU to the end. None if it watched to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// The report of the gaps meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// How the probes watched: all the time, or in samples.
    pub mode: Mode,
    /// How the probes were scheduled.
    pub class: Class,
    /// The shortest gap to report.
    pub threshold_ns: u64,
    /// When the measurement began, on the monotonic clock in nanoseconds.
    pub start_ns: u64,
    /// How long the measurement took, in nanoseconds.
    pub length_ns: u64,
    /// The gaps of all CPUs together.
    pub all: Sum,
    /// The gaps by cause.
    pub causes: BTreeMap<&'static str, Sum>,
    /// The missing share of all CPUs' time, from samples. None if the probes spun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// The gaps of each CPU.
    pub cpus: Vec<Cpu>,
    /// Gaps that are not listed, or that the probes did not see.
    pub lost: Lost,
    /// The limits on CPU time that apply to the meter.
    pub limits: Vec<Limit>,
    /// The CPU time of the meter itself: 1 is one whole CPU.
    pub observer_cpu_share: f64,
    /// Caveats of the report.
    pub caveats: Vec<GapsCaveat>,
}

/// Runs the measurement.
///
/// # Errors
/// Fails if a CPU is not allowed, or the settings are invalid.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let cpus = check(settings)?;
    let limits = cpu_limit::all();
    let reads = match settings.mode {
        Mode::Spin => ProbeReads::All,
        Mode::Sample => ProbeReads::OwnCounts,
    };
    // This check is valid for the whole run, however often the probe returns to a CPU.
    let trace = ready_to_trace(reads, &cpus);
    let plan = Plan {
        scale: Scale::measured(),
        threshold_ns: settings.threshold_ns,
        class: settings.class,
        keep: settings.keep,
        limits: &limits,
        meter_tid: thread::id(),
        reads,
        points: trace.as_ref().map(|(points, _)| points.as_slice()).map_err(String::as_str),
    };
    let (start_ns, start_cpu_ns) = (clock::monotonic_ns(), clock::process_cpu_ns());
    let seen = match settings.order {
        Order::AllAtOnce => together(&cpus, settings, settings.length_ns, &plan, watch)?,
        Order::OneAtATime => {
            let (mut seen, count) = (Vec::new(), cpus.len() as u64);
            for (at, cpu) in cpus.iter().enumerate() {
                let (from, to) = (at as f64 / count as f64, (at + 1) as f64 / count as f64);
                let length_ns = settings.length_ns / count;
                let one = watch.part(from, to, |part| together(&[*cpu], settings, length_ns, &plan, part))?;
                seen.extend(one);
            }
            seen
        }
    };
    let length_ns = clock::monotonic_ns() - start_ns;
    let used_ns = clock::process_cpu_ns() - start_cpu_ns;
    let mut report = report(settings, seen, limits.iter().map(Limit::from).collect());
    (report.start_ns, report.length_ns) = (start_ns, length_ns);
    report.observer_cpu_share = used_ns as f64 / length_ns.max(1) as f64;
    Ok(report)
}

/// The CPUs to watch, if the settings are valid.
fn check(settings: &Settings) -> Result<Vec<usize>, MeterError> {
    if settings.threshold_ns < 500 {
        let why = format!(
            "{} ns is too short: two readings of the counter can take longer; use 500 or more",
            settings.threshold_ns
        );
        return Err(MeterError::wrong_use("the shortest gap", why));
    }
    if settings.length_ns > LENGTH_MAX_NS {
        return Err(MeterError::wrong_use("the length", "more than ten days"));
    }
    let allowed = thread::affinity().map_err(|errno| MeterError::refused("read which CPUs may be used", errno))?;
    let cpus = settings.cpus.clone().unwrap_or_else(|| allowed.clone());
    if cpus.is_empty() {
        return Err(MeterError::wrong_use("the CPUs", "none are given"));
    }
    let absent = cpus.without(&allowed);
    if !absent.is_empty() {
        let why = format!("this process may use CPUs {allowed}; another is offline, or outside its cpuset or affinity");
        return Err(MeterError::not_possible(format!("measure CPUs {absent}"), why));
    }
    if settings.class == Class::Fifo && settings.mode == Mode::Sample {
        return Err(MeterError::wrong_use(
            "fifo with sample",
            "sampling must not disturb other threads; use only one of the two",
        ));
    }
    if settings.class == Class::Fifo && settings.mode == Mode::Spin {
        let runtime = Root::live().text("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default();
        if runtime.trim() == "-1" {
            let why = "kernel.sched_rt_runtime_us is -1, so a real-time thread that spins would freeze this machine; measure without fifo";
            return Err(MeterError::not_possible("spin in real time", why));
        }
    }
    Ok(cpus.iter().collect())
}

/// Runs one thread on each of `cpus`. All threads start together.
fn together(
    cpus: &[usize],
    settings: &Settings,
    length_ns: u64,
    plan: &Plan<'_>,
    watch: &Watch<'_>,
) -> Result<Vec<(usize, ProbeResult)>, MeterError> {
    let (mode, on_window) = (settings.mode, settings.on_window.function());
    let failed = AtomicBool::new(false);
    // Switching on a tracepoint stops all CPUs for a moment, so do this before any probe watches.
    let of_cpu = |cpu: &usize| {
        let points = plan.points.map_err(str::to_owned)?;
        Traced::of_cpu(*cpu, points).map_err(|errno| untraced(&errno))
    };
    let traced: Vec<_> = cpus.iter().map(of_cpu).collect();
    let begin_ns = clock::monotonic_ns() + START_NS + 500_000 * cpus.len() as u64;
    let span = (begin_ns, begin_ns + length_ns);
    let stop = || watch.stopped() || failed.load(Ordering::Relaxed);
    let sleeper = StoppableSleep::default();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (cpu, traced) in cpus.iter().copied().zip(traced) {
            let (failed, stop, sleeper) = (&failed, &stop, &sleeper);
            let body = move || {
                let seen = Probe::here(cpu, plan, traced).map(|probe| match mode {
                    Mode::Spin => spin(probe, span, plan, stop),
                    Mode::Sample => sample::watch(probe, span, cpus.len(), sleeper, stop, on_window),
                });
                if seen.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                seen.map(|seen| (cpu, seen))
            };
            let thread = std::thread::Builder::new().name(format!("gaps-{cpu}")).spawn_scoped(scope, body);
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    sleeper.stop();
                    return Err(MeterError::refused(format!("start the probe of CPU {cpu}"), &error));
                }
            }
        }
        // This thread takes time from the probes, so it wakes rarely. A signal wakes it at once.
        while clock::monotonic_ns() < span.1 && !stop() && !threads.iter().all(|thread| thread.is_finished()) {
            clock::sleep_until_ns_or_signal((clock::monotonic_ns() + WINDOW_NS).min(span.1));
            let done = clock::monotonic_ns().saturating_sub(span.0) as f64 / length_ns.max(1) as f64;
            watch.progress(done, "watching for gaps");
        }
        if stop() {
            sleeper.stop();
        }
        let ended = || MeterError::not_possible("watch for gaps", "a probe's thread ended by itself");
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(ended()))).collect()
    })
}

/// The interrupt tracepoints, ready to use, or the reason why they are not available.
fn ready_to_trace(reads: ProbeReads, cpus: &[usize]) -> Result<(Vec<Tracepoint>, Ready), String> {
    if reads == ProbeReads::OwnCounts {
        return Err("they were not read".to_owned());
    }
    let first = cpus.first().copied().unwrap_or(0);
    let ready = traced::points().and_then(|points| Ready::new(&points, first).map(|ready| (points, ready)));
    ready.map_err(|errno| untraced(&errno))
}

fn untraced(errno: &Errno) -> String {
    format!("the kernel's tracepoints were refused ({errno})")
}

fn spin(mut probe: Probe<'_>, (begin_ns, end_ns): (u64, u64), plan: &Plan<'_>, stop: &dyn Fn() -> bool) -> ProbeResult {
    clock::sleep_until_ns(begin_ns);
    probe.start();
    loop {
        let now_ns = clock::monotonic_ns();
        if now_ns >= end_ns {
            break;
        }
        let window_ns = WINDOW_NS.min(end_ns - now_ns);
        if !probe.window(tsc::ticks() + plan.scale.ticks(window_ns), stop) {
            break;
        }
    }
    probe.finish()
}

fn report(settings: &Settings, mut seen: Vec<(usize, ProbeResult)>, limits: Vec<Limit>) -> Report {
    let all_at_once = settings.order == Order::AllAtOnce && settings.mode == Mode::Spin;
    if all_at_once {
        let suspects: Vec<_> = seen.iter().map(|(_, seen)| &seen.tally.suspects).collect();
        let stretches = tally::everywhere(&suspects);
        for (_, seen) in &mut seen {
            seen.tally.settle_pauses(&stretches);
        }
    }
    let caveats = caveat::caveats(settings, &seen, &limits, all_at_once);
    let mut report = Report {
        mode: settings.mode,
        class: settings.class,
        threshold_ns: settings.threshold_ns,
        start_ns: 0,
        length_ns: 0,
        all: Sum::default(),
        causes: BTreeMap::new(),
        sampled: sampled(&seen),
        cpus: Vec::new(),
        lost: Lost::default(),
        limits,
        observer_cpu_share: 0.0,
        caveats,
    };
    for (cpu, seen) in seen {
        let cpu = of_cpu(cpu, seen, settings.mode);
        report.all.merge(&cpu.all);
        for (cause, sum) in &cpu.causes {
            report.causes.entry(cause).or_default().merge(sum);
        }
        report.lost.count += cpu.lost.count;
        if report.lost.why.is_none() {
            report.lost.why.clone_from(&cpu.lost.why);
        }
        report.cpus.push(cpu);
    }
    report
}

/// The sums over all CPUs.
fn sampled(seen: &[(usize, ProbeResult)]) -> Option<Sampled> {
    let mut all = Sums::default();
    seen.iter().filter_map(|(_, seen)| seen.sums.as_ref()).for_each(|sums| all.merge(sums));
    all.sampled()
}

fn of_cpu(cpu: usize, seen: ProbeResult, mode: Mode) -> Cpu {
    let ProbeResult { mut tally, watched_ns, blind_ns, ended, takers, traced, sources, late, sums, .. } = seen;
    let sampled = sums.and_then(|sums| sums.sampled());
    let watched_share = tally.all.total_ns as f64 / watched_ns.max(1) as f64;
    let (all, takers_seen) = (tally.all, std::mem::take(&mut tally.takers));
    let interrupted_by = std::mem::take(&mut tally.sources);
    let causes = std::mem::take(&mut tally.causes).into_iter().map(|(cause, sum)| (cause.name(), sum)).collect();
    let lengths = std::mem::replace(&mut tally.lengths, Samples::new("gap_ns", Unit::Ns, []));
    let (gaps, lost) = tally.into_kept();
    Cpu {
        cpu,
        watched_ns,
        blind_ns,
        all,
        share: sampled.map_or(watched_share, |sampled| sampled.missing.share),
        sampled,
        causes,
        takers: takers_seen,
        interrupts: sources,
        interrupted_by,
        gaps,
        lost,
        lengths,
        wake_late: (mode == Mode::Sample).then_some(late),
        switch_records_lost: takers.map_or(0, |takers| takers.lost),
        trace_records_lost: traced.map_or(0, |traced| traced.lost),
        ended,
    }
}
