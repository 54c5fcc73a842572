//! `Report`: off-CPU intervals by thread and reason, for the page and JSON: count, length, the thread that took the CPU, and the place.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};

use super::place::Places;
pub use super::strip::Strip;
use super::strip::Strips;
use super::{Edges, Faults, OffCpuInterval, Reason, Trust, faults, trust};
use crate::names::Names;
use crate::recording::{Recording, Turn};

/// The maximum number of intervals in the list.
const LISTED_MAX: usize = 10_000;
/// The maximum number of threads in the report. Threads with most CPU time are kept.
pub const THREADS_MAX: usize = 1_000;

/// The maximum number of intervals in the list of the longest waits.
const WAITS_MAX: usize = 50;
/// The maximum number of threads with a strip.
const STRIPS_MAX: usize = 64;

/// Why the threads of a recording had no CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The length of the recording in nanoseconds.
    pub recorded_ns: u64,
    /// The start of the recording on its own clock, in nanoseconds.
    pub start_ns: u64,
    /// The threads, most CPU time first.
    pub threads: Vec<Thread>,
    /// The number of threads that are left out.
    pub threads_left_out: u64,
    /// Page faults that waited for a disk, by mapped file.
    pub faults: Vec<Faults>,
    /// The longest intervals of these threads, sorted by time.
    pub intervals: Vec<ListedInterval>,
    /// The number of intervals that are left out of the list.
    pub intervals_left_out: u64,
    /// The longest complete intervals, longest first, without the waits of an idle thread.
    pub longest_waits: Vec<Wait>,
    /// Caveats.
    pub caveats: Vec<SwitchesCaveat>,
}

/// A caveat of a report. In JSON it is its text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum SwitchesCaveat {
    /// The recording has no switches.
    #[error(
        "the recording has no switches: record with `evenkeel profile record --switches`, or perf record --switch-events"
    )]
    NotRecorded,
    /// Records were lost.
    #[error("{records} records were lost; intervals with lost records count as open")]
    Lost {
        /// The number of lost records.
        records: u64,
    },
    /// In many intervals, records are missing, so the lengths of these intervals are unknown.
    #[error(
        "{torn} of {all} intervals lack records of their start or end, so their lengths are unknown. Where this is true of most, no length \
         is shown"
    )]
    Torn {
        /// The number of intervals with missing records.
        torn: u64,
        /// The number of all intervals.
        all: u64,
    },
    /// Many intervals have no stack, so their reasons are unknown.
    #[error(
        "{without} of {all} intervals have no stack, so only preemption is recognized. Record the event context-switches too (-c 1 -g)"
    )]
    NoStacks {
        /// The number of intervals without a stack.
        without: u64,
        /// The number of all intervals.
        all: u64,
    },
    /// Only some threads were recorded.
    #[error(
        "only some threads were recorded, not whole CPUs. So the thread that took the CPU is unknown, and some throttling is not recognized"
    )]
    SomeThreads,
    /// The kernel does not report all wake-ups.
    #[error(
        "the tracepoint sched:sched_waking shows {:.0} % of the wake-ups on CPU {cpu}. It does not always fire here, or the waking threads \
         were not recorded",
        share * 100.0
    )]
    WakesMissing {
        /// The share of sleeps that end with a recorded wake-up.
        share: f64,
        /// The CPU with the smallest share.
        cpu: u32,
    },
}

impl Serialize for SwitchesCaveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The off-CPU intervals of a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// The process of the thread.
    pub pid: u32,
    /// The number of the thread (tid).
    pub tid: u32,
    /// The name of the thread, if recorded.
    pub name: Option<String>,
    /// The thread's time on a CPU in nanoseconds, between recorded switches.
    pub on_cpu_ns: u64,
    /// The thread's time off CPU in nanoseconds.
    pub off_cpu_ns: u64,
    /// The intervals by reason, the reason with the most time first.
    pub reasons: Vec<Row>,
    /// The thread's state over time. None except for the first threads of the report.
    pub strip: Option<Strip>,
}

