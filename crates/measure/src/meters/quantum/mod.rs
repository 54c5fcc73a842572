//! Whether a CPU is ours all the time, or in slots that a hypervisor gives: with what period, what share, when it begins, and how far
//! apart the CPUs' slots are. A server that begins its ticks where its share begins is done in half the time; one under a limit of its
//! control group must do the opposite, so that the two are told apart.

mod phase;
mod probe;
mod siege;

use evenkeel_stats::periodicity::{self, Count, Known, Label, Limit, Model, Periodicity, Reason, Slots};
use evenkeel_sys::cpu_limit::CpuLimit;
use evenkeel_sys::{CpuSet, clock, cpu_limit, thread};
use serde::Serialize;

use crate::{Lost, MeterError, Samples, Unit, Watch};

pub use probe::Labels;
use probe::Watched;

const MS: f64 = 1e6;
/// The shortest and longest time for each CPU, in nanoseconds.
const DURATION_NS: std::ops::RangeInclusive<u64> = 100_000_000..=600_000_000_000;

/// The probe's class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Real-time where that is allowed, and no limit is set; else ordinary.
    #[default]
    Auto,
    /// Real-time (`SCHED_FIFO`) or not at all.
    Fifo,
    /// Ordinary, as a server's threads are.
    Ordinary,
}

/// In which order CPUs are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other: the others stay free.
    #[default]
    InTurn,
    /// All at once: phases are compared at one time, and a machine whose CPUs all spin is slow to answer.
    Together,
}

/// How to find the period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// All gaps of some seconds, folded.
    #[default]
    Fold,
    /// The first gap of a millisecond within 50 ms.
    Siege,
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which CPUs; none is all that this process may use.
    pub cpus: Option<CpuSet>,
    /// How long on each, in nanoseconds, from 0.1 to 600 s.
    pub duration_ns: u64,
    /// Gaps shorter than this do not count, in nanoseconds; interrupts take 5 to 20 us.
    pub threshold_ns: u64,
    /// The probe's class.
    pub class: Class,
    /// Which gaps count.
    pub count: Count,
    /// One after the other or all at once.
    pub order: Order,
    /// How to find the period.
    pub method: Method,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cpus: None,
            duration_ns: 2_000_000_000,
            threshold_ns: 100_000,
            class: Class::default(),
            count: Count::default(),
            order: Order::default(),
            method: Method::default(),
        }
    }
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How it was looked for.
    pub method: Method,
    /// Which gaps counted.
    pub count: Count,
    /// When it began, on the monotonic clock in nanoseconds: what `phase_ms` counts from.
    pub reference_ns: u64,
    /// The tightest limit of CPU time over this process.
    pub limit: Option<LimitSeen>,
    /// Each CPU.
    pub cpus: Vec<Cpu>,
}

/// A limit, with where it is set.
#[derive(Clone, Debug, Serialize)]
pub struct LimitSeen {
    /// CPU time in each period, in milliseconds.
    pub quota_ms: f64,
    /// The period in milliseconds.
    pub period_ms: f64,
    /// The control group's folder.
    pub folder: String,
}

/// What was seen of one CPU.
#[derive(Clone, Debug, Serialize)]
pub struct Cpu {
    /// Its number.
    pub cpu: usize,
    /// How it is taken away; none if it could not be measured.
    pub model: Option<Model>,
    /// The period in milliseconds: of the slots, or of the limit.
    pub period_ms: Option<f64>,
    /// How much of the period is ours, from 0 to 1.
    pub share: Option<f64>,
    /// The standard deviation of the slots' beginnings as a share of the period: around set times, or, where the slots have no phase, around
    /// a period after the beginning before.
    pub jitter: Option<f64>,
    /// The standard error of `period_ms`, in milliseconds.
    pub period_error_ms: Option<f64>,
    /// When our share begins, in milliseconds after `reference_ns`, less than a period.
    pub phase_ms: Option<f64>,
    /// How sure it is, from 0 to 1; the comparison method does not say.
    pub confidence: Option<f64>,
    /// How much later its share begins than that of the first CPU with slots, from minus half a period to half of one, in milliseconds.
    pub offset_ms: Option<f64>,
    /// The standard error of `phase_ms`, in milliseconds.
    pub phase_error_ms: Option<f64>,
    /// Why the model is what it is, or why there is none.
    pub why: String,
    /// The slots in full; none without a phase.
    pub slots: Option<Slots>,
    /// What the detector saw.
    pub seen: Option<Periodicity>,
    /// Whether the probe was a real-time thread.
    pub is_real_time: bool,
    /// How gaps were told apart.
    pub labels: Option<Labels>,
    /// The lengths of all gaps, by who took the CPU.
    pub gaps: Vec<Samples>,
    /// What is missing.
    pub lost: Lost,
}

