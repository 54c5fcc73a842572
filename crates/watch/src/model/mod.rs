//! `Model`: what happened between two samples. It is a pure function of the samples, so stored samples give the same model as live ones.

mod devices;
mod gaps;
mod host;
mod server;
mod span;
mod ticks;

use evenkeel_host::catalogue;
use evenkeel_host::credits::{CreditBalance, CreditRates};
use evenkeel_hostfs::proc::{CpuTicks, TICK_NS};
use evenkeel_measure::meters::rates::Measured;
use serde::Serialize;

pub use devices::{DiskModel, InterfaceModel};
pub use gaps::{CpuGaps, GapsModel, PauseModel};
pub use host::{
    CpuModel, CpuUse, GroupModel, GroupsModel, HostModel, IdleModel, MemoryModel, SoftnetRates, SourceRate,
    StallShares, UdpRates,
};
pub use server::{ServerModel, SocketsModel, ThreadModel};
pub use ticks::{CountedBy, Durations, TicksModel};

use crate::ledger::totals_of;
use crate::sample::{
    CreditsSample, DriftSample, LateTicks, RecorderSample, Sample, ServerSample, SettingsSample, Unreadable,
};
use span::{Span, both};

/// What happened between two samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Model {
    /// When the later sample was taken, in nanoseconds since 1970 UTC.
    pub at_realtime_ns: u64,
    /// The time between the samples in nanoseconds, without the time in suspension. 0 if it is unknown.
    pub elapsed_ns: u64,
    /// The time that the machine was suspended between the samples, in nanoseconds.
    pub suspended_ns: u64,
    /// The collector's own cost.
    pub collector: CollectorModel,
    /// The host.
    pub host: HostModel,
    /// The missing time of CPUs. None unless the gap meter runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Measured<GapsModel>>,
    /// The servers.
    pub servers: Vec<ServerModel>,
    /// The number of further servers that are not watched because of the limit.
    pub servers_beyond: usize,
    /// The late ticks between the samples, with their causes.
    pub late_ticks: Vec<LateTicks>,
    /// The comparison of applied settings with the host, and the audit's findings.
    pub settings: Measured<SettingsModel>,
    /// The CPU credits. `null` if the instance is not burstable, or if its type is unknown.
    pub credits: Option<CreditsModel>,
    /// The state of the flight recorder. None unless it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorder: Option<RecorderSample>,
    /// The files that this user may not read, each with the command that gives access.
    pub unreadable: Vec<Unreadable>,
    /// The later sample, whose counters are exported to Prometheus.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub sample: Sample,
}

/// The collector's own cost and delay.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectorModel {
    /// How much later than due the later sample was read, in nanoseconds. None if unknown.
    pub late_ns: Option<u64>,
    /// The collector's CPU time as a share of one CPU.
    pub cpu: Measured<f64>,
    /// How long the collector was ready but did not run, in seconds per second.
    pub run_delay: Measured<f64>,
}

/// The comparison of applied settings with the host, and the audit's findings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingsModel {
    /// How long ago the host was compared with the journal, in nanoseconds.
    pub verified_ago_ns: u64,
    /// The number of applied values that are still in effect. `null` if the journal could not be read.
    pub holds: Option<usize>,
    /// Applied values and files that have changed since.
    pub drift: Vec<DriftSample>,
    /// The number of further changes that are not listed.
    pub drift_beyond: usize,
    /// Why the journal could not be read. None if it was read.
    pub why_unknown: Option<String>,
    /// The number of the audit's findings by level, when the collector started.
    pub findings: std::collections::BTreeMap<String, usize>,
}

/// The CPU credits of a burstable instance: computed from its start on, by the rules of its cloud and its CPU use.
/// Only the cloud knows the true balance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreditsModel {
    /// The instance type.
    pub instance_type: String,
    /// The computed balance. A balance below 0 is the number of credits that were spent without being earned.
    pub balance: f64,
    /// Whether the instance continues without credits at an extra charge.
    pub is_unlimited: bool,
    /// The CPU use, in CPUs.
    pub cpus: Measured<f64>,
    /// The minutes until the credits run out at this use. `null` if they do not.
    pub minutes_left: Measured<Option<f64>>,
    /// The stolen share of the time of all CPUs.
    /// If the share is far above 0 and there are no credits, the cloud limits the instance to its baseline.
    pub steal: Measured<f64>,
}

