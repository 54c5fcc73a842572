//! What was seen.

use evenkeel_stats::periodicity::{Count, Model, Periodicity, Slots};
use serde::Serialize;

use super::probe::Labels;
use super::settings::Method;
use crate::{Lost, Samples};

pub(super) const MS: f64 = 1e6;

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

impl Cpu {
    pub(super) fn unmeasured(cpu: usize, why: &str) -> Cpu {
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
