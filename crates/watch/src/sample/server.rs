//! The counters of a server at one moment.

use std::collections::BTreeMap;

use evenkeel_measure::meters::rates::ThreadCounts;
use serde::{Deserialize, Serialize};

use super::counted::Counted;
use super::outside::OutsideSample;
use super::telemetry::TelemetrySample;

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerSample {
    /// The name of its session, or of its process.
    pub name: String,
    /// Its process. `None` for a session in another PID namespace, whose number has no meaning here.
    pub pid: Option<u32>,
    /// The counts of its process.
    pub process: Counted<ProcessSample>,
    /// Its page of telemetry. `None` for a server that was not built with evenkeel-rt.
    pub telemetry: Option<Counted<TelemetrySample>>,
    /// Its ticks, observed from outside, if it has no page. `None` if they are not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Counted<OutsideSample>>,
    /// Its UDP sockets.
    pub sockets: Counted<Vec<SocketSample>>,
    /// What evenkeel knows about its open files.
    pub files: FilesSample,
}

/// A process since it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSample {
    /// Its name, which may contain any character.
    pub name: String,
    /// When it started, in hundredths of a second since boot. With its number this identifies it.
    pub start_ticks: u64,
    /// CPU time, in hundredths of a second.
    pub cpu_ticks: u64,
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults that waited for a disk or for swap.
    pub major_faults: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Its control group for CPU time, by the path below the mount.
    pub group: Option<String>,
    /// The counts of all its threads since evenkeel began to watch it.
    pub thread_sums: Counted<ThreadSums>,
    /// The busiest of its threads by number.
    pub threads: BTreeMap<u32, ThreadCounts>,
    /// The CPU that each of them ran on last.
    #[serde(default)]
    pub thread_cpus: BTreeMap<u32, usize>,
    /// Number of further threads, which are not read because of the limit.
    pub threads_beyond: usize,
}

/// The counts of a process's threads since evenkeel began to watch it, with those of ended threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSums {
    /// The time that they were ready but did not run, in nanoseconds.
    pub run_delay_ns: u64,
    /// How often they gave the CPU up.
    pub voluntary_switches: u64,
    /// How often it was taken from them.
    pub involuntary_switches: u64,
}

/// A UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketSample {
    /// Its port.
    pub port: u16,
    /// Its inode.
    pub inode: u64,
    /// The bytes that wait in the receive buffer, with the kernel's overhead of each datagram.
    pub receive_queue_bytes: u64,
    /// Datagrams that it dropped.
    pub drops: u64,
}

/// The open files of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesSample {
    /// Number of further open files, which are not examined because of the limit: sockets among them are missing.
    pub beyond: usize,
}
