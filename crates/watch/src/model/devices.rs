//! Network interfaces and disks between two samples.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::DiskCounts;
use evenkeel_measure::meters::rates::Measured;
use serde::Serialize;

use super::span::Span;
use crate::sample::InterfaceSample;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the names say it")]
pub struct InterfaceModel {
    pub name: String,
    pub rx_bytes_per_s: Measured<f64>,
    pub rx_packets_per_s: Measured<f64>,
    /// Received packets that the kernel or the driver dropped.
    pub rx_drops_per_s: Measured<f64>,
    pub tx_bytes_per_s: Measured<f64>,
    pub tx_packets_per_s: Measured<f64>,
    /// Packets that were to be sent but were dropped.
    pub tx_drops_per_s: Measured<f64>,
    /// Packets that the cloud dropped or delayed because the instance exceeded an allowance. The keys are the driver's names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allowances_per_s: BTreeMap<String, Measured<f64>>,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the names say it")]
pub struct DiskModel {
    pub name: String,
    pub reads_per_s: Measured<f64>,
    pub read_bytes_per_s: Measured<f64>,
    pub writes_per_s: Measured<f64>,
    pub written_bytes_per_s: Measured<f64>,
    /// The share of the time in which the disk had at least one request.
    pub busy: Measured<f64>,
    /// The mean time of a request, in milliseconds. `null` without a request.
    pub request_ms_mean: Measured<Option<f64>>,
}

/// `was_cut`: whether the earlier sample had interfaces that were not listed.
pub(super) fn interfaces(
    before: &BTreeMap<String, InterfaceSample>,
    after: &BTreeMap<String, InterfaceSample>,
    was_cut: bool,
    span: Span,
) -> Vec<InterfaceModel> {
    let one = |(name, now): (&String, &InterfaceSample)| {
        let then = before.get(name);
        let of = |what: &str, of: fn(&InterfaceSample) -> u64| match then {
            Some(then) => span.per_s(what, of(then), of(now)),
            None if was_cut => Measured::absent(NOT_LISTED),
            None => Measured::absent("the interface is new"),
        };
        let allowance = |(of, count): (&String, &u64)| {
            let then = then.and_then(|then| then.allowances.get(of).copied());
            (of.clone(), span.maybe_per_s(of, then, Some(*count)))
        };
        InterfaceModel {
            name: name.clone(),
            rx_bytes_per_s: of("received bytes", |one| one.rx_bytes),
            rx_packets_per_s: of("received packets", |one| one.rx_packets),
            rx_drops_per_s: of("dropped received packets", |one| one.rx_drops),
            tx_bytes_per_s: of("sent bytes", |one| one.tx_bytes),
            tx_packets_per_s: of("sent packets", |one| one.tx_packets),
            tx_drops_per_s: of("dropped sent packets", |one| one.tx_drops),
            allowances_per_s: now.allowances.iter().map(allowance).collect(),
        }
    };
    after.iter().map(one).collect()
}

/// `was_cut`: whether the earlier sample had disks that were not listed.
pub(super) fn disks(
    before: &BTreeMap<String, DiskCounts>,
    after: &BTreeMap<String, DiskCounts>,
    was_cut: bool,
    span: Span,
) -> Vec<DiskModel> {
    let one = |(name, now): (&String, &DiskCounts)| {
        // If a disk was not used before the earlier sample, that sample does not have it.
        let then = before.get(name).copied().or_else(|| (!was_cut).then(DiskCounts::default));
        let Some(then) = then else { return not_listed(name) };
        let of = |what: &str, of: fn(&DiskCounts) -> u64| span.per_s(what, of(&then), of(now));
        let requests = |disk: &DiskCounts| disk.reads.saturating_add(disk.writes);
        let request_ms = |disk: &DiskCounts| disk.read_ms.saturating_add(disk.write_ms);
        let mean = span.increase("requests", requests(&then), requests(now)).and_then(|requests| {
            let waited = span.increase("time of requests", request_ms(&then), request_ms(now));
            waited.map(|ms| (*requests > 0).then(|| ms as f64 / *requests as f64))
        });
        DiskModel {
            name: name.clone(),
            reads_per_s: of("reads", |disk| disk.reads),
            read_bytes_per_s: of("read bytes", |disk| disk.read_bytes),
            writes_per_s: of("writes", |disk| disk.writes),
            written_bytes_per_s: of("written bytes", |disk| disk.written_bytes),
            busy: span.share("busy time", then.busy_ms, now.busy_ms, 1_000_000),
            request_ms_mean: mean,
        }
    };
    after.iter().map(one).collect()
}

const NOT_LISTED: &str = "it was not among the listed ones at the sample before";

fn not_listed(name: &str) -> DiskModel {
    let unknown = || Measured::absent(NOT_LISTED);
    DiskModel {
        name: name.to_owned(),
        reads_per_s: unknown(),
        read_bytes_per_s: unknown(),
        writes_per_s: unknown(),
        written_bytes_per_s: unknown(),
        busy: unknown(),
        request_ms_mean: Measured::absent(NOT_LISTED),
    }
}
