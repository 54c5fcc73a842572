//! The contents of a telemetry page in a sample.

use std::collections::BTreeMap;

use evenkeel_sys::lock::waits::Kind;
use evenkeel_sys::telemetry::layout::{BUCKETS, bucket};
use evenkeel_sys::telemetry::{Count, PageHistogram, PageSlices, PageWaits, Snapshot};
use serde::{Deserialize, Serialize};

/// The contents of a telemetry page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TelemetrySample {
    /// The name of the session.
    pub session: String,
    /// When the session began, in nanoseconds since 1970 UTC. This time distinguishes sessions that have the same name.
    pub began_realtime_ns: u64,
    /// The number of completed ticks.
    pub ticks: u64,
    /// The number of missed ticks.
    pub missed: u64,
    /// The last completed tick. None before the first completed tick.
    pub last: Option<TickSample>,
    /// The time between two ticks in nanoseconds. None if the server does not report the time.
    pub period_ns: Option<u64>,
    /// How often the period changed.
    pub period_changes: u64,
    /// The hypervisor's time slices, as the server detected them.
    pub slices: SlicesSample,
    /// The number of major page faults of the tick's thread. None if unknown.
    pub major_faults: Option<u64>,
    /// The number of the tick's thread, as the server sees it. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// How long the ticks waited for locks. None unless the server reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitsSample>,
    /// How long the tick's thread waited for a CPU in waits that made ticks late, in nanoseconds. None unless the server reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_run_delay_ns: Option<u64>,
    /// Counters that the server sets, by name.
    pub counts: BTreeMap<String, u64>,
    /// The times from due to begin.
    pub lateness: HistogramSample,
    /// The times from begin to done.
    pub work: HistogramSample,
    /// The times from due to done.
    pub due_to_done: HistogramSample,
}

/// How long the ticks waited for locks and events since the session began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsSample {
    /// The total time of all waits, in nanoseconds.
    pub total_ns: u64,
    /// The time of the waits in ticks that waited for at least an eighth of the period, in nanoseconds.
    pub long_ns: u64,
    /// The longest wait in the last of these ticks. None if no tick waited that long.
    pub last: Option<WaitSample>,
}

/// A wait for a lock or an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitSample {
    /// The kind of lock or event.
    pub kind: WaitKind,
    /// The address of the lock or event in the server's memory.
    pub address: u64,
    /// The length of the wait in nanoseconds.
    pub length_ns: u64,
    /// The thread that held the lock or set the event, by its number as the server sees it. None if unknown.
    pub by: Option<u32>,
    /// The name of that thread. None if unknown.
    pub by_name: Option<String>,
}

/// For what a tick waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitKind {
    /// A mutex.
    Mutex,
    /// A mutex whose holder inherits priority.
    InheritMutex,
    /// The read side of a reader-writer lock.
    Read,
    /// The write side of a reader-writer lock.
    Write,
    /// An event.
    Event,
}

impl From<Kind> for WaitKind {
    fn from(kind: Kind) -> WaitKind {
        match kind {
            Kind::Mutex => WaitKind::Mutex,
            Kind::InheritMutex => WaitKind::InheritMutex,
            Kind::Read => WaitKind::Read,
            Kind::Write => WaitKind::Write,
            Kind::Event => WaitKind::Event,
        }
    }
}

impl From<&PageWaits> for WaitsSample {
    fn from(page: &PageWaits) -> WaitsSample {
        let last = page.last.map(|last| WaitSample {
            kind: last.kind.into(),
            address: last.address as u64,
            length_ns: last.length_ns,
            by: last.by,
            by_name: None,
        });
        WaitsSample { total_ns: page.total_ns, long_ns: page.long_ns, last }
    }
}

/// A tick. Times are on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickSample {
    /// The number of earlier ticks.
    pub number: u64,
    /// When the tick was due.
    pub due_ns: u64,
    /// When the tick began.
    pub began_ns: u64,
    /// When the tick was done.
    pub done_ns: u64,
}

