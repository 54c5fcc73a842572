//! `Sample`: the raw counters of one moment. If something cannot be read, its field has the reason.
//! The store contains samples. So a new field needs a default, and no field may change its meaning.

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
    /// The time of the sample.
    pub at: Moment,
    /// Whether the root is a running machine. A captured root always has the counters of the same moment.
    pub is_live: bool,
    /// The options of the collector, so that a stored sample is evaluated in the same way.
    pub asked: Asked,
    /// The collector's own cost and delay.
    pub collector: CollectorSample,
    /// The host.
    pub host: HostSample,
    /// The servers. Servers with a telemetry page come first, sorted by name. Then come the servers that the user named.
    pub servers: Vec<ServerSample>,
    /// The number of further servers that are not watched because of the limit.
    #[serde(default)]
    pub servers_beyond: usize,
    /// The comparison of applied settings with the host, and the audit's findings. None if this root has neither.
    pub settings: Option<SettingsSample>,
    /// The CPU credits. None unless the instance is burstable.
    pub credits: Option<CreditsSample>,
    /// The late ticks, with their causes.
    #[serde(default)]
    pub ledger: LedgerSample,
    /// The missing time of CPUs. None unless the gap meter runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Counted<GapsSample>>,
    /// The state of the flight recorder. None unless it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<RecorderSample>,
    /// The files that could not be read, each listed once, with the command that gives access.
    pub unreadable: Vec<Unreadable>,
}

/// A time on three clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The monotonic clock, which stands still while the machine is suspended. Rates are computed with this clock.
    pub monotonic_ns: u64,
    /// The monotonic clock plus the time in suspension.
    pub boottime_ns: u64,
    /// The time since 1970 UTC. This clock may be set at any time.
    pub realtime_ns: u64,
}

/// The options of the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The time between two samples, in nanoseconds.
    pub interval_ns: u64,
    /// A tick is late if it begins this much after its due time. `None` means a quarter of the server's period.
    pub late_after_ns: Option<u64>,
}

/// The lateness from which a tick counts as late: the user's value, or a quarter of the period. None if neither is known.
pub(crate) fn late_bound_ns(late_after_ns: Option<u64>, period_ns: Option<u64>) -> Option<u64> {
    late_after_ns.or_else(|| period_ns.map(|period_ns| period_ns / 4))
}

/// The collector's own cost and delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorSample {
    /// How much later than due this sample was read. `None` for the first sample, and for captured hosts.
    pub late_ns: Option<u64>,
    /// The CPU time of the collector's thread so far, in nanoseconds.
    pub cpu_ns: u64,
    /// How long the collector's thread was ready but did not run so far, in nanoseconds, as the kernel counts it.
    pub run_delay_ns: Option<u64>,
}

/// The comparison of applied settings with the host, and the audit's findings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsSample {
    /// When the host was last compared with the journal, on the monotonic clock.
    pub verified_ns: u64,
    /// The number of applied values that are still in effect.
    pub holds: usize,
    /// Applied values and files that have changed since.
    pub drift: Vec<DriftSample>,
    /// The number of further changes that are not listed.
    pub drift_beyond: usize,
    /// Why the journal could not be read. None if it was read.
    pub why_unknown: Option<String>,
    /// The number of the audit's findings by level (`set`, `owned-by`, `blocked`, `unknown`), when the collector started.
    pub findings: std::collections::BTreeMap<String, usize>,
}

/// An applied value that is no longer in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriftSample {
    /// The knob's id.
    pub knob: String,
    /// The place of the setting.
    pub place: String,
    /// The value that was applied.
    pub wanted: String,
    /// The current value, or why it is unknown.
    pub found: String,
    /// The command that applies the value again.
    pub mend: String,
}

/// The CPU credits of a burstable instance, computed by the rules that its cloud documents. Only the cloud knows the true balance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreditsSample {
    /// The instance type.
    pub instance_type: String,
    /// The computed balance in credits. One credit is one minute of one CPU. Below 0, the instance owes credits.
    pub balance: f64,
    /// Whether the instance continues without credits at an extra charge. This is the cloud's default for the instance type.
    pub is_unlimited: bool,
}

/// A file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unreadable {
    /// Which values are missing because of this.
    pub what: String,
    /// The reason, with the path of the file.
    pub why: String,
    /// The command that gives access. `null` if no command can give access on this machine.
    pub mend: Option<String>,
}
