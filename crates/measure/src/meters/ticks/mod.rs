//! Observes a server's tick from outside.
//! The kernel records when the server's threads got a CPU and when they slept.
//! The kernel's records show which activity repeats, which activity is the tick, how long a tick takes and how late it is.
//! The server needs no symbols and no support, and is not affected.
//!
//! | part | what it does |
//! |---|---|
//! | [`threads`] | the server's threads, the busiest where there are many |
//! | [`watcher`] | reads the records while a window lasts, and reports its cost |
//! | [`wakes`] | turns switch records into the work of each wake |
//! | [`stream`] | the wakes of all threads, live or from a file |
//! | [`entries`] | ticks that begin where a thread enters a function |
//! | [`function`] | a function that the server enters once per tick, and how its code is found |
//! | [`views`] | what one thread, a pool of threads or the whole server did |
//! | [`tempo`] | whether an activity is periodic, and the period |
//! | `between` | whether some ticks are always late, so that only every second tick looks regular |
//! | [`track`] | which wakes are ticks |
//! | `heavier` | loops that show only in the work of wakes |
//! | [`mod@pacing`] | whether ticks come at fixed times, or each tick after the previous one |
//! | [`loops`] | all periodic activities, with their shares of the work and their threads |
//! | [`choice`] | which loop is the tick, or why that is unclear |
//! | [`mod@account`] | how late, how long, how many missing |
//! | [`picture`] | some periods as a row of cells for each thread |

pub mod account;
mod between;
pub mod choice;
pub mod entries;
mod finer;
pub mod function;
mod heavier;
pub mod loops;
pub mod pacing;
pub mod picture;
pub mod stream;
pub mod tempo;
pub mod threads;
pub mod track;
pub mod views;
pub mod wakes;
pub mod watcher;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_functions;

use evenkeel_sys::clock;
use serde::Serialize;

use self::account::{Account, Due, account};
use self::choice::{Choice, Wanted, choose};
use self::loops::TickLoop;
use self::picture::Picture;
use self::stream::Stream;
use self::tempo::{NoTick, Pacing};
use self::wakes::Unseen;
use self::watcher::Watcher;
use crate::{MeterError, Samples, Unit, Watch};

const STEP_NS: u64 = 50_000_000;

/// The settings of the ticks meter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's processes.
    pub pids: Vec<u32>,
    /// The user's knowledge of the tick.
    pub wanted: Wanted,
    /// The duration, in nanoseconds.
    pub for_ns: u64,
}

/// A thread of the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// The thread's process.
    pub pid: u32,
    /// The thread's number.
    pub tid: u32,
    /// The thread's name.
    pub name: String,
    /// The thread's CPU use, from 0 to 1.
    pub cpu_share: f64,
    /// How often the thread woke, per second.
    pub wakes_per_s: f64,
}

/// The report of the ticks meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// How long the server was watched, in nanoseconds.
    pub watched_ns: u64,
    /// The server's CPU use, from 0 to the number of CPUs.
    pub cpu_share: f64,
    /// All loops of the server, and which loop is the tick.
    #[serde(flatten)]
    pub choice: Choice,
    /// The tick's numbers. None if the tick is unclear.
    pub ticks: Option<Ticks>,
    /// The threads that ran, with the busiest first.
    pub threads: Vec<Thread>,
    /// The number of threads that were not watched because the server has too many.
    pub unwatched_threads: usize,
    /// The share of the server's CPU time in threads that were not watched, such as threads that end at once.
    #[serde(skip_serializing_if = "is_zero")]
    pub unwatched_cpu_share: f64,
    /// Child processes, which were not watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<u32>,
    /// A few periods, thread by thread.
    pub picture: Option<Picture>,
    /// The records that were lost.
    pub unseen: Unseen,
    /// Whether all watched threads of the server ended in the meantime.
    pub is_over: bool,
    /// The CPU use of the meter's reading thread, from 0 to 1.
    pub reader_cpu_share: f64,
}