/// When a server gets a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "model")]
pub enum SlicesSample {
    /// Unknown.
    #[default]
    Unknown,
    /// At all times.
    Whole,
    /// In fixed time slices of a hypervisor.
    FixedSlot {
        /// The period of the slices in nanoseconds.
        period_ns: u64,
        /// The server's share of each period, from 0 to 1.
        share: f64,
    },
    /// Within a limit on CPU time.
    TokenBucket {
        /// The period of the limit in nanoseconds.
        period_ns: u64,
        /// The server's share of each period, from 0 to 1.
        share: f64,
    },
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramSample {
    /// The sum of the values in nanoseconds.
    pub sum_ns: u64,
    /// The longest value in nanoseconds. None if unknown.
    pub max_ns: Option<u64>,
    /// The count of each bucket that is not empty, by the bucket's index.
    pub buckets: BTreeMap<usize, u64>,
}

impl From<&PageHistogram> for HistogramSample {
    fn from(page: &PageHistogram) -> HistogramSample {
        let buckets = page.buckets.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
        HistogramSample { sum_ns: page.sum_ns, max_ns: page.max_ns, buckets }
    }
}

impl HistogramSample {
    /// Adds a value.
    pub fn add(&mut self, ns: u64) {
        let count = self.buckets.entry(bucket(ns)).or_default();
        *count = count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(Some(ns));
    }

    /// Converts this histogram to a page's histogram, which has quantiles. Bucket indices that no page has are left out.
    pub fn to_page(&self) -> PageHistogram {
        let mut buckets = vec![0; BUCKETS];
        for (at, count) in &self.buckets {
            if let Some(bucket) = buckets.get_mut(*at) {
                *bucket = *count;
            }
        }
        let count = buckets.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        PageHistogram { count, sum_ns: self.sum_ns, max_ns: self.max_ns.filter(|_| count > 0), buckets }
    }
}

impl From<PageSlices> for SlicesSample {
    fn from(slices: PageSlices) -> SlicesSample {
        match slices {
            PageSlices::Unknown => SlicesSample::Unknown,
            PageSlices::Whole => SlicesSample::Whole,
            PageSlices::Slots { period_ns, share } => SlicesSample::FixedSlot { period_ns, share },
            PageSlices::Bucket { period_ns, share } => SlicesSample::TokenBucket { period_ns, share },
        }
    }
}

impl From<&Snapshot> for TelemetrySample {
    fn from(page: &Snapshot) -> TelemetrySample {
        let name = |count: Count| match count {
            Count::Jobs => "jobs",
            Count::PacketsIn => "packets_in",
            Count::PacketsOut => "packets_out",
            Count::BytesIn => "bytes_in",
            Count::BytesOut => "bytes_out",
            Count::Drops => "drops",
            Count::Players => "players",
        };
        let counts = Count::ALL.into_iter().filter_map(|count| Some((name(count).to_owned(), page.count(count)?)));
        TelemetrySample {
            session: page.session.clone(),
            began_realtime_ns: page.began_realtime_ns,
            ticks: page.ticks,
            missed: page.missed,
            last: page.last.map(|tick| TickSample {
                number: tick.number,
                due_ns: tick.due_ns,
                began_ns: tick.began_ns,
                done_ns: tick.done_ns,
            }),
            period_ns: page.period_ns,
            period_changes: page.period_changes,
            slices: page.turns.into(),
            major_faults: page.faults.map(|faults| faults.major),
            thread: page.thread,
            waits: page.waits.as_ref().map(WaitsSample::from),
            late_run_delay_ns: page.late_run_delay_ns,
            counts: counts.collect(),
            lateness: (&page.lateness).into(),
            work: (&page.work).into(),
            due_to_done: (&page.due_to_done).into(),
        }
    }
}
