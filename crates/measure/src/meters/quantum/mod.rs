//! Finds out whether a CPU is always available, or only in slots that a hypervisor grants.
//! The meter reports the period, share and phase of the slots, and their offsets between CPUs.
//! A server that begins its ticks with its slot finishes in half the time.
//! A server under a limit of its control group must do the opposite, so the meter distinguishes the two cases.

mod phase;
mod probe;
mod report;
mod settings;
mod threshold_baseline;

use evenkeel_stats::periodicity::{self, Count, Known, Label, Limit, Model, Periodicity, Reason, Slots};
use evenkeel_sys::cpu_limit::CpuLimit;
use evenkeel_sys::{clock, cpu_limit, thread};

use crate::{Lost, MeterError, Samples, Unit, Watch};

pub use probe::Labels;
use probe::Watched;
use report::MS;
pub use report::{Cpu, LimitSeen, Report};
pub use settings::{Class, Method, Order, Settings};

/// The shortest and longest time for each CPU, in nanoseconds.
const DURATION_NS: std::ops::RangeInclusive<u64> = 100_000_000..=600_000_000_000;

/// Runs the measurement.
///
/// # Errors
/// Fails if this process may not use a CPU, or if [`Class::Fifo`] is requested and refused.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    if !DURATION_NS.contains(&settings.duration_ns) {
        return Err(MeterError::wrong_use("the time for each CPU", "it must be from 0.1 to 600 s"));
    }
    let ours = thread::affinity().map_err(|errno| MeterError::refused("ask where this process may run", errno))?;
    let cpus: Vec<usize> = settings.cpus.as_ref().unwrap_or(&ours).iter().collect();
    if let Some(cpu) = cpus.iter().find(|cpu| !ours.contains(**cpu)) {
        let why = format!("this process may run on {ours} only");
        return Err(MeterError::wrong_use(format!("CPU {cpu}"), why));
    }
    let limit = cpu_limit::tightest();
    let reference_ns = clock::monotonic_ns();
    let mut measured = measure(settings, &cpus, limit.as_ref(), watch)?;
    for cpu in &mut measured {
        phase::place(cpu, reference_ns);
    }
    phase::compare(&mut measured);
    Ok(Report {
        method: settings.method,
        count: settings.count,
        reference_ns,
        limit: limit.map(|limit| {
            let (quota_ms, period_ms) = (limit.quota_ns as f64 / MS, limit.period_ns as f64 / MS);
            LimitSeen { quota_ms, period_ms, folder: limit.group }
        }),
        cpus: measured,
    })
}

fn measure(
    settings: &Settings,
    cpus: &[usize],
    limit: Option<&CpuLimit>,
    watch: &Watch<'_>,
) -> Result<Vec<Cpu>, MeterError> {
    let one = |cpu: usize, watch: &Watch<'_>| -> Result<Cpu, MeterError> {
        match settings.method {
            Method::Fold => fold(cpu, settings, limit, watch),
            Method::ThresholdBaseline => threshold_baseline::run(cpu, watch)
                .map(|(is_real_time, said)| from_threshold_baseline(cpu, is_real_time, said)),
        }
    };
    // Each CPU has its own thread, and the settings of a thread end with it.
    std::thread::scope(|scope| match settings.order {
        Order::Together => {
            let threads: Vec<_> = cpus.iter().map(|cpu| scope.spawn(move || one(*cpu, watch))).collect();
            threads.into_iter().map(|thread| joined(thread.join())).collect()
        }
        Order::InTurn => {
            let mut measured = Vec::with_capacity(cpus.len());
            for (at, cpu) in cpus.iter().enumerate() {
                if watch.stopped() {
                    measured.push(Cpu::unmeasured(*cpu, "stopped before its turn"));
                    continue;
                }
                let all = cpus.len() as f64;
                let (from, to) = (at as f64 / all, (at + 1) as f64 / all);
                measured.push(watch.part(from, to, |watch| {
                    std::thread::scope(|scope| joined(scope.spawn(|| one(*cpu, watch)).join()))
                })?);
            }
            Ok(measured)
        }
    })
}

fn joined(result: std::thread::Result<Result<Cpu, MeterError>>) -> Result<Cpu, MeterError> {
    result.unwrap_or_else(|_| Err(MeterError::not_possible("measure a CPU", "its thread ended early")))
}