/// A tick's numbers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ticks {
    /// The number of ticks per second.
    pub tick_hz: f64,
    /// Whether ticks come at fixed times, or each tick a period after the previous one.
    pub pacing: Pacing,
    /// The reference of lateness.
    pub due: Due,
    /// The number of observed ticks.
    pub ticks: u64,
    /// Due times at which no tick began before the next tick was due.
    pub missed_ticks: u64,
    /// Due times at which the thread was already awake.
    pub hidden_ticks: u64,
    /// Ticks during which the thread lost the CPU.
    pub preempted_ticks: u64,
    /// Ticks that continued on another CPU.
    pub moved_ticks: u64,
    /// Wakes between the ticks, per second.
    pub other_wakes_per_s: f64,
    /// The share of the CPU time of the tick's threads that is in ticks.
    pub work_share: f64,
    /// The times from one tick's start to the next.
    pub interval_ns: Samples,
    /// The times from due to the start of a tick.
    pub lateness_ns: Samples,
    /// The time of each tick on a CPU.
    pub work_ns: Samples,
    /// The times from the start to the end of a tick.
    pub wall_ns: Samples,
    /// The times from due to the end of a tick.
    pub due_to_done_ns: Samples,
}

impl Ticks {
    fn new(account: &Account, span_ns: u64) -> Ticks {
        let samples = |name: &str, values: &[u64]| {
            let mut samples = Samples::new(name, Unit::Ns, []);
            values.iter().for_each(|value| samples.record(*value));
            samples
        };
        Ticks {
            tick_hz: account.tempo.hz(),
            pacing: account.tempo.pacing,
            due: account.due,
            ticks: account.ticks,
            missed_ticks: account.missed,
            hidden_ticks: account.hidden,
            preempted_ticks: account.preempted_ticks,
            moved_ticks: account.moved_ticks,
            other_wakes_per_s: account.other_wakes as f64 / span_ns.max(1) as f64 * 1e9,
            work_share: account.work_share,
            interval_ns: samples("tick_interval_ns", &account.interval_ns),
            lateness_ns: samples("tick_lateness_ns", &account.lateness_ns),
            work_ns: samples("tick_work_ns", &account.work_ns),
            wall_ns: samples("tick_wall_ns", &account.wall_ns),
            due_to_done_ns: samples("due_to_done_ns", &account.due_to_done_ns),
        }
    }
}

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// Records the server's threads.
///
/// # Errors
/// Fails if the server does not exist, or may not be watched.
pub fn record(settings: &Settings, watch: &Watch<'_>) -> Result<Stream, MeterError> {
    let mut watcher = begun(settings, watch)?;
    let start_ns = clock::monotonic_ns();
    let due_ns = start_ns.saturating_add(settings.for_ns);
    while clock::monotonic_ns() < due_ns && !watch.stopped() {
        let share = (clock::monotonic_ns() - start_ns) as f64 / settings.for_ns.max(1) as f64;
        watch.progress(share, "watching the server's threads");
        clock::sleep_until_ns(due_ns.min(clock::monotonic_ns() + STEP_NS));
    }
    let mut stream = watcher.end();
    stream.children = threads::children(&settings.pids);
    Ok(stream)
}

/// Watches the server until its tick is clear, for at least `for_ns` and at most `most_ns`. Returns the choice and its stream.
///
/// # Errors
/// Fails if the server does not exist, or may not be watched.
pub fn look(settings: &Settings, most_ns: u64, watch: &Watch<'_>) -> Result<(Choice, Stream), MeterError> {
    let mut watcher = begun(settings, watch)?;
    watch.progress(0.0, "looking for the tick");
    threads::sleep(settings.for_ns, watch);
    let mut stream = watcher.end();
    let mut choice = choose(&stream, &settings.wanted);
    if choice.tick.is_none() && most_ns > settings.for_ns {
        watch.progress(0.3, "searching for the tick for longer, because it is unclear");
        threads::sleep(most_ns - settings.for_ns, watch);
        stream = stream.joined(watcher.end());
        choice = choose(&stream, &settings.wanted);
    }
    Ok((choice, stream))
}

