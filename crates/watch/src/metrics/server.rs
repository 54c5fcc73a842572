//! The metrics of servers. Metrics of ticks have the same names as the metrics in a server's own telemetry page.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::TICK_NS;
use evenkeel_sys::telemetry::layout::BOUNDS_NS;

use super::family::{Family, Labels, Value};
use crate::ledger::totals_of;
use crate::model::Model;
use crate::sample::{Cause, HistogramSample, ProcessSample, Sample, ServerSample, TelemetrySample, ThreadSums};

/// The indices of the bounds that are exported, within each power of ten: 1, 2 and 5. `BOUNDS_NS` has twenty bounds per power of ten.
const PRINTED: [usize; 3] = [0, 6, 14];
const A_TENFOLD: usize = 20;

pub(super) fn families(model: &Model) -> Vec<Family> {
    let servers = &model.sample.servers;
    let mut families = processes(servers);
    families.extend(sessions(servers));
    families.push(causes(&model.sample));
    families
}

fn labels(server: &ServerSample) -> Labels {
    let pid = server.pid.map_or_else(String::new, |pid| pid.to_string());
    vec![("server", server.name.clone()), ("pid", pid)]
}

fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.to_owned()));
    labels
}

fn processes(servers: &[ServerSample]) -> Vec<Family> {
    let of = |of: fn(&ProcessSample) -> Option<f64>| {
        servers.iter().map(move |server| (labels(server), server.process.as_ref().ok().and_then(of)))
    };
    let sums = |server: &ServerSample| server.process.as_ref().ok()?.thread_sums.as_ref().ok().copied();
    let switches = servers.iter().flat_map(|server| {
        let of = |kind: &str, of: fn(&ThreadSums) -> u64| {
            (with(labels(server), "kind", kind), sums(server).map(|sums| of(&sums)))
        };
        [of("voluntary", |sums| sums.voluntary_switches), of("involuntary", |sums| sums.involuntary_switches)]
    });
    let faults = servers.iter().flat_map(|server| {
        let process = server.process.as_ref().ok();
        let of = |kind: &str, of: fn(&ProcessSample) -> u64| (with(labels(server), "kind", kind), process.map(of));
        [of("minor", |process| process.minor_faults), of("major", |process| process.major_faults)]
    });
    let sockets = |of: fn(&crate::sample::SocketSample) -> u64| {
        servers.iter().flat_map(move |server| {
            server.sockets.iter().flatten().map(move |socket| {
                let labels = with(labels(server), "port", &socket.port.to_string());
                (with(labels, "inode", &socket.inode.to_string()), Some(of(socket)))
            })
        })
    };
    vec![
        Family::gauge("evenkeel_server_up", "Whether the process of a watched server can be seen.")
            .many(servers.iter().map(|server| (labels(server), Some(u64::from(server.process.is_ok()))))),
        Family::counter("evenkeel_server_cpu", "CPU time of a server.")
            .seconds()
            .many(of(|process| Some(process.cpu_ticks as f64 * TICK_NS as f64 / 1e9))),
        Family::counter("evenkeel_server_run_delay", "Time that threads of a server were ready but did not run.")
            .seconds()
            .many(
                servers.iter().map(|server| (labels(server), sums(server).map(|sums| sums.run_delay_ns as f64 / 1e9))),
            ),
        Family::counter("evenkeel_server_context_switches", "Switches of a server's threads by kind.").many(switches),
        Family::counter("evenkeel_server_page_faults", "Page faults of a server; major ones waited for a disk.")
            .many(faults),
        Family::gauge("evenkeel_server_resident", "Resident memory of a server.")
            .bytes()
            .many(of(|process| process.resident_bytes.map(|bytes| bytes as f64))),
        Family::gauge(
            "evenkeel_server_udp_receive_queue",
            "Bytes that wait in a UDP socket, with the kernel's overhead.",
        )
        .bytes()
        .many(sockets(|socket| socket.receive_queue_bytes)),
        Family::counter(
            "evenkeel_server_udp_drops",
            "Datagrams that a UDP socket dropped because its buffer was full.",
        )
        .many(sockets(|socket| socket.drops)),
        Family::gauge(
            "evenkeel_server_udp_sockets_left_out",
            "UDP sockets without series, because there are too many.",
        )
        .many(
            servers.iter().map(|server| {
                (labels(server), server.sockets.as_ref().ok().map(|_| server.files.sockets_beyond as u64))
            }),
        ),
    ]
}

