//! The counters of a server at one moment.

use std::collections::BTreeMap;

use evenkeel_measure::meters::rates::ThreadCounts;
use serde::{Deserialize, Serialize};

use super::counted::Counted;
use super::outside::OutsideSample;
use super::telemetry::TelemetrySample;

/// The counters of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerSample {
    /// The name of the server's session, or of its process.
    pub name: String,
    /// The process of the server. `None` for a session in another PID namespace, because its process number has no meaning here.
    pub pid: Option<u32>,
    /// The counters of the process.
    pub process: Counted<ProcessSample>,
    /// The server's telemetry page. `None` if the server was not built with evenkeel-rt.
    pub telemetry: Option<Counted<TelemetrySample>>,
    /// The ticks that evenkeel observes from outside. `None` if the server has a telemetry page, or if evenkeel does not observe its ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Counted<OutsideSample>>,
    /// The UDP sockets of the process.
    pub sockets: Counted<Vec<SocketSample>>,
    /// The state of the search through the open files.
    pub files: FilesSample,
}

/// The counters of a process since it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSample {
    /// The name of the process, which may contain any character.
    pub name: String,
    /// When the process started, in hundredths of a second since boot. Together with the process number, this identifies the process.
    pub start_ticks: u64,
    /// The CPU time of the process, in hundredths of a second.
    pub cpu_ticks: u64,
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults that waited for a disk or for swap.
    pub major_faults: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// The control group that limits the CPU time of the process, as a path below the mount. None if unknown.
    pub group: Option<String>,
    /// The sums over all threads since evenkeel began to watch the process.
    pub thread_sums: Counted<ThreadSums>,
    /// The busiest threads, by number.
    pub threads: BTreeMap<u32, ThreadCounts>,
    /// The CPU on which each of these threads last ran.
    #[serde(default)]
    pub thread_cpus: BTreeMap<u32, usize>,
    /// The number of further threads that are not read because of the limit.
    pub threads_beyond: usize,
}

/// Sums over the threads of a process, including ended threads, since evenkeel began to watch the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSums {
    /// How long threads were ready but did not run, in nanoseconds.
    pub run_delay_ns: u64,
    /// How often threads gave up the CPU.
    pub voluntary_switches: u64,
    /// How often threads lost the CPU while they were ready to run.
    pub involuntary_switches: u64,
}

/// A UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketSample {
    /// The port of the socket.
    pub port: u16,
    /// The inode of the socket.
    pub inode: u64,
    /// The bytes in the receive buffer, including the kernel's overhead for each datagram.
    pub receive_queue_bytes: u64,
    /// The number of datagrams that the socket dropped.
    pub drops: u64,
}

/// The state of the search for sockets among the open files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesSample {
    /// The number of further open files that are not examined because of the limit. Sockets among them are missing.
    pub beyond: usize,
    /// The number of further UDP sockets that are not listed because of the limit.
    #[serde(default)]
    pub sockets_beyond: usize,
}
