//! `Model`: what happened between two samples. A pure function makes it, so a stored sample gives the same answer as a live one.

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
    /// The time between the samples, in nanoseconds, without suspension; 0 if it is unknown.
    pub elapsed_ns: u64,
    /// The time that the machine was suspended between the samples, in nanoseconds.
    pub suspended_ns: u64,
    /// The collector's measurements of itself.
    pub collector: CollectorModel,
    /// The host.
    pub host: HostModel,
    /// The missing time of CPUs, if the meter runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Measured<GapsModel>>,
    /// The servers.
    pub servers: Vec<ServerModel>,
    /// Number of further servers, which are not watched because of the limit.
    pub servers_beyond: usize,
    /// The late ticks between the samples, with their causes.
    pub late_ticks: Vec<LateTicks>,
    /// The settings that evenkeel applied, and its advice.
    pub settings: Measured<SettingsModel>,
    /// The CPU credits. `null` for an instance that is not burstable, or whose type is not known.
    pub credits: Option<CreditsModel>,
    /// The flight recorder, if it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorder: Option<RecorderSample>,
    /// What this user may not read, with the command that gives access.
    pub unreadable: Vec<Unreadable>,
    /// The later sample. Prometheus gets its counters.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub sample: Sample,
}

/// The collector's measurements of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectorModel {
    /// How late the later sample began, in nanoseconds after it was due.
    pub late_ns: Option<u64>,
    /// Its CPU time as a share of one CPU.
    pub cpu: Measured<f64>,
    /// How long it was ready but did not run, in seconds a second.
    pub run_delay: Measured<f64>,
}

/// The settings that evenkeel applied, and its advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingsModel {
    /// How long ago the host was compared with the journal, in nanoseconds.
    pub verified_ago_ns: u64,
    /// Applied values that still hold. `null` if the journal could not be read.
    pub holds: Option<usize>,
    /// Values and files that do not hold.
    pub drift: Vec<DriftSample>,
    /// Drifts that are not listed.
    pub drift_beyond: usize,
    /// Why the journal could not be read.
    pub why_unknown: Option<String>,
    /// The number of findings of the audit by level, when the collector started.
    pub findings: std::collections::BTreeMap<String, usize>,
}

/// The CPU credits of a burstable instance: a model from its start on, by the rules of its cloud and its mean use. Only the cloud knows the true
/// balance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreditsModel {
    /// The instance type.
    pub instance_type: String,
    /// The modelled balance. Below 0: credits that were spent without being earned.
    pub balance: f64,
    /// Whether the instance continues without credits, at a price.
    pub is_unlimited: bool,
    /// The CPUs that it used.
    pub cpus: Measured<f64>,
    /// The minutes until the credits run out at this use. `null` if they never do.
    pub minutes_left: Measured<Option<f64>>,
    /// Stolen time of all CPUs, as a share. Far above 0 without credits, the cloud holds the instance at its baseline.
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

/// The clocks are read one after the other, so a difference of milliseconds means nothing. No machine is suspended for so short a time.
fn suspended_ns(boottime_ns: u64, elapsed_ns: u64) -> u64 {
    const LEAST_NS: u64 = 100_000_000;
    Some(boottime_ns.saturating_sub(elapsed_ns)).filter(|ns| elapsed_ns > 0 && *ns >= LEAST_NS).unwrap_or(0)
}

/// One process may serve several sessions.
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
