//! A server's tick, seen from outside: the kernel's records of when one of its threads was given a CPU and when it slept again say how
//! often it ticks, how long a tick takes and how late it is. The server needs no symbols and no help, and does not notice.
//!
//! | part | what it does |
//! |---|---|
//! | [`wakes`] | records of switches to what was done each time that the thread was awake |
//! | [`tempo`] | whether that keeps time, and which |
//! | [`track`] | which wakes are ticks |
//! | [`account`] | how late, how long, how many missing |
//! | [`watcher`] | reads the records while a window lasts, and says what it cost |
//! | [`threads`] | which thread it is |

pub mod account;
pub mod tempo;
pub mod threads;
pub mod track;
pub mod wakes;
pub mod watcher;

#[cfg(test)]
mod tests;

use evenkeel_sys::clock;
use serde::Serialize;

use self::account::{Account, Due, account};
use self::tempo::{NoTick, Pacing};
use self::threads::{Look, look};
use self::wakes::Unseen;
use self::watcher::{Watcher, Window};
use crate::{MeterError, Samples, Unit, Watch};

const STEP_NS: u64 = 50_000_000;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's processes.
    pub pids: Vec<u32>,
    /// The name of the thread; none chooses the one that keeps time and works most.
    pub thread: Option<String>,
    /// How long, in nanoseconds.
    pub for_ns: u64,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Which thread, and which others there are.
    pub look: Look,
    /// How long it was watched, in nanoseconds.
    pub watched_ns: u64,
    /// How often it woke, a second.
    pub wakes_per_s: f64,
    /// What it took of a CPU, from 0 to 1.
    pub cpu_share: f64,
    /// Its tick; none if there is none to be seen.
    pub ticks: Option<Ticks>,
    /// Why there is none.
    pub why: Option<NoTick>,
    /// What was not seen.
    pub unseen: Unseen,
    /// Whether the server ended meanwhile.
    pub is_over: bool,
    /// What reading the records took of a CPU, from 0 to 1.
    pub reader_cpu_share: f64,
}

/// A tick's numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Ticks {
    /// Ticks a second.
    pub tick_hz: f64,
    /// How their times hang together.
    pub pacing: Pacing,
    /// What lateness is counted from.
    pub due: Due,
    /// Ticks that were seen.
    pub ticks: u64,
    /// Times at which none began before the next was due.
    pub missed_ticks: u64,
    /// Times at which the thread was awake already.
    pub hidden_ticks: u64,
    /// Ticks during which it lost the CPU.
    pub preempted_ticks: u64,
    /// Ticks that went on on another CPU.
    pub moved_ticks: u64,
    /// Wakes between the ticks, a second.
    pub other_wakes_per_s: f64,
    /// The share of its work that it does in ticks.
    pub work_share: f64,
    /// From one tick's beginning to the next.
    pub interval_ns: Samples,
    /// From due to begun.
    pub lateness_ns: Samples,
    /// Time on a CPU.
    pub work_ns: Samples,
    /// From begun to done.
    pub wall_ns: Samples,
    /// From due to done.
    pub due_to_done_ns: Samples,
}

impl Ticks {
    fn of(account: &Account, span_ns: u64) -> Ticks {
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

/// Measures.
///
/// # Errors
/// If the server is not there, or may not be watched.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let look = watch.part(0.0, 0.2, |part| look(&settings.pids, settings.thread.as_deref(), part))?;
    let what = format!("watch thread {} ({})", look.chosen.name, look.chosen.tid);
    let mut watcher = Watcher::of(look.chosen.tid).map_err(|errno| MeterError::refused(what, errno))?;
    watcher.begin();
    let start_ns = clock::monotonic_ns();
    let due_ns = start_ns.saturating_add(settings.for_ns);
    while clock::monotonic_ns() < due_ns && !watch.stopped() {
        let share = (clock::monotonic_ns() - start_ns) as f64 / settings.for_ns.max(1) as f64;
        watch.progress(0.2 + 0.8 * share, "watching the tick");
        clock::sleep_until_ns(due_ns.min(clock::monotonic_ns() + STEP_NS));
    }
    Ok(report(look, &watcher.end()))
}

fn report(look: Look, window: &Window) -> Report {
    let span_ns = window.to_ns.saturating_sub(window.from_ns).max(1);
    let ran_ns: u64 = window.wakes.iter().map(|wake| wake.on_cpu_ns).sum();
    let said = match window.is_too_much {
        true => Err(NoTick::TooMany),
        false => account(&window.wakes, &window.asked, look.chosen.tempo.as_ref(), None),
    };
    Report {
        watched_ns: span_ns,
        wakes_per_s: window.wakes.len() as f64 / span_ns as f64 * 1e9,
        cpu_share: ran_ns as f64 / span_ns as f64,
        why: said.as_ref().err().copied(),
        ticks: said.ok().map(|account| Ticks::of(&account, span_ns)),
        unseen: window.unseen,
        is_over: window.is_over,
        reader_cpu_share: window.reader_cpu_ns as f64 / span_ns as f64,
        look,
    }
}
