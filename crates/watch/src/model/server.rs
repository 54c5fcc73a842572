//! A server between two samples.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::TICK_NS;
use evenkeel_measure::meters::rates::Measured;
use serde::Serialize;

use super::span::{Span, both};
use super::ticks::{TickCounts, TicksModel, ticks};
use crate::sample::{Asked, Cause, GroupsSample, ProcessSample, ServerSample, SocketSample, ThreadSums};

/// A server between two samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerModel {
    /// The name of the server's session, or of its process.
    pub name: String,
    /// The process of the server. `null` for a session in a container whose processes are not visible here.
    pub pid: Option<u32>,
    /// The ticks of the server, from its own telemetry page or observed from outside.
    pub ticks: Measured<TicksModel>,
    /// The CPU time of the process, as a share of one CPU.
    pub cpu: Measured<f64>,
    /// How long threads of the process were ready but did not run, in seconds per second, summed over threads.
    pub run_delay: Measured<f64>,
    /// How often threads of the process gave up the CPU.
    pub voluntary_switches_per_s: Measured<f64>,
    /// How often threads of the process lost the CPU while they were ready to run.
    pub involuntary_switches_per_s: Measured<f64>,
    /// Page faults without disk access.
    pub minor_faults_per_s: Measured<f64>,
    /// Page faults that waited for a disk or for swap.
    pub major_faults_per_s: Measured<f64>,
    /// Resident memory, with shared pages counted in full.
    pub resident_bytes: Measured<u64>,
    /// How long the control group of the process, and the groups above it, were throttled, in seconds per second, summed over CPUs.
    pub throttled: Measured<f64>,
    /// The busiest threads of the process, at most 16.
    pub threads: Vec<ThreadModel>,
    /// The number of threads that are not read because of the limit.
    pub threads_beyond: usize,
    /// The UDP sockets of the process.
    pub udp: Measured<SocketsModel>,
    /// The number of late and missed ticks by cause, since the collector started.
    pub causes: BTreeMap<Cause, u64>,
}

/// A thread between two samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadModel {
    /// The number of the thread.
    pub tid: u32,
    /// The name of the thread.
    pub name: String,
    /// The CPU time of the thread, as a share of one CPU.
    pub cpu: Measured<f64>,
    /// How long the thread was ready but did not run, in seconds per second.
    pub run_delay: Measured<f64>,
}

/// The UDP sockets of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketsModel {
    /// The ports of the sockets.
    pub ports: Vec<u16>,
    /// The bytes in the sockets' receive buffers at the later sample, including the kernel's overhead for each datagram.
    pub receive_queue_bytes: u64,
    /// Datagrams that were dropped because a socket's receive buffer was full.
    pub drops_per_s: Measured<f64>,
    /// The number of open files that were not examined. Sockets among them are missing here.
    pub files_beyond: usize,
    /// The number of further sockets that are not listed because of the limit. Those that dropped most are listed.
    #[cfg_attr(feature = "schema", schemars(extend("x-since" = "0.1.0")))]
    pub sockets_beyond: usize,
}

/// A server in two samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Both<'a> {
    pub(super) before: Option<&'a ServerSample>,
    pub(super) after: &'a ServerSample,
    /// The times of the two samples on the monotonic clock.
    pub(super) at_ns: (u64, u64),
}

