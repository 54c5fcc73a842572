//! The last samples as small points, for the page's charts.

use std::collections::VecDeque;

use axum::body::Bytes;
use evenkeel_watch::Model;
use evenkeel_watch::model::{CpuModel, InterfaceModel, ServerModel};
use evenkeel_watch::sample::{Cause, LateTicks};
use serde::Serialize;

/// The duration of three steps of a CPU time counter.
const COUNTER_STEPS_NS: f64 = 30e6;

/// The part of one sample that a chart draws. Unknown numbers are `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    /// Milliseconds since 1970 UTC.
    pub(super) at_ms: u64,
    /// The time since the previous sample, in milliseconds.
    elapsed_ms: f64,
    /// The delay of the sample after its due time, in milliseconds. A delay means that the machine was busy, or paused.
    late_ms: Option<f64>,
    cpus: Vec<CpuPoint>,
    servers: Vec<ServerPoint>,
    drops: DropsPoint,
}

/// A CPU: shares of the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct CpuPoint {
    cpu: usize,
    busy: Option<f64>,
    /// The share that the hypervisor took, or that was not counted at all: the CPU was absent.
    missing: Option<f64>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ServerPoint {
    name: String,
    pid: Option<u32>,
    cpu: Option<f64>,
    ticks_per_s: Option<f64>,
    lateness_us_p50: Option<f64>,
    lateness_us_p99: Option<f64>,
    lateness_us_max: Option<f64>,
    /// Ticks later than the bound.
    late: Option<u64>,
    missed_per_s: Option<f64>,
    /// The late and missed ticks since the previous point, with the most frequent cause.
    late_ticks: Option<LatePoint>,
}

/// Why ticks were late.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct LatePoint {
    count: u64,
    cause: Cause,
    evidence: String,
}

/// Lost packets in a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct DropsPoint {
    /// Datagrams that arrived when the buffer of a socket was full.
    udp_buffers: Option<f64>,
    /// Packets that arrived when the queue of a CPU was full.
    backlog: Option<f64>,
    /// Packets that interfaces dropped.
    interfaces: Option<f64>,
}

impl Point {
    pub(super) fn from_model(model: &Model) -> Point {
        let (host, ms) = (&model.host, |ns: u64| round(ns as f64 / 1e6));
        let step = COUNTER_STEPS_NS / (model.elapsed_ns as f64).max(1.0);
        let drops =
            |interface: &InterfaceModel| Some(interface.rx_drops_per_s.known()? + interface.tx_drops_per_s.known()?);
        let interfaces = host.interfaces.known();
        Point {
            at_ms: model.at_realtime_ns / 1_000_000,
            elapsed_ms: ms(model.elapsed_ns),
            late_ms: model.collector.late_ns.map(ms),
            cpus: host
                .cpus
                .known()
                .map(|cpus| cpus.iter().map(|one| cpu(one, step, model)).collect())
                .unwrap_or_default(),
            servers: model.servers.iter().map(|one| server(one, &model.late_ticks)).collect(),
            drops: DropsPoint {
                udp_buffers: host.udp.receive_buffer_errors_per_s.known().copied().map(round),
                backlog: host.softnet.dropped_per_s.known().copied().map(round),
                interfaces: interfaces.and_then(|all| all.iter().map(drops).sum::<Option<f64>>()).map(round),
            },
        }
    }
}

/// `step` is the share of the interval by which the kernel's counters may lag, since they move in steps.
fn cpu(cpu: &CpuModel, step: f64, model: &Model) -> CpuPoint {
    let time = cpu.time.known();
    let gaps = model.gaps.as_ref().and_then(|gaps| gaps.known());
    let of_cpu = gaps.and_then(|gaps| gaps.cpus.iter().find(|one| one.cpu == cpu.cpu));
    let by_nobody = of_cpu.and_then(|one| one.by_nobody.known().copied());
    CpuPoint {
        cpu: cpu.cpu,
        busy: time.map(|time| round(time.busy())),
        missing: time.map(|time| {
            let counted = (time.steal + (1.0 - time.counted - step).max(0.0)).min(1.0);
            round(counted.max(by_nobody.unwrap_or(0.0)))
        }),
    }
}