impl Model {
    /// What happened between two samples of one host.
    pub fn from_samples(before: &Sample, after: &Sample) -> Model {
        let span = Span::between(before, after);
        let host = host::host(&before.host, &after.host, span);
        let groups = before.host.groups.as_ref().ok().zip(after.host.groups.as_ref().ok());
        let servers = after.servers.iter().map(|now| {
            let then = before.servers.iter().find(|then| is_same(then, now));
            let causes = totals_of(after, &now.name, now.pid).collect();
            let at = server::Both { before: then, after: now, at_ns: (before.at.monotonic_ns, after.at.monotonic_ns) };
            server::server(at, groups, causes, after.asked, span)
        });
        let boottime_ns = after.at.boottime_ns.saturating_sub(before.at.boottime_ns);
        let of_thread = |name: &str, before: u64, after: u64| span.share(name, before, after, 1);
        let delay = before.collector.run_delay_ns.zip(after.collector.run_delay_ns);
        Model {
            at_realtime_ns: after.at.realtime_ns,
            elapsed_ns: span.elapsed_ns(),
            suspended_ns: suspended_ns(boottime_ns, span.elapsed_ns()),
            collector: CollectorModel {
                late_ns: after.collector.late_ns,
                cpu: of_thread("the collector's CPU time", before.collector.cpu_ns, after.collector.cpu_ns),
                run_delay: match delay {
                    Some((before, after)) => of_thread("the collector's run-queue delay", before, after),
                    None => Measured::absent("this kernel does not count run-queue delay of threads"),
                },
            },
            gaps: after.gaps.as_ref().map(|now| gaps::gaps(before.gaps.as_ref(), now, after)),
            servers: servers.collect(),
            servers_beyond: after.servers_beyond,
            late_ticks: after.ledger.new.clone(),
            settings: match &after.settings {
                Some(settings) => Measured::Known(settings_of(settings, after.at.monotonic_ns)),
                None => Measured::absent("the settings were not read"),
            },
            credits: after.credits.as_ref().map(|credits| credits_of(credits, before, after, &host, span)),
            host,
            recorder: after.recorder.clone(),
            unreadable: after.unreadable.clone(),
            sample: after.clone(),
        }
    }
}

/// How long the machine was suspended.
/// The clocks are read in turn, so a difference of some milliseconds counts as 0. No suspension is so short.
fn suspended_ns(boottime_ns: u64, elapsed_ns: u64) -> u64 {
    const LEAST_NS: u64 = 100_000_000;
    Some(boottime_ns.saturating_sub(elapsed_ns)).filter(|ns| elapsed_ns > 0 && *ns >= LEAST_NS).unwrap_or(0)
}

/// Whether two samples are of the same server. The name is compared too, because one process may serve several sessions.
fn is_same(one: &ServerSample, other: &ServerSample) -> bool {
    one.pid == other.pid
        && one.telemetry.is_some() == other.telemetry.is_some()
        && (one.telemetry.is_none() || one.name == other.name)
}

fn settings_of(settings: &SettingsSample, now_ns: u64) -> SettingsModel {
    SettingsModel {
        verified_ago_ns: now_ns.saturating_sub(settings.verified_ns),
        holds: settings.why_unknown.is_none().then_some(settings.holds),
        drift: settings.drift.clone(),
        drift_beyond: settings.drift_beyond,
        why_unknown: settings.why_unknown.clone(),
        findings: settings.findings.clone(),
    }
}

fn credits_of(credits: &CreditsSample, before: &Sample, after: &Sample, host: &HostModel, span: Span) -> CreditsModel {
    let cpus = both(&before.host.stat, &after.host.stat).and_then(|(before, after)| {
        let busy =
            |stat: &crate::sample::StatSample| stat.cpus.values().map(CpuTicks::busy).fold(0, u64::saturating_add);
        span.share("CPU time", busy(before), busy(after), TICK_NS)
    });
    let rates = catalogue::instance(&credits.instance_type).as_ref().and_then(CreditRates::from_instance);
    let minutes_left = match rates {
        Some(rates) => cpus.and_then(|cpus| {
            let balance = CreditBalance::new(&rates, credits.balance);
            Measured::Known(balance.lasts_s(&rates, *cpus).map(|seconds| seconds / 60.0))
        }),
        None => Measured::absent("the catalogue has no credits of this type"),
    };
    CreditsModel {
        instance_type: credits.instance_type.clone(),
        balance: credits.balance,
        is_unlimited: credits.is_unlimited,
        cpus,
        minutes_left,
        steal: host.all.and_then(|all| Measured::Known(all.steal)),
    }
}