pub(super) fn server(
    Both { before, after, at_ns }: Both<'_>,
    groups: Option<(&GroupsSample, &GroupsSample)>,
    causes: BTreeMap<Cause, u64>,
    asked: Asked,
    span: Span,
) -> ServerModel {
    let process = match before {
        Some(before) => both(&before.process, &after.process).and_then(|(before, after)| {
            match before.start_ticks == after.start_ticks {
                true => Measured::Known((*before, *after)),
                false => Measured::odd("the process began between the samples"),
            }
        }),
        None => Measured::from(after.process.as_ref().map_err(Clone::clone))
            .and_then(|_| Measured::absent("the server was not there at the sample before")),
    };
    let of = |name: &str, of: fn(&ProcessSample) -> u64| {
        process.and_then(|(before, after)| span.per_s(name, of(before), of(after)))
    };
    let sums = process.and_then(|(before, after)| both(&before.thread_sums, &after.thread_sums));
    let of_threads = |name: &str, of: fn(&ThreadSums) -> u64| {
        sums.and_then(|(before, after)| span.per_s(name, of(before), of(after)))
    };
    ServerModel {
        name: after.name.clone(),
        pid: after.pid,
        ticks: ticks(before.map(|before| counts(before, at_ns.0)), counts(after, at_ns.1), asked, span),
        cpu: process.and_then(|(before, after)| span.share("CPU time", before.cpu_ticks, after.cpu_ticks, TICK_NS)),
        run_delay: of_threads("run-queue delay", |sums| sums.run_delay_ns).map(|ns_per_s| ns_per_s / 1e9),
        voluntary_switches_per_s: of_threads("voluntary switches", |sums| sums.voluntary_switches),
        involuntary_switches_per_s: of_threads("involuntary switches", |sums| sums.involuntary_switches),
        minor_faults_per_s: of("minor page faults", |process| process.minor_faults),
        major_faults_per_s: of("major page faults", |process| process.major_faults),
        resident_bytes: Measured::from(after.process.as_ref().map_err(Clone::clone)).and_then(|process| match process
            .resident_bytes
        {
            Some(bytes) => Measured::Known(bytes),
            None => Measured::absent("its status has no VmRSS"),
        }),
        throttled: process.and_then(|(_, process)| throttled(process, groups, span)),
        threads: process.known().map(|(before, after)| threads(before, after, span)).unwrap_or_default(),
        threads_beyond: after.process.as_ref().map_or(0, |process| process.threads_beyond),
        udp: sockets(before, after, span),
        causes,
    }
}

fn counts(server: &ServerSample, at_ns: u64) -> TickCounts<'_> {
    TickCounts { page: server.telemetry.as_ref(), outside: server.outside.as_ref(), at_ns }
}

/// How long the process's own group, and all groups above it, were throttled.
fn throttled(process: &ProcessSample, groups: Option<(&GroupsSample, &GroupsSample)>, span: Span) -> Measured<f64> {
    let Some(own) = &process.group else { return Measured::absent("its control group is not known") };
    let Some((before, after)) = groups else { return Measured::absent("the control groups are not known") };
    let mut sum = Measured::Known(0.0);
    for (path, now) in after.limited.iter().filter(|(path, _)| GroupsSample::is_in(own, path)) {
        let then = before.limited.get(path);
        let us = span.maybe_per_s("throttled time", then.and_then(|then| then.throttled_us), now.throttled_us);
        sum = sum.and_then(|sum| us.map(|us_per_s| sum + us_per_s / 1e6));
    }
    sum
}

fn threads(before: &ProcessSample, after: &ProcessSample, span: Span) -> Vec<ThreadModel> {
    let one = |(tid, now): (&u32, &evenkeel_measure::meters::rates::ThreadCounts)| {
        let then = before.threads.get(tid);
        let share = |name: &str, of: fn(&evenkeel_measure::meters::rates::ThreadCounts) -> u64| match then {
            Some(then) => span.share(name, of(then), of(now), 1),
            None => Measured::absent("the thread was not among the busiest at the sample before"),
        };
        ThreadModel {
            tid: *tid,
            name: now.name.clone(),
            cpu: share("CPU time", |thread| thread.cpu_ns),
            run_delay: share("run-queue delay", |thread| thread.run_delay_ns),
        }
    };
    after.threads.iter().map(one).collect()
}

fn sockets(before: Option<&ServerSample>, after: &ServerSample, span: Span) -> Measured<SocketsModel> {
    Measured::from(after.sockets.as_ref().map_err(Clone::clone)).map(|now| {
        let then = before.and_then(|before| before.sockets.as_ref().ok());
        let was_cut = before.is_some_and(|before| before.files.sockets_beyond > 0);
        // A new socket had dropped nothing at the earlier sample. If some were not listed then, it may be one of those.
        let dropped_before = |socket: &SocketSample| {
            then.and_then(|then| then.iter().find(|before| before.inode == socket.inode))
                .map_or(if was_cut { socket.drops } else { 0 }, |before| before.drops)
        };
        let drops_per_s = match then {
            Some(_) => span.per_s(
                "datagrams dropped by its sockets",
                now.iter().map(dropped_before).fold(0, u64::saturating_add),
                now.iter().map(|socket| socket.drops).fold(0, u64::saturating_add),
            ),
            None => Measured::absent("its sockets were not seen at the sample before"),
        };
        let mut ports: Vec<u16> = now.iter().map(|socket| socket.port).collect();
        ports.sort_unstable();
        ports.dedup();
        SocketsModel {
            ports,
            receive_queue_bytes: now.iter().map(|socket| socket.receive_queue_bytes).fold(0, u64::saturating_add),
            drops_per_s,
            files_beyond: after.files.beyond,
            sockets_beyond: after.files.sockets_beyond,
        }
    })
}
