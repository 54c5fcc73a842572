//! `Report`: intervals by thread and reason, as a page and its JSON show them: how many, how long, who took the CPU, and where it was.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};

use super::place::Places;
pub use super::strip::Strip;
use super::strip::Strips;
use super::{Edges, Faults, OffCpuInterval, Reason, Trust, faults, trust};
use crate::names::Names;
use crate::recording::{Recording, Turn};

/// The longest intervals that are listed one by one.
const LISTED_MAX: usize = 10_000;
/// Threads that are told of: those that had a CPU longest.
pub const THREADS_MAX: usize = 1_000;

/// The longest waits that are told by themselves.
const WAITS_MAX: usize = 50;
/// Threads with a line of the time.
const STRIPS_MAX: usize = 64;

/// Why the threads of a recording had no CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// How long was recorded, in nanoseconds.
    pub recorded_ns: u64,
    /// The first moment, on the recording's clock, in nanoseconds.
    pub start_ns: u64,
    /// The threads, those that had a CPU longest first.
    pub threads: Vec<Thread>,
    /// How many more there were.
    pub threads_left_out: u64,
    /// Page faults that had to wait, by what is mapped where they were.
    pub faults: Vec<Faults>,
    /// The longest intervals of these threads, in the order of time.
    #[serde(rename = "spells")]
    pub intervals: Vec<ListedInterval>,
    /// How many more there were.
    #[serde(rename = "spells_left_out")]
    pub intervals_left_out: u64,
    /// The longest of them that were seen from end to end, less those that a thread waits in between its work, the longest first.
    pub longest_waits: Vec<Wait>,
    /// What is to be doubted.
    pub doubts: Vec<SwitchesCaveat>,
}

/// Why the intervals are not all that is to be known of them. In JSON it is its sentence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SwitchesCaveat {
    /// There are none.
    #[error(
        "no switches were recorded: record with `evenkeel profile record --switches`, or perf record --switch-events"
    )]
    NotRecorded,
    /// Some records are missing.
    #[error("{records} records were lost: intervals in which some are missing are counted as open")]
    Lost {
        /// How many.
        records: u64,
    },
    /// Many intervals don't say where they began.
    #[error(
        "{without} of {all} intervals have no stack, so that only preemption is told: record the event context-switches too (period 1, with stacks)"
    )]
    NoStacks {
        /// How many.
        without: u64,
        /// Of how many.
        all: u64,
    },
    /// Only some threads were watched.
    #[error(
        "only some threads were watched, not whole CPUs: who took the CPU is not told, nor is a control group's limit on kernels that show it by an idle CPU"
    )]
    SomeThreads,
    /// The kernel does not report all wake-ups.
    #[error(
        "the tracepoint sched:sched_waking tells of {:.0} % of the wake-ups of what slept on CPU {cpu}: it does not fire everywhere here, or those \
         who woke were not watched",
        share * 100.0
    )]
    WakesMissing {
        /// Of the wake-ups.
        share: f64,
        /// Where it is the least.
        cpu: u32,
    },
}

impl Serialize for SwitchesCaveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name, if it was told.
    pub name: Option<String>,
    /// How long it had a CPU, in nanoseconds, as far as both switches were seen.
    pub on_cpu_ns: u64,
    /// How long it had none, in nanoseconds.
    pub off_cpu_ns: u64,
    /// By reason, the longest first.
    pub reasons: Vec<Row>,
    /// What took most of each part of the time, for the first threads.
    pub strip: Option<Strip>,
}

/// The intervals of one thread with one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Why, in one or two words: see [`Reason::words`].
    pub reason: &'static str,
    /// How many.
    pub count: u64,
    /// How many of them lasted longer than was seen, or may be several: they are in the total alone.
    pub open: u64,
    /// How long in all, in nanoseconds.
    pub total_ns: u64,
    /// Half of them were no longer, in nanoseconds; none if no whole one was seen.
    pub p50_ns: Option<u64>,
    /// All but one in a hundred were no longer.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Where it was for the longest time: its own function that called what waited, such as the one that takes a lock.
    pub place: Option<Share>,
    /// Who had its CPU for the longest time, of those that it could have run in.
    pub taken_by: Option<Share>,
    /// Who ended most of them, if wake-ups were recorded.
    pub woken_by: Option<Share>,
    /// From its wake-up until it had a CPU: the longest, in nanoseconds, if wake-ups were recorded.
    pub woken_to_on_cpu_ns_max: Option<u64>,
}