/// Folds all gaps of one CPU over one another by the period.
fn fold(cpu: usize, settings: &Settings, place: Option<&CpuLimit>, watch: &Watch<'_>) -> Result<Cpu, MeterError> {
    let before = place.map(limit_now).filter(|limit| limit.quota_ns < limit.period_ns);
    // A limit does not apply to real-time threads. It throttles only an ordinary thread.
    let class = if before.is_some() && settings.class == Class::Auto { Class::Ordinary } else { settings.class };
    let watched = match probe::watch(cpu, class, settings.threshold_ns, settings.duration_ns, watch) {
        // Report a CPU that is offline by now, and measure the others.
        Err(MeterError::NotPossible { what, why }) => return Ok(Cpu::unmeasured(cpu, &format!("{what}: {why}"))),
        other => other?,
    };
    let limit = before.map(|before| {
        let after = place.and_then(|place| place.throttled().times);
        let throttled = before.throttled.zip(after).map(|(before, after)| after.saturating_sub(before));
        Limit { throttled, ..before }
    });
    let is_turn = settings.count == Count::All || matches!(watched.labels, Labels::None(_));
    let turns_end_at_ns = if is_turn && !watched.is_real_time { Some(clock::kernel_tick_ns()) } else { None };
    let said =
        periodicity::detect(&watched.windows, &watched.gaps, &Known { count: settings.count, limit, turns_end_at_ns });
    Ok(cpu_report(cpu, said, limit, watched))
}

/// The limit, and how often it has throttled so far.
fn limit_now(place: &CpuLimit) -> Limit {
    Limit { quota_ns: place.quota_ns, period_ns: place.period_ns, throttled: place.throttled().times }
}

fn cpu_report(cpu: usize, said: Periodicity, limit: Option<Limit>, watched: Watched) -> Cpu {
    let bucket = limit.filter(|_| said.model == Model::TokenBucket);
    let (period_ns, share) = match (said.period, bucket) {
        (Some(period), _) => (Some(period.period_ns), Some(period.share)),
        (None, Some(limit)) => (Some(limit.period_ns as f64), Some(limit.quota_ns as f64 / limit.period_ns as f64)),
        (None, None) => (None, Some(1.0 - said.lost_share).filter(|_| said.watched_ns > 0)),
    };
    let mut lost = Lost::new(watched.not_kept, "more gaps than are kept");
    if lost.why.is_none() {
        lost.why = watched.ended.map(str::to_owned);
    }
    Cpu {
        model: Some(said.model),
        period_ms: period_ns.map(|ns| ns / MS),
        share,
        jitter: said.period.map(|period| period.jitter),
        period_error_ms: said.period.map(|period| period.period_error_ns / MS),
        confidence: Some(said.confidence),
        why: said.why.to_string(),
        // Slots without fixed times do not predict the next minute, so drop these slots.
        slots: said.slots.filter(|_| said.why != Reason::Wandering),
        seen: Some(said),
        is_real_time: watched.is_real_time,
        gaps: lengths(&watched),
        labels: Some(watched.labels),
        lost,
        ..Cpu::unmeasured(cpu, "")
    }
}

fn lengths(watched: &Watched) -> Vec<Samples> {
    let kinds = [(Label::Foreign, "nobody inside"), (Label::Preempted, "other threads"), (Label::Unknown, "unknown")];
    let of = |(label, taken_by): (Label, &str)| {
        let mut samples = Samples::new("gap_ns", Unit::Ns, [("taken_by", taken_by.to_owned())]);
        watched.gaps.iter().filter(|gap| gap.label == label).for_each(|gap| samples.record(gap.length_ns));
        samples
    };
    kinds.into_iter().map(of).filter(|samples| samples.histogram.summary().is_some()).collect()
}

fn from_threshold_baseline(cpu: usize, is_real_time: bool, said: Option<threshold_baseline::Said>) -> Cpu {
    let mut report = Cpu { is_real_time, ..Cpu::unmeasured(cpu, "no gap of 1 ms within 50 ms") };
    report.model = Some(Model::None);
    if let Some(said) = said {
        let slots = said.period_ns.map(|period_ns| Slots {
            period_ns,
            period_error_ns: 0.0,
            share: 1.0 - said.gap_ns / period_ns,
            share_start_ns: said.start_ns,
            drift_ppm: 0.0,
            spread_ns: 0.0,
            seen: 1,
            expected: 1,
        });
        report.model = Some(Model::FixedSlot);
        report.why = format!("the first gap over 1 ms was {:.2} ms", said.gap_ns / MS);
        report.period_ms = slots.map(|slots| slots.period_ns / MS);
        report.share = slots.map(|slots| slots.share);
        report.slots = slots;
    }
    report
}

#[cfg(test)]
mod tests;
