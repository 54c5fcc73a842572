//! Views of a [`Stream`]: the activity of one thread, of a pool of threads, and of the whole server.
//! If a runtime moves its tick between threads, no single thread shows the tick.
//! So intervals on a CPU that closely follow each other form one burst of work.

use std::collections::BTreeMap;

use evenkeel_hostfs::sleep_deadline::Wait;

use super::entries::ticks_of;
use super::stream::{Asked, Stream, ThreadLog};
use super::wakes::Wake;

/// Work that begins this soon after the last thread slept continues that thread's burst, because the last thread woke the next one.
/// A handover takes 5 to 60 us on the machines that we measured.
pub const JOIN_NS: u64 = 120_000;
/// A share of the server's work that counts as large.
const MUCH: f64 = 0.1;
/// A timer wakes a thread for its tick only if the timer fires hardly more often than the tick.
const WAKES_A_TICK_MAX: f64 = 1.5;
/// The maximum number of bursts of a view.
const BURSTS_MAX: usize = 1 << 18;

/// The threads of a view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Workers {
    /// One thread, by its number.
    Thread(u32),
    /// Threads whose names differ only in digits.
    Pool(String),
    /// All threads.
    Process,
    /// Threads that enter this function, from each entry on.
    Function(String),
}

/// When a thread requested to be woken, and when the work of that wake began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The requested wake time, on the monotonic clock.
    pub due_ns: u64,
    /// When the wake or the burst began.
    pub begun_ns: u64,
}

/// The joint activity of some threads.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The threads of the view.
    pub of: Workers,
    /// Indices of the threads in the stream.
    pub threads: Vec<usize>,
    /// The wakes of one thread, or the bursts of several threads, in order of time.
    pub wakes: Vec<Wake>,
    /// The timers of wakes whose requested time is known.
    pub timers: Vec<Timer>,
}

impl View {
    /// Whether the view shows enough of the server's work to contain the tick. Only these views get the costly search.
    pub fn holds_much_of(&self, stream: &Stream) -> bool {
        let ran_ns = self.wakes.iter().fold(0_u64, |sum, wake| sum.saturating_add(wake.on_cpu_ns));
        ran_ns as f64 >= MUCH * stream.ran_ns() as f64
    }
}

/// The pool name of a thread: the thread's name without digits.
pub fn pool_name(name: &str) -> String {
    let letters: String = name.chars().map(|letter| if letter.is_ascii_digit() { '#' } else { letter }).collect();
    let mut pool = String::with_capacity(letters.len());
    letters.chars().for_each(|letter| {
        if letter != '#' || !pool.ends_with('#') {
            pool.push(letter);
        }
    });
    pool
}

/// The view of one thread.
pub fn of_thread(stream: &Stream, at: usize) -> View {
    let thread = &stream.threads[at];
    let timers = timers(thread).into_iter().map(|(due_ns, wake)| Timer { due_ns, begun_ns: wake.start_ns }).collect();
    View { of: Workers::Thread(thread.tid), threads: vec![at], wakes: thread.wakes.clone(), timers }
}

/// The joint view of some threads.
pub fn of_threads(stream: &Stream, of: Workers, threads: Vec<usize>) -> View {
    let wakes = bursts(stream, &threads);
    let woken = threads.iter().flat_map(|at| timers(&stream.threads[*at]));
    let timers = woken.filter_map(|(due_ns, wake)| {
        let after = wakes.partition_point(|burst| burst.start_ns <= wake.start_ns);
        let burst = wakes.get(after.checked_sub(1)?)?;
        // A timer that fires during a burst did not begin it.
        (wake.start_ns - burst.start_ns <= JOIN_NS).then_some(Timer { due_ns, begun_ns: burst.start_ns })
    });
    let mut timers: Vec<Timer> = timers.collect();
    timers.sort_unstable_by_key(|timer| (timer.begun_ns, timer.due_ns));
    // The first timer of a burst is the due time of the burst.
    timers.dedup_by_key(|timer| timer.begun_ns);
    View { of, threads, wakes, timers }
}

/// All views: each thread that ran, each pool of several threads, and the whole server.
pub fn all(stream: &Stream) -> Vec<View> {
    let ran: Vec<usize> = (0..stream.threads.len()).filter(|at| !stream.threads[*at].wakes.is_empty()).collect();
    let mut views: Vec<View> = ran.iter().map(|at| of_thread(stream, *at)).collect();
    let mut pools: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for at in &ran {
        pools.entry(pool_name(&stream.threads[*at].name)).or_default().push(*at);
    }
    let pools = pools.into_iter().filter(|(_, threads)| threads.len() > 1 && threads.len() < ran.len());
    views.extend(pools.map(|(name, threads)| of_threads(stream, Workers::Pool(name), threads)));
    if ran.len() > 1 {
        views.push(of_threads(stream, Workers::Process, ran));
    }
    views
}