/// The intervals of one thread with one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// The reason, in the words of [`Reason::words`].
    pub reason: &'static str,
    /// The number of intervals.
    pub count: u64,
    /// The number of intervals with an unknown end or lost records. These count only in the total.
    pub open: u64,
    /// The total length in nanoseconds.
    pub total_ns: u64,
    /// The median length in nanoseconds. None if no interval is complete, or if records were lost in most of them.
    pub p50_ns: Option<u64>,
    /// The p99 length in nanoseconds. None if no interval is complete, or if records were lost in most of them.
    pub p99_ns: Option<u64>,
    /// The length of the longest interval in nanoseconds. None if the median is None.
    pub max_ns: Option<u64>,
    /// The place with most of the time: the program's function that called the wait, for example the function that takes a lock.
    pub place: Option<Share>,
    /// The thread that had the CPU longest while this thread was ready. None if the thread was not ready, or if unknown.
    pub taken_by: Option<Share>,
    /// The thread that ended most of the intervals. None unless wake-ups were recorded.
    pub woken_by: Option<Share>,
    /// The longest time from wake-up to running, in nanoseconds. None unless wake-ups were recorded.
    pub woken_to_on_cpu_ns_max: Option<u64>,
}

/// The most common value, such as the most common waker, by time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// The value as text.
    pub name: String,
    /// The share of the time with this value, from 0 to 1.
    pub share: f64,
}

/// An interval of the list.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListedInterval {
    /// The thread that had no CPU.
    pub tid: u32,
    /// The start of the interval, in nanoseconds since the start of the recording.
    pub at_ns: u64,
    /// The length of the interval in nanoseconds.
    pub length_ns: u64,
    /// Why the thread had no CPU.
    pub reason: &'static str,
    /// `seen`: both ends are known. `from-before`, `to-after`: that end is unknown. `torn`: records were lost.
    pub edges: &'static str,
    /// The thread that took the CPU, if recorded.
    pub taken_by: Option<u32>,
    /// The thread that woke the waiting thread, if recorded.
    pub woken_by: Option<u32>,
    /// The place in the code where the thread waited.
    pub place: Option<String>,
}

/// One of the longest waits, with the names of the threads involved.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wait {
    /// The interval.
    #[serde(flatten)]
    pub interval: ListedInterval,
    /// The name and number of the waiting thread.
    pub thread: String,
    /// The name of the thread that took the CPU. None unless the waiting thread was ready.
    pub taken_by_name: Option<String>,
    /// The name of the thread that woke the waiting thread, if recorded.
    pub woken_by_name: Option<String>,
}

/// The report on the threads of the wanted processes.
pub fn report(
    recording: &Recording,
    names: &Names,
    intervals: &[OffCpuInterval],
    is_wanted: impl Fn(u32) -> bool,
) -> Report {
    let mut places = Places::new(recording, names);
    let own: Vec<OffCpuInterval> = intervals.iter().filter(|interval| is_wanted(interval.pid)).copied().collect();
    let mut by_thread: BTreeMap<u32, Vec<&OffCpuInterval>> = BTreeMap::new();
    for interval in &own {
        by_thread.entry(interval.tid).or_default().push(interval);
    }
    let on_cpu = on_cpu_ns(recording);
    for (tid, (pid, _)) in on_cpu.iter().filter(|(tid, (pid, _))| **tid != 0 && is_wanted(*pid)) {
        let _ = (pid, by_thread.entry(*tid).or_default());
    }
    let mut threads: Vec<Thread> = by_thread
        .into_iter()
        .map(|(tid, intervals)| {
            let (pid, on_cpu_ns) = on_cpu.get(&tid).copied().unwrap_or_default();
            let pid = intervals.first().map_or(pid, |interval| interval.pid);
            thread(recording, &mut places, (pid, tid), on_cpu_ns, &intervals)
        })
        .collect();
    threads.sort_by_key(|thread| (std::cmp::Reverse(thread.on_cpu_ns), thread.tid));
    let threads_left_out = threads.len().saturating_sub(THREADS_MAX) as u64;
    threads.truncate(THREADS_MAX);
    let strips = Strips::new(recording, threads.iter().take(STRIPS_MAX).map(|thread| thread.tid), &own);
    for thread in threads.iter_mut().take(STRIPS_MAX) {
        thread.strip = strips.at(thread.tid);
    }
    let (intervals, intervals_left_out) = listed(recording, &mut places, &own);
    let longest_waits = longest_waits(recording, &mut places, &own);
    Report {
        recorded_ns: recording.span.length_ns(),
        start_ns: recording.span.start_ns,
        threads,
        threads_left_out,
        faults: faults(recording, names, &own, &is_wanted),
        intervals,
        intervals_left_out,
        longest_waits,
        caveats: caveats(recording, &own),
    }
}

