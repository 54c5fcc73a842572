//! The report of the quantum meter.

use evenkeel_stats::periodicity::{Count, Model, Periodicity, Slots};
use serde::Serialize;

use super::probe::Labels;
use super::settings::Method;
use crate::{Lost, Samples};

pub(super) const MS: f64 = 1e6;

/// The report of the quantum meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The method.
    pub method: Method,
    /// Which gaps counted: those from outside the guest, or all.
    pub count: Count,
    /// When the measurement began, on the monotonic clock in nanoseconds. `phase_ms` refers to this time.
    pub reference_ns: u64,
    /// The tightest CPU limit on this process. None without a limit.
    pub limit: Option<LimitSeen>,
    /// The result of each CPU.
    pub cpus: Vec<Cpu>,
}

/// A limit, and the place where it is set.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitSeen {
    /// CPU time per period, in milliseconds.
    pub quota_ms: f64,
    /// The period in milliseconds.
    pub period_ms: f64,
    /// The control group's folder.
    pub folder: String,
}

/// The result of one CPU.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// The CPU's number.
    pub cpu: usize,
    /// How the CPU is taken away. None if this CPU could not be measured.
    pub model: Option<Model>,
    /// The period of the slots or of the limit, in milliseconds.
    pub period_ms: Option<f64>,
    /// The available share of the period, from 0 to 1.
    pub share: Option<f64>,
    /// The standard deviation of the slot starts as a share of the period.
    /// Starts are compared with fixed times or, for slots without a phase, with one period after the previous start.
    pub jitter: Option<f64>,
    /// The standard error of `period_ms`, in milliseconds.
    pub period_error_ms: Option<f64>,
    /// When the guest's slice begins, in milliseconds after `reference_ns`. The value is less than a period.
    pub phase_ms: Option<f64>,
    /// The confidence, from 0 to 1. The comparison method reports none.
    pub confidence: Option<f64>,
    /// The offset of the CPU's slice from the slice of the first CPU with slots, from minus half a period to half a period, in milliseconds.
    pub offset_ms: Option<f64>,
    /// The standard error of `phase_ms`, in milliseconds.
    pub phase_error_ms: Option<f64>,
    /// Why this model was chosen, or why no model fits.
    pub why: String,
    /// All details of the slots. None without a phase.
    pub slots: Option<Slots>,
    /// The detector's figures.
    pub seen: Option<Periodicity>,
    /// Whether the probe was a real-time thread.
    pub is_real_time: bool,
    /// How the probe distinguished the causes of gaps.
    pub labels: Option<Labels>,
    /// The lengths of all gaps, by who took the CPU.
    pub gaps: Vec<Samples>,
    /// Gaps that were not recorded.
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
