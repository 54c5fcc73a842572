//! `Sample`: the raw counters of one moment. Whatever cannot be read carries its reason. A sample is what the store holds, so a field may
//! be added with a default, and none may change its meaning.

mod counted;
mod gaps;
mod host;
mod ledger;
mod outside;
mod recorder;
mod server;
mod telemetry;

use serde::{Deserialize, Serialize};

pub use counted::Counted;
pub use gaps::{CpuGapsSample, GapSample, GapsSample, PauseSample};
pub use host::{
    GroupSample, GroupsSample, HostSample, IdleSample, InterfaceSample, InterruptsSample, MemorySample, PagingSample,
    PressureSample, SoftnetSample, StatSample, UdpSample,
};
pub use ledger::{Cause, LateTicks, LedgerSample};
pub use outside::{DueSample, LateWas, OutsideLate, OutsideSample};
pub use recorder::RecorderSample;
pub use server::{FilesSample, ProcessSample, ServerSample, SocketSample, ThreadSums};
pub use telemetry::{HistogramSample, SlicesSample, TelemetrySample, TickSample, WaitKind, WaitSample, WaitsSample};

/// Everything that was read at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub at: Moment,
    /// Whether the root is a running machine. A captured one has the counters of one moment.
    pub is_live: bool,
    /// The requests to the collector, so that a stored sample is read in the same way.
    pub asked: Asked,
    /// The collector's measurements of itself.
    pub collector: CollectorSample,
    /// The host.
    pub host: HostSample,
    /// The servers: those with a page of telemetry by name, then those that the user named.
    pub servers: Vec<ServerSample>,
    /// Number of further servers, which are not watched because of the limit.
    #[serde(default)]
    pub servers_beyond: usize,
    /// The settings that evenkeel applied, and its advice, if this root has them.
    pub settings: Option<SettingsSample>,
    /// The CPU credits of a burstable instance.
    pub credits: Option<CreditsSample>,
    /// The late ticks with their causes.
    #[serde(default)]
    pub ledger: LedgerSample,
    /// The missing time of CPUs, if the meter runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Counted<GapsSample>>,
    /// The flight recorder, if it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<RecorderSample>,
    /// What could not be read, each once, with the command that gives access.
    pub unreadable: Vec<Unreadable>,
}

/// A moment on three clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The monotonic clock, which stands still while the machine is suspended. Rates are by this one.
    pub monotonic_ns: u64,
    /// The same with the time in suspension.
    pub boottime_ns: u64,
    /// Since 1970 UTC. This clock may be set at any time.
    pub realtime_ns: u64,
}

/// The requests to the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The time from one sample to the next, in nanoseconds.
    pub interval_ns: u64,
    /// A tick that begins this much after it was due is late. `None` means a quarter of the server's period.
    pub late_after_ns: Option<u64>,
}

/// The bound of a late tick: from the user, or a quarter of the period.
pub(crate) fn late_bound_ns(late_after_ns: Option<u64>, period_ns: Option<u64>) -> Option<u64> {
    late_after_ns.or_else(|| period_ns.map(|period_ns| period_ns / 4))
}

/// The collector's measurements of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorSample {
    /// How long after the time that it was due this sample began. `None` for the first one, and for captured hosts.
    pub late_ns: Option<u64>,
    /// The CPU time of its thread so far, in nanoseconds.
    pub cpu_ns: u64,
    /// How long its thread was ready but did not run so far, in nanoseconds, as the kernel counts it.
    pub run_delay_ns: Option<u64>,
}

/// The settings that evenkeel applied, and its advice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsSample {
    /// When the host was last compared with the journal, on the monotonic clock.
    pub verified_ns: u64,
    /// Applied values that hold.
    pub holds: usize,
    /// Values and files that do not hold.
    pub drift: Vec<DriftSample>,
    /// Number of further drifts, beyond the maximum.
    pub drift_beyond: usize,
    /// Why the journal could not be read.
    pub why_unknown: Option<String>,
    /// The findings of the audit by level (`set`, `owned-by`, `blocked`, `unknown`), at the start.
    pub findings: std::collections::BTreeMap<String, usize>,
}

/// A value that was applied and does not hold any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriftSample {
    /// The knob's id.
    pub knob: String,
    /// The place.
    pub place: String,
    /// The value applied.
    pub wanted: String,
    /// The value found, or why it is unknown.
    pub found: String,
    /// The command that applies it again.
    pub mend: String,
}

/// The CPU credits of a burstable instance, by the rules that its cloud documents. Only the cloud knows the true balance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreditsSample {
    /// The instance type.
    pub instance_type: String,
    /// The modelled balance, in credits: a credit is one minute of one CPU. Below 0, the instance owes credits.
    pub balance: f64,
    /// Whether the instance continues without credits. The cloud's default for the type.
    pub is_unlimited: bool,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unreadable {
    /// What is missing in the answers.
    pub what: String,
    /// The reason, with the path.
    pub why: String,
    /// The command that gives access. `null` if no command does on this machine.
    pub mend: Option<String>,
}