fn thread(
    recording: &Recording,
    places: &mut Places<'_>,
    (pid, tid): (u32, u32),
    on_cpu_ns: u64,
    intervals: &[&OffCpuInterval],
) -> Thread {
    let mut by_reason: BTreeMap<Reason, Vec<&OffCpuInterval>> = BTreeMap::new();
    for interval in intervals {
        by_reason.entry(interval.reason).or_default().push(interval);
    }
    let rows = by_reason.iter().map(|(reason, intervals)| row(recording, places, *reason, intervals));
    let mut reasons: Vec<Row> = rows.collect();
    reasons.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    // During steal, the thread counts as on a CPU, although steal is also listed as an interval.
    let off =
        intervals.iter().filter(|interval| interval.reason != Reason::Steal).map(|interval| interval.span.length_ns());
    let name = recording.threads.get(&tid).and_then(|thread| thread.name.clone());
    Thread { pid, tid, name, on_cpu_ns, off_cpu_ns: off.sum(), reasons, strip: None }
}

fn row(recording: &Recording, places: &mut Places<'_>, reason: Reason, intervals: &[&OffCpuInterval]) -> Row {
    let mut whole: Vec<u64> = Vec::new();
    let (mut place, mut taken, mut woken) = (TimeByName::default(), TimeByName::default(), TimeByName::default());
    let (mut waited_ns, mut torn) = (None, 0_usize);
    for interval in intervals {
        let length_ns = interval.span.length_ns();
        if interval.edges == Edges::Seen {
            whole.push(length_ns);
        }
        torn += usize::from(interval.edges == Edges::Torn);
        place.add(interval.stack.and_then(|stack| places.at(stack)).map(str::to_owned), length_ns);
        let taker = interval.taken_by.filter(|(_, tid)| reason.is_forced() && *tid != 0);
        taken.add(taker.map(|(_, tid)| who(recording, tid)), length_ns);
        woken.add(interval.woken_by.map(|(tid, _)| who(recording, tid)), length_ns);
        let after =
            interval.woken_at_ns.filter(|_| !reason.is_forced()).map(|at| interval.span.end_ns.saturating_sub(at));
        waited_ns = waited_ns.max(after);
    }
    let open = (intervals.len() - whole.len()) as u64;
    if torn > whole.len() {
        // The few complete intervals do not represent the others, because short intervals are more often complete.
        whole.clear();
    }
    whole.sort_unstable();
    Row {
        reason: reason.words(),
        count: intervals.len() as u64,
        open,
        total_ns: intervals.iter().map(|interval| interval.span.length_ns()).sum(),
        p50_ns: quantile(&whole, 0.5),
        p99_ns: quantile(&whole, 0.99),
        max_ns: whole.last().copied(),
        place: place.most(),
        taken_by: taken.most(),
        woken_by: woken.most(),
        woken_to_on_cpu_ns_max: waited_ns,
    }
}

/// Time by name, to find the most common name.
#[derive(Default)]
struct TimeByName {
    sums: HashMap<String, u64>,
    total: u64,
}

impl TimeByName {
    /// The total also includes time whose value is unknown.
    fn add(&mut self, name: Option<String>, length_ns: u64) {
        self.total = self.total.saturating_add(length_ns);
        if let Some(name) = name {
            *self.sums.entry(name).or_default() += length_ns;
        }
    }

    fn most(self) -> Option<Share> {
        let total = self.total.max(1) as f64;
        let most = self.sums.into_iter().max_by(|one, other| (one.1, &other.0).cmp(&(other.1, &one.0)));
        most.map(|(name, sum)| Share { name, share: sum as f64 / total })
    }
}

/// A quantile of sorted lengths.
fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn who(recording: &Recording, tid: u32) -> String {
    if tid == 0 {
        return "an interrupt on an idle CPU".to_owned();
    }
    let name = recording.threads.get(&tid).and_then(|thread| thread.name.as_deref());
    name.map_or_else(|| format!("thread {tid}"), |name| format!("{name} ({tid})"))
}

/// The process of each thread, and its time on a CPU in nanoseconds.
pub(super) fn on_cpu_ns(recording: &Recording) -> HashMap<u32, (u32, u64)> {
    let mut sums: HashMap<u32, (u32, u64)> = HashMap::new();
    let mut since: HashMap<u32, u64> = HashMap::new();
    for switch in &recording.switches {
        let (pid, sum) = sums.entry(switch.tid).or_default();
        *pid = switch.pid;
        if switch.turn == Turn::In {
            since.insert(switch.tid, switch.at_ns);
        } else if let Some(since_ns) = since.remove(&switch.tid) {
            *sum += switch.at_ns.saturating_sub(since_ns);
        }
    }
    sums
}

