//! The ledger of late ticks in a sample.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why ticks were late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The hypervisor took the CPU, and reported it.
    Stolen,
    /// The CPU limit of a control group stopped the server.
    Throttled,
    /// The tick's thread was ready, but other threads had the CPU.
    Preempted,
    /// The tick's thread waited for a page from a disk or from swap.
    PageFault,
    /// Interrupts and softirqs had the CPU.
    Interrupt,
    /// In the middle of a tick, its thread waited for a lock that another thread held, or for another thread.
    Lock,
    /// The work of earlier ticks took longer than the period, and used a CPU for that time.
    OwnWork,
    /// The whole machine was paused.
    VmPaused,
    /// The timer of the tick's thread fired late, within the thread's timer slack.
    LateTimer,
    /// The evidence does not decide.
    Unknown,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 10] = [
        Cause::Stolen,
        Cause::Throttled,
        Cause::Preempted,
        Cause::PageFault,
        Cause::Interrupt,
        Cause::Lock,
        Cause::OwnWork,
        Cause::VmPaused,
        Cause::LateTimer,
        Cause::Unknown,
    ];

    /// The name of the cause in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Stolen => "stolen",
            Cause::Throttled => "throttled",
            Cause::Preempted => "preempted",
            Cause::PageFault => "page-fault",
            Cause::Interrupt => "interrupt",
            Cause::Lock => "lock",
            Cause::OwnWork => "own-work",
            Cause::VmPaused => "vm-paused",
            Cause::LateTimer => "late-timer",
            Cause::Unknown => "unknown",
        }
    }
}

/// The late ticks of a server between two samples that have one cause.
/// A server with a telemetry page has one entry, because the page does not show when each tick was late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateTicks {
    /// The name of the server.
    pub server: String,
    /// The process of the server. None if it is not visible here.
    pub pid: Option<u32>,
    /// The number of ticks that began too late.
    pub late: u64,
    /// The number of missed ticks.
    pub missed: u64,
    /// The cause of these late and missed ticks.
    pub cause: Cause,
    /// The evidence for the cause. If the cause is unknown, the missing evidence.
    pub evidence: String,
    /// When the first of these ticks was due, in nanoseconds since 1970 UTC. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_realtime_ns: Option<u64>,
}

/// The ledger of late ticks at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LedgerSample {
    /// The late ticks since the previous sample.
    pub new: Vec<LateTicks>,
    /// The number of late and missed ticks since the collector started, by server (name and process) and by cause.
    pub totals: BTreeMap<String, BTreeMap<Cause, u64>>,
}

impl LedgerSample {
    /// The key of a server in [`LedgerSample::totals`]: its name and process.
    pub fn key(server: &str, pid: Option<u32>) -> String {
        match pid {
            Some(pid) => format!("{server} {pid}"),
            None => server.to_owned(),
        }
    }
}