/// What most of them have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// What.
    pub name: String,
    /// Of how much of the time it is so, from 0 to 1.
    pub share: f64,
}

/// A interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ListedInterval {
    /// The thread.
    pub tid: u32,
    /// When it began, in nanoseconds since the recording did.
    pub at_ns: u64,
    /// How long it was, in nanoseconds.
    pub length_ns: u64,
    /// Why.
    pub reason: &'static str,
    /// `seen`, or which end was not: `from-before`, `to-after`; `torn` where records of it were lost.
    pub edges: &'static str,
    /// The number of the thread that had the CPU, if that was told.
    pub taken_by: Option<u32>,
    /// The number of the thread that woke it, if that was told.
    pub woken_by: Option<u32>,
    /// Where it was.
    pub place: Option<String>,
}

/// One of the longest, with the names of those who had to do with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Wait {
    /// It.
    #[serde(flatten)]
    pub interval: ListedInterval,
    /// The thread, with its number.
    pub thread: String,
    /// Who took the CPU, where it could have run on.
    pub taken_by_name: Option<String>,
    /// Who woke it.
    pub woken_by_name: Option<String>,
}

/// Of those threads whose process `is_wanted`.
pub fn report(
    recording: &Recording,
    names: &Names,
    intervals: &[OffCpuInterval],
    is_wanted: impl Fn(u32) -> bool,
) -> Report {
    let mut places = Places::of(recording, names);
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
    let strips = Strips::of(recording, threads.iter().take(STRIPS_MAX).map(|thread| thread.tid), &own);
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
        doubts: caveats(recording, &own),
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
    // What it was robbed of while it had a CPU is in both.
    let off =
        intervals.iter().filter(|interval| interval.reason != Reason::Steal).map(|interval| interval.span.length_ns());
    let name = recording.threads.get(&tid).and_then(|thread| thread.name.clone());
    Thread { pid, tid, name, on_cpu_ns, off_cpu_ns: off.sum(), reasons, strip: None }
}

fn row(recording: &Recording, places: &mut Places<'_>, reason: Reason, intervals: &[&OffCpuInterval]) -> Row {
    let mut whole: Vec<u64> = Vec::new();
    let (mut place, mut taken, mut woken) = (TimeByName::default(), TimeByName::default(), TimeByName::default());
    let mut waited_ns = None;
    for interval in intervals {
        let length_ns = interval.span.length_ns();
        if interval.edges == Edges::Seen {
            whole.push(length_ns);
        }
        place.add(interval.stack.and_then(|stack| places.at(stack)).map(str::to_owned), length_ns);
        let taker = interval.taken_by.filter(|(_, tid)| reason.is_forced() && *tid != 0);
        taken.add(taker.map(|(_, tid)| who(recording, tid)), length_ns);
        woken.add(interval.woken_by.map(|(tid, _)| who(recording, tid)), length_ns);
        let after =
            interval.woken_at_ns.filter(|_| !reason.is_forced()).map(|at| interval.span.end_ns.saturating_sub(at));
        waited_ns = waited_ns.max(after);
    }
    whole.sort_unstable();
    Row {
        reason: reason.words(),
        count: intervals.len() as u64,
        open: (intervals.len() - whole.len()) as u64,
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

/// Time by what it was spent on.
#[derive(Default)]
struct TimeByName {
    sums: HashMap<String, u64>,
    total: u64,
}

impl TimeByName {
    /// What is not known is of the whole too.
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

/// The smallest of sorted lengths that so much of them does not exceed.
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

/// How long each thread had a CPU, and its process.
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

/// The longest of them one by one, and how many are not among them.
fn listed(recording: &Recording, places: &mut Places<'_>, intervals: &[OffCpuInterval]) -> (Vec<ListedInterval>, u64) {
    let mut longest: Vec<&OffCpuInterval> = intervals.iter().collect();
    longest.sort_by_key(|interval| std::cmp::Reverse(interval.span.length_ns()));
    let left_out = longest.len().saturating_sub(LISTED_MAX) as u64;
    longest.truncate(LISTED_MAX);
    longest.sort_by_key(|interval| (interval.span.start_ns, interval.tid));
    (longest.into_iter().map(|interval| one(recording, places, interval)).collect(), left_out)
}

/// Those that something kept from going on. What sleeps, polls, or waits to be started again may be idle.
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