/// The longest intervals, and how many are left out.
fn listed(recording: &Recording, places: &mut Places<'_>, intervals: &[OffCpuInterval]) -> (Vec<ListedInterval>, u64) {
    let mut longest: Vec<&OffCpuInterval> = intervals.iter().collect();
    longest.sort_by_key(|interval| std::cmp::Reverse(interval.span.length_ns()));
    let left_out = longest.len().saturating_sub(LISTED_MAX) as u64;
    longest.truncate(LISTED_MAX);
    longest.sort_by_key(|interval| (interval.span.start_ns, interval.tid));
    (longest.into_iter().map(|interval| one(recording, places, interval)).collect(), left_out)
}

/// The longest waits that delay a thread. Sleeping, polling and stopped threads are left out, because they may be idle.
fn longest_waits(recording: &Recording, places: &mut Places<'_>, intervals: &[OffCpuInterval]) -> Vec<Wait> {
    let is_idle = |reason| matches!(reason, Reason::Sleep | Reason::Poll | Reason::Stopped | Reason::Ended);
    let is_whole = |interval: &OffCpuInterval| interval.edges == Edges::Seen || interval.reason == Reason::Steal;
    let mut waits: Vec<&OffCpuInterval> =
        intervals.iter().filter(|interval| is_whole(interval) && !is_idle(interval.reason)).collect();
    waits.sort_by_key(|interval| (std::cmp::Reverse(interval.span.length_ns()), interval.span.start_ns, interval.tid));
    let wait = |interval: &OffCpuInterval| Wait {
        interval: one(recording, places, interval),
        thread: who(recording, interval.tid),
        taken_by_name: interval.taken_by.filter(|_| interval.reason.is_forced()).map(|(_, tid)| who(recording, tid)),
        woken_by_name: interval.woken_by.map(|(tid, _)| who(recording, tid)),
    };
    waits.into_iter().take(WAITS_MAX).map(wait).collect()
}

fn one(recording: &Recording, places: &mut Places<'_>, interval: &OffCpuInterval) -> ListedInterval {
    ListedInterval {
        tid: interval.tid,
        at_ns: interval.span.start_ns.saturating_sub(recording.span.start_ns),
        length_ns: interval.span.length_ns(),
        reason: interval.reason.words(),
        edges: match interval.edges {
            Edges::Seen => "seen",
            Edges::FromBefore => "from-before",
            Edges::ToAfter => "to-after",
            Edges::Torn => "torn",
        },
        taken_by: interval.taken_by.map(|(_, tid)| tid),
        woken_by: interval.woken_by.map(|(tid, _)| tid),
        place: interval.stack.and_then(|stack| places.at(stack)).map(str::to_owned),
    }
}

fn caveats(recording: &Recording, intervals: &[OffCpuInterval]) -> Vec<SwitchesCaveat> {
    let mut caveats = Vec::new();
    if recording.switches.is_empty() {
        caveats.push(SwitchesCaveat::NotRecorded);
    }
    let records = recording.lost.records;
    if records > 0 {
        caveats.push(SwitchesCaveat::Lost { records });
    }
    let torn = intervals.iter().filter(|interval| interval.edges == Edges::Torn).count() as u64;
    let all = intervals.len() as u64;
    if torn * 20 > all {
        caveats.push(SwitchesCaveat::Torn { torn, all });
    }
    let whole = intervals.iter().filter(|interval| interval.edges == Edges::Seen && interval.reason != Reason::Steal);
    let (all, without) =
        whole.fold((0_u64, 0_u64), |(all, without), interval| (all + 1, without + u64::from(interval.stack.is_none())));
    if all > 0 && without * 20 > all {
        caveats.push(SwitchesCaveat::NoStacks { without, all });
    }
    if !recording.switches.is_empty() && recording.switches.iter().all(|switch| switch.other.is_none()) {
        caveats.push(SwitchesCaveat::SomeThreads);
    }
    if let Trust::Lacking { share, cpu } = trust(recording, intervals) {
        caveats.push(SwitchesCaveat::WakesMissing { share, cpu });
    }
    caveats
}