/// Makes a watcher of the server's threads, and begins its window.
fn begun(settings: &Settings, watch: &Watch<'_>) -> Result<Watcher, MeterError> {
    let watched = threads::worth_watching(&settings.pids, settings.wanted.thread.as_deref(), watch)?;
    let what = format!("watch the threads of {}", threads::named(&settings.pids));
    let function = settings.wanted.function.as_ref().map(|function| function.probed(&settings.pids)).transpose()?;
    let mut watcher = Watcher::start(&watched, function).map_err(|errno| refused(&what, errno))?;
    watcher.begin();
    Ok(watcher)
}

fn refused(what: &str, errno: evenkeel_sys::Errno) -> MeterError {
    match errno.is_denial() {
        true => MeterError::refused(format!("{what} (it takes root, or CAP_PERFMON)"), errno),
        false => MeterError::refused(what, errno),
    }
}

/// The result for a stream.
pub fn report(stream: &Stream, wanted: &Wanted) -> Report {
    let choice = choose(stream, wanted);
    let span_ns = stream.span_ns();
    let ticks = choice.tick().ok().and_then(|tick| {
        let account = tick_account(stream, tick, None).ok()?;
        Some(Ticks::new(&account, span_ns))
    });
    let ran = stream.threads.iter().filter(|thread| thread.switches > 0);
    let mut threads: Vec<Thread> = ran
        .map(|thread| Thread {
            pid: thread.pid,
            tid: thread.tid,
            name: thread.name.clone(),
            cpu_share: thread.ran_ns() as f64 / span_ns as f64,
            wakes_per_s: thread.wakes.len() as f64 / span_ns as f64 * 1e9,
        })
        .collect();
    threads.sort_by(|one, other| other.cpu_share.total_cmp(&one.cpu_share).then(one.tid.cmp(&other.tid)));
    Report {
        watched_ns: span_ns,
        // A thread that never sleeps has no complete wake.
        cpu_share: stream.ran_ns().max(stream.cpu_ns) as f64 / span_ns as f64,
        picture: picture::draw(stream, &choice),
        choice,
        ticks,
        threads,
        unwatched_threads: stream.unwatched,
        unwatched_cpu_share: stream.unwatched_cpu_share(),
        children: stream.children.clone(),
        unseen: stream.unseen,
        is_over: !stream.threads.is_empty() && stream.threads.iter().all(|thread| thread.is_over),
        reader_cpu_share: stream.reader_cpu_ns as f64 / span_ns as f64,
    }
}

/// The account of the ticks of a known loop. `asked_ns` comes from an earlier account, if there is one.
///
/// # Errors
/// Returns why this stream has no ticks.
pub fn tick_account(stream: &Stream, tick: &TickLoop, asked_ns: Option<f64>) -> Result<Account, NoTick> {
    let Some(view) = views::view_of(stream, &tick.of) else { return Err(NoTick::FewWakes) };
    // The sleep time of a faster loop is not the due time of a tick that begins at the wakes of that loop.
    let timers = if tick.within_hz.is_some() { &[][..] } else { &view.timers[..] };
    account(&view.wakes, timers, Some(&tick.tempo), asked_ns)
}

/// The share of windows of this length within `stream` in which the tick can be followed. It is 0 without a complete window.
pub fn share_followed(stream: &Stream, tick: &TickLoop, window_ns: u64) -> f64 {
    let windows = stream.span_ns() / window_ns.max(1);
    let from_ns = |window: u64| stream.from_ns + window * window_ns;
    let is_followed =
        |window: &u64| tick_account(&stream.between(from_ns(*window), from_ns(window + 1)), tick, None).is_ok();
    (0..windows).filter(is_followed).count() as f64 / windows.max(1) as f64
}