/// Measures.
///
/// # Errors
/// If a CPU may not be used by this process, or [`Class::Fifo`] is asked for and refused.
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
            Method::Siege => siege::run(cpu, watch).map(|(is_real_time, said)| as_siege(cpu, is_real_time, said)),
        }
    };
    // A thread for each CPU: what it sets of itself ends with it.
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
    result
        .unwrap_or_else(|_| Err(MeterError::not_possible("measure a CPU", "its thread ended before it said anything")))
}

/// All gaps of one CPU, folded.
fn fold(cpu: usize, settings: &Settings, place: Option<&CpuLimit>, watch: &Watch<'_>) -> Result<Cpu, MeterError> {
    let before = place.map(limit_now).filter(|limit| limit.quota_ns < limit.period_ns);
    // A limit does not hold for real-time threads: only an ordinary one meets it.
    let class = if before.is_some() && settings.class == Class::Auto { Class::Ordinary } else { settings.class };
    let watched = match probe::watch(cpu, class, settings.threshold_ns, settings.duration_ns, watch) {
        // A CPU that is offline by now is told of, and the others are measured.
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
    Ok(told(cpu, said, limit, watched))
}

/// The limit, with how often it has run out so far.
fn limit_now(place: &CpuLimit) -> Limit {
    Limit { quota_ns: place.quota_ns, period_ns: place.period_ns, throttled: place.throttled().times }
}

fn told(cpu: usize, said: Periodicity, limit: Option<Limit>, watched: Watched) -> Cpu {
    let bucket = limit.filter(|_| said.model == Model::TokenBucket);
    let (period_ns, share) = match (said.period, bucket) {
        (Some(period), _) => (Some(period.period_ns), Some(period.share)),
        (None, Some(limit)) => (Some(limit.period_ns as f64), Some(limit.quota_ns as f64 / limit.period_ns as f64)),
        (None, None) => (None, Some(1.0 - said.lost_share).filter(|_| said.watched_ns > 0)),
    };
    let mut lost = Lost::of(watched.not_kept, "more gaps than are kept");
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
        // Times that wander say nothing of the next minute.
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

fn as_siege(cpu: usize, is_real_time: bool, said: Option<siege::Said>) -> Cpu {
    let mut told = Cpu { is_real_time, ..Cpu::unmeasured(cpu, "no gap of 1 ms within 50 ms") };
    told.model = Some(Model::None);
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
        told.model = Some(Model::FixedSlot);
        told.why = format!("the first gap over 1 ms was {:.2} ms", said.gap_ns / MS);
        told.period_ms = slots.map(|slots| slots.period_ns / MS);
        told.share = slots.map(|slots| slots.share);
        told.slots = slots;
    }
    told
}

impl Cpu {
    fn unmeasured(cpu: usize, why: &str) -> Cpu {
        Cpu {
            cpu,
            model: None,
            period_ms: None,
            share: None,
            jitter: None,
            period_error_ms: None,
            phase_ms: None,
            confidence: None,
            offset_ms: None,
            phase_error_ms: None,
            why: why.to_owned(),
            slots: None,
            seen: None,
            is_real_time: false,
            labels: None,
            gaps: Vec::new(),
            lost: Lost::default(),
        }
    }
}

#[cfg(test)]
mod tests;