/// The counts of ticks with their labels, from telemetry pages. For servers without a page, the counts that were observed from outside.
fn pages(servers: &[ServerSample]) -> impl Iterator<Item = (Labels, &TelemetrySample)> {
    servers.iter().filter_map(|server| {
        let page = match (&server.telemetry, &server.outside) {
            (Some(Ok(page)), _) => page,
            (None, Some(Ok(outside))) => &outside.ticks,
            _ => return None,
        };
        let pid = server.pid.map_or_else(String::new, |pid| pid.to_string());
        // The name of the server is that of its session, unless several sessions have it.
        Some((vec![("session", server.name.clone()), ("pid", pid)], page))
    })
}

fn sessions(servers: &[ServerSample]) -> Vec<Family> {
    let of = |of: fn(&TelemetrySample) -> Option<f64>| pages(servers).map(move |(labels, page)| (labels, of(page)));
    let directions = |received: &'static str, sent: &'static str| {
        pages(servers).flat_map(move |(labels, page)| {
            [("in", received), ("out", sent)]
                .map(|(direction, name)| (with(labels.clone(), "direction", direction), page.counts.get(name).copied()))
        })
    };
    let histogram = |of: fn(&TelemetrySample) -> &HistogramSample| {
        pages(servers).map(move |(labels, page)| (labels, histogram(of(page))))
    };
    vec![
        Family::counter("evenkeel_ticks", "Ticks that were done.").many(of(|page| Some(page.ticks as f64))),
        Family::counter("evenkeel_missed_ticks", "Ticks that were missed.").many(of(|page| Some(page.missed as f64))),
        Family::counter("evenkeel_tick_period_changes", "How often the time between ticks changed.")
            .many(of(|page| Some(page.period_changes as f64))),
        Family::gauge("evenkeel_session_start_time", "When the session began, since 1970 UTC.")
            .seconds()
            .many(of(|page| Some(page.began_realtime_ns as f64 / 1e9))),
        Family::gauge("evenkeel_tick_period", "Time from one tick to the next.")
            .seconds()
            .many(of(|page| page.period_ns.map(|ns| ns as f64 / 1e9))),
        Family::gauge("evenkeel_players", "Players that are there.")
            .many(of(|page| page.counts.get("players").map(|players| *players as f64))),
        Family::counter("evenkeel_packets", "Datagrams.").many(directions("packets_in", "packets_out")),
        Family::counter("evenkeel_packet", "Bytes in datagrams.").bytes().many(directions("bytes_in", "bytes_out")),
        Family::histogram("evenkeel_tick_lateness", "From when a tick was due to when it began.")
            .seconds()
            .many(histogram(|page| &page.lateness)),
        Family::histogram("evenkeel_tick_work", "From when a tick began to when it was done.")
            .seconds()
            .many(histogram(|page| &page.work)),
        Family::histogram("evenkeel_tick_due_to_done", "From when a tick was due to when it was done.")
            .seconds()
            .many(histogram(|page| &page.due_to_done)),
    ]
}

/// A server whose ticks are known has a series for each cause, from zero on.
/// Without these series, Prometheus would first see a count of 1.
/// `rate` and `increase` would not include the first late ticks of each cause.
fn causes(sample: &Sample) -> Family {
    let of_server = |server: &ServerSample| {
        let has_ticks = pages(std::slice::from_ref(server)).next().is_some();
        let counts: BTreeMap<Cause, u64> = totals_of(sample, &server.name, server.pid).collect();
        let count = |cause: Cause| counts.get(&cause).copied().or_else(|| has_ticks.then_some(0));
        Cause::ALL.map(|cause| (with(labels(server), "cause", cause.name()), count(cause)))
    };
    Family::counter("evenkeel_server_late_ticks", "Late and missed ticks by cause, since the collector started.")
        .many(sample.servers.iter().flat_map(of_server))
}

fn histogram(sample: &HistogramSample) -> Option<Value> {
    let page = sample.to_page();
    let mut buckets = Vec::new();
    let mut count = 0_u64;
    for (at, of_bucket) in page.buckets.iter().enumerate() {
        count = count.checked_add(*of_bucket)?;
        match BOUNDS_NS.get(at) {
            Some(bound_ns) if PRINTED.contains(&(at % A_TENFOLD)) => {
                buckets.push((*bound_ns as f64 / 1e9, std::mem::take(&mut count)));
            }
            Some(_) => {}
            None => buckets.push((f64::INFINITY, std::mem::take(&mut count))),
        }
    }
    Some(Value::Histogram { sum: page.sum_ns as f64 / 1e9, buckets })
}