fn server(server: &ServerModel, late: &[LateTicks]) -> ServerPoint {
    let ticks = server.ticks.known();
    let lateness = ticks.and_then(|ticks| ticks.lateness.known());
    ServerPoint {
        name: server.name.clone(),
        pid: server.pid,
        cpu: server.cpu.known().copied().map(round),
        ticks_per_s: ticks.and_then(|ticks| ticks.ticks_per_s.known().copied()).map(round),
        lateness_us_p50: lateness.map(|lateness| round(lateness.us_p50)),
        lateness_us_p99: lateness.map(|lateness| round(lateness.us_p99)),
        lateness_us_max: lateness.map(|lateness| round(lateness.us_max)),
        late: ticks.and_then(|ticks| ticks.late.known().copied()),
        late_ticks: late_point(server, late),
        missed_per_s: ticks.and_then(|ticks| ticks.missed_per_s.known().copied()).map(round),
    }
}

/// The late ticks of a server. The cause is the most frequent one. The evidence also names the other causes.
fn late_point(server: &ServerModel, late: &[LateTicks]) -> Option<LatePoint> {
    let mut own: Vec<&LateTicks> =
        late.iter().filter(|late| late.server == server.name && late.pid == server.pid).collect();
    let count = |late: &LateTicks| late.late.saturating_add(late.missed);
    own.sort_by_key(|late| std::cmp::Reverse(count(late)));
    let (first, others) = own.split_first()?;
    let mut evidence = first.evidence.clone();
    for other in others {
        evidence.push_str(&format!("; {} {}: {}", count(other), other.cause.name(), other.evidence));
    }
    let all = own.iter().map(|late| count(late)).fold(0, u64::saturating_add);
    Some(LatePoint { count: all, cause: first.cause, evidence })
}

/// Rounds to three decimals, because a chart can show no more.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The last points, each as JSON. All clients share them.
#[derive(Debug)]
pub(super) struct History {
    points: VecDeque<(u64, Bytes)>,
    points_max: usize,
}

impl History {
    pub(super) fn new(points_max: usize) -> History {
        History { points: VecDeque::new(), points_max }
    }

    pub(super) fn add(&mut self, point: &Point) {
        // Strings and finite numbers are always valid JSON.
        let Ok(json) = serde_json::to_vec(point) else { return };
        // If the clock was set back, the later points are from a time that is still to come. A reader that asks for newer points would
        // get none until then.
        self.points.retain(|(at_ms, _)| *at_ms < point.at_ms);
        if self.points.len() >= self.points_max {
            self.points.pop_front();
        }
        self.points.push_back((point.at_ms, Bytes::from(json)));
    }

    /// The points later than a time, the oldest first, each as JSON.
    pub(super) fn since(&self, since_ms: u64) -> Vec<Bytes> {
        self.points.iter().filter(|(at_ms, _)| *at_ms > since_ms).map(|(_, json)| json.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_ms: u64) -> Point {
        let drops = DropsPoint { udp_buffers: None, backlog: Some(1.0), interfaces: None };
        Point { at_ms, elapsed_ms: 1.0, late_ms: None, cpus: Vec::new(), servers: Vec::new(), drops }
    }

    #[test]
    fn the_newest_points_are_held_in_order() {
        let mut history = History::new(3);
        let times = |history: &History, since_ms: u64| -> Vec<u64> {
            let parsed = |json: Bytes| serde_json::from_slice::<serde_json::Value>(&json).unwrap();
            history.since(since_ms).into_iter().map(|json| parsed(json)["at_ms"].as_u64().unwrap()).collect()
        };
        [10, 20, 30, 40].into_iter().for_each(|at_ms| history.add(&point(at_ms)));
        assert_eq!((times(&history, 0), times(&history, 30)), (vec![20, 30, 40], vec![40]));
        // The clock was set back.
        history.add(&point(25));
        assert_eq!(times(&history, 0), [20, 25]);
    }
}