/// The view of this kind. None if none of its threads ran.
pub fn view_of(stream: &Stream, of: &Workers) -> Option<View> {
    let ran = (0..stream.threads.len()).filter(|at| !stream.threads[*at].wakes.is_empty());
    let threads: Vec<usize> = match of {
        Workers::Thread(tid) => {
            return ran.into_iter().find(|at| stream.threads[*at].tid == *tid).map(|at| of_thread(stream, at));
        }
        Workers::Pool(name) => ran.filter(|at| pool_name(&stream.threads[*at].name) == *name).collect(),
        Workers::Process => ran.collect(),
        Workers::Function(name) => return of_function(stream, name),
    };
    (!threads.is_empty()).then(|| of_threads(stream, of.clone(), threads))
}

/// The view of the threads that enter the function. None if no thread did.
pub fn of_function(stream: &Stream, name: &str) -> Option<View> {
    let mut threads = Vec::new();
    let mut all: Vec<(Wake, Wake)> = Vec::new();
    let mut due: Vec<Timer> = Vec::new();
    let mut wakes = 0;
    for (at, thread) in stream.threads.iter().enumerate() {
        let ticks = ticks_of(thread);
        if ticks.is_empty() {
            continue;
        }
        wakes += thread.wakes.len();
        threads.push(at);
        let woken = timers(thread);
        due.extend(woken.into_iter().filter_map(|(due_ns, wake)| {
            let (tick, _) = ticks.iter().find(|(_, of)| of.start_ns == wake.start_ns)?;
            Some(Timer { due_ns, begun_ns: tick.start_ns })
        }));
        all.extend(ticks);
    }
    // A poll's sleep time is not the due time of a tick if the tick begins at only some of the poll's wakes.
    if wakes as f64 > WAKES_A_TICK_MAX * all.len() as f64 {
        due.clear();
    }
    all.sort_by_key(|(tick, _)| (tick.start_ns, tick.end_ns));
    due.sort_unstable_by_key(|timer| (timer.begun_ns, timer.due_ns));
    due.dedup_by_key(|timer| timer.begun_ns);
    let wakes = all.into_iter().map(|(tick, _)| tick).collect();
    (!threads.is_empty()).then(|| View { of: Workers::Function(name.to_owned()), threads, wakes, timers: due })
}

/// The requested wake times of a thread that was observed asleep, each with the following wake.
fn timers(thread: &ThreadLog) -> Vec<(u64, Wake)> {
    let due = |Asked { at_ns, sleep }: &Asked| {
        let next = thread.wakes.partition_point(|wake| wake.start_ns <= *at_ns);
        let wake = thread.wakes.get(next)?;
        let slept_ns = next.checked_sub(1).map(|before| thread.wakes[before].end_ns);
        match sleep.wait {
            Wait::Until(due_ns) => Some((due_ns, *wake)),
            Wait::For(ns) => Some((slept_ns.filter(|slept_ns| slept_ns <= at_ns)?.saturating_add(ns), *wake)),
            Wait::Open | Wait::Unknown => None,
        }
    };
    thread.asked.iter().filter_map(due).collect()
}

/// The intervals in which these threads were on a CPU. Intervals that overlap or closely follow each other are joined.
fn bursts(stream: &Stream, threads: &[usize]) -> Vec<Wake> {
    let mut all: Vec<(usize, &Wake)> =
        threads.iter().flat_map(|at| stream.threads[*at].wakes.iter().map(move |wake| (*at, wake))).collect();
    all.sort_unstable_by_key(|(at, wake)| (wake.start_ns, wake.end_ns, *at));
    let mut bursts: Vec<Wake> = Vec::new();
    let mut last_thread = None;
    for (at, wake) in all {
        match bursts.last_mut().filter(|burst| wake.start_ns <= burst.end_ns.saturating_add(JOIN_NS)) {
            Some(burst) => {
                burst.end_ns = burst.end_ns.max(wake.end_ns);
                burst.on_cpu_ns = burst.on_cpu_ns.saturating_add(wake.on_cpu_ns);
                burst.preempted = burst.preempted.saturating_add(wake.preempted);
                burst.is_moved |= wake.is_moved || (last_thread == Some(at) && burst.cpu != wake.cpu);
            }
            None => bursts.push(*wake),
        }
        last_thread = Some(at);
        if bursts.len() >= BURSTS_MAX {
            break;
        }
    }
    bursts
}
