//! Measures wake-up latency: by a timer, by another CPU through a word in memory, or by a UDP packet on the loopback device.
//! The latency depends on how long the thread slept.
//! The meter splits the result into parts that different settings govern (timer slack, scheduling class, leaving idle).

mod cell;
mod idle;
mod kind;
mod parts;
mod round_trip;
mod turn;
mod variant;

use std::num::NonZeroU64;

use evenkeel_hostfs::Root;
use evenkeel_sys::{clock, thread};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::clock::Skipped;
use crate::{MeterError, Samples, Watch};
pub use cell::Cell;
use idle::Counters;
pub use idle::Idle;
pub use kind::{Kind, Place};
use parts::IdleDriver;
pub use parts::{WakePart, WakeParts};
use turn::Turn;
pub use variant::Variant;

/// The maximum number of cells. More cells would make the report unreadable and take 150 MB.
pub const CELLS_MAX: usize = 512;
/// The longest idle gap.
pub const GAP_NS_MAX: u64 = 100_000_000;
/// The number of turns per cell to aim for.
const ROUNDS_AIMED: u64 = 8;
const ROUNDS_MAX: u64 = 1000;
const WAKES_A_TURN_MAX: u64 = 400;
/// The overhead of a turn: starting threads and reading counters.
const TURN_OVERHEAD_NS: u64 = 1_000_000;
/// The share of the time for round trips.
const ROUND_TRIPS_SHARE: f64 = 0.05;

/// The settings of the wake meter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The total time, in nanoseconds. The current round is cut off when the time is over.
    pub duration_ns: u64,
    /// How long the waiter sleeps before it is woken, in nanoseconds.
    pub gaps_ns: Vec<u64>,
    /// The kinds of wakes.
    pub kinds: Vec<Kind>,
    /// The ways to wait.
    pub variants: Vec<Variant>,
    /// The CPUs. Each CPU gets timers, and every other CPU wakes it. None lets the first allowed CPU wake the last.
    pub cpus: Option<Vec<usize>>,
    /// The timer slack of the plain wait. None keeps the initial slack of the thread.
    pub plain_slack_ns: Option<NonZeroU64>,
    /// For calibration: the waker delays each wake by this time after it has begun its work.
    pub waker_delay_ns: u64,
    /// The seed of the order of turns.
    pub seed: u64,
}

/// The report of the wake meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The timer slack of the plain wait, in nanoseconds.
    pub plain_slack_ns: Option<u64>,
    /// The kernel's idle driver. None without one, or if the kernel does not report it.
    pub idle_driver: Option<String>,
    /// How long an idle CPU of this guest polls for work before it halts, in nanoseconds. None without such polling.
    pub guest_halt_poll_ns: Option<u64>,
    /// The number of rounds per cell, except for cells that were left out.
    pub rounds: u64,
    /// How long the measurement took, in nanoseconds.
    pub wall_ns: u64,
    /// The parts of the wakes.
    pub parts: Vec<WakeParts>,
    /// Two threads that pass a byte back and forth through pipes. This is the usual way to quote the cost of a context switch.
    pub round_trips: Vec<Samples>,
    /// All measured cells.
    pub cells: Vec<Cell>,
    /// The cells that were left out.
    pub skipped: Vec<Skipped>,
}

/// Runs the measurement.
///
/// # Errors
/// Fails if the settings are invalid, or no cell could be measured.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let root = Root::live();
    let start_ns = clock::monotonic_ns();
    let mut skipped = Vec::new();
    let places = places(settings, &mut skipped)?;
    let mut cells = cells(settings, &places)?;
    let read = |path: &str| Some(root.text(path).ok()?.trim().to_owned()).filter(|text| !text.is_empty());
    let idle_driver = read("/sys/devices/system/cpu/cpuidle/current_driver").filter(|driver| driver != "none");
    let plain_slack_ns = settings.plain_slack_ns.map(NonZeroU64::get).or_else(|| thread::timer_slack_ns().ok());
    let trips_ns = (settings.duration_ns as f64 * ROUND_TRIPS_SHARE) as u64;
    let round_trips = round_trip::measure(&places, trips_ns, &mut skipped, watch);
    let until_ns = start_ns + settings.duration_ns;
    let rounds = watch
        .part(ROUND_TRIPS_SHARE, 1.0, |watch| all_rounds(&root, settings, &mut cells, until_ns, &mut skipped, watch));
    cells.retain(|cell| !cell.p50_ns_by_round.is_empty());
    if cells.is_empty() && !watch.stopped() {
        let why = skipped.first().map_or("nothing is left to measure".to_owned(), |first| first.why.clone());
        return Err(MeterError::not_possible("measure how late one is woken", why));
    }
    let driver = if idle_driver.is_some() { IdleDriver::There } else { IdleDriver::None };
    Ok(Report {
        plain_slack_ns,
        guest_halt_poll_ns: read("/sys/module/haltpoll/parameters/guest_halt_poll_ns").and_then(|ns| ns.parse().ok()),
        idle_driver,
        rounds,
        wall_ns: clock::monotonic_ns() - start_ns,
        parts: parts::from_cells(&cells, driver),
        round_trips,
        cells,
        skipped,
    })
}

/// The places to measure: timers on each CPU, and wakes from each CPU to each other CPU.
fn places(settings: &Settings, skipped: &mut Vec<Skipped>) -> Result<Vec<Place>, MeterError> {
    let ours = thread::affinity().map_err(|errno| MeterError::refused("read which CPUs may be used", errno))?;
    let (wakers, waiters) = match &settings.cpus {
        Some(cpus) => {
            if let Some(cpu) = cpus.iter().find(|cpu| !ours.contains(**cpu)) {
                let why = format!("we may run on {ours}");
                return Err(MeterError::wrong_use(format!("measure CPU {cpu}"), why));
            }
            (cpus.clone(), cpus.clone())
        }
        None => (ours.first().into_iter().collect(), ours.iter().last().into_iter().collect()),
    };
    let alone = waiters.iter().map(|cpu| Place { waker_cpu: None, waiter_cpu: *cpu });
    let pairs = waiters.iter().flat_map(|waiter_cpu| {
        let others = wakers.iter().filter(move |waker| *waker != waiter_cpu);
        others.map(|waker| Place { waker_cpu: Some(*waker), waiter_cpu: *waiter_cpu })
    });
    let places: Vec<Place> = alone.chain(pairs).collect();
    if places.iter().all(|place| place.waker_cpu.is_none()) {
        let why = "it takes two CPUs: one that sleeps and one that wakes".to_owned();
        skipped.push(Skipped { what: "wakes by another CPU".to_owned(), why });
    }
    Ok(places)
}

fn cells(settings: &Settings, places: &[Place]) -> Result<Vec<Cell>, MeterError> {
    if let Some(gap_ns) = settings.gaps_ns.iter().find(|gap_ns| !(1000..=GAP_NS_MAX).contains(*gap_ns)) {
        return Err(MeterError::wrong_use(format!("sleep for {gap_ns} ns"), "an idle gap is from 1 us to 100 ms"));
    }
    let mut all = Vec::new();
    for kind in &settings.kinds {
        for place in places.iter().filter(|place| place.waker_cpu.is_some() == kind.is_by_another_cpu()) {
            for gap_ns in &settings.gaps_ns {
                let variants = settings.variants.iter().filter(|variant| kind.takes(**variant));
                all.extend(variants.map(|variant| (*kind, *place, *gap_ns, *variant)));
            }
        }
    }
    if all.len() > CELLS_MAX {
        let why = format!(
            "that makes {} combinations, of {CELLS_MAX} at the most; name fewer CPUs, gaps or variants",
            all.len()
        );
        return Err(MeterError::wrong_use("measure them all", why));
    }
    Ok(all.into_iter().map(|(kind, place, gap_ns, variant)| Cell::new(kind, place, gap_ns, variant)).collect())
}

/// Runs round after round until the time is over. Returns the number of complete rounds.
fn all_rounds(
    root: &Root,
    settings: &Settings,
    cells: &mut [Cell],
    until_ns: u64,
    skipped: &mut Vec<Skipped>,
    watch: &Watch<'_>,
) -> u64 {
    let mut chance = ChaCha8Rng::seed_from_u64(settings.seed);
    let begin_ns = clock::monotonic_ns();
    let turn_ns = until_ns.saturating_sub(begin_ns) / ROUNDS_AIMED / (cells.len() as u64).max(1);
    let mut out = vec![false; cells.len()];
    for round in 0..ROUNDS_MAX {
        for at in in_turns(cells, &mut chance) {
            let now_ns = clock::monotonic_ns();
            if watch.stopped() || now_ns >= until_ns {
                return round;
            }
            if out[at] {
                continue;
            }
            let share = (now_ns - begin_ns) as f64 / until_ns.saturating_sub(begin_ns).max(1) as f64;
            let cell = &mut cells[at];
            watch.progress(share, &format!("{} {}", cell.kind.name(), cell.variant.name()));
            if let Err(error) = one_turn(root, settings, cell, turn_ns, watch) {
                out[at] = true;
                let skip = Skipped {
                    what: format!("{} as {}", cell.kind.name(), cell.variant.name()),
                    why: error.to_string(),
                };
                if !skipped.contains(&skip) {
                    skipped.push(skip);
                }
            }
        }
    }
    ROUNDS_MAX
}

/// The order of one round. Kinds, places and gaps are shuffled.
/// Variants that are compared with each other run one after another, in shuffled order too.
fn in_turns(cells: &[Cell], chance: &mut ChaCha8Rng) -> Vec<usize> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let is_same = |other: &Cell| (other.kind, other.place, other.gap_ns) == (cell.kind, cell.place, cell.gap_ns);
        match groups.last_mut().filter(|group| group.first().is_some_and(|first| is_same(&cells[*first]))) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups.iter_mut().for_each(|group| group.shuffle(chance));
    groups.shuffle(chance);
    groups.concat()
}

fn one_turn(
    root: &Root,
    settings: &Settings,
    cell: &mut Cell,
    turn_ns: u64,
    watch: &Watch<'_>,
) -> Result<(), MeterError> {
    let wakes = (turn_ns.saturating_sub(TURN_OVERHEAD_NS) / cell.gap_ns).clamp(1, WAKES_A_TURN_MAX);
    let turn = Turn {
        kind: cell.kind,
        place: cell.place,
        gap_ns: cell.gap_ns,
        variant: cell.variant,
        wakes: wakes as u32,
        plain_slack_ns: settings.plain_slack_ns,
        waker_delay_ns: settings.waker_delay_ns,
    };
    let before = Counters::read(root, cell.place.waiter_cpu);
    let start_ns = clock::monotonic_ns();
    let seen = turn.take(watch)?;
    let wall_ns = clock::monotonic_ns() - start_ns;
    let after = Counters::read(root, cell.place.waiter_cpu);
    cell.idle.add(&before, &after, wall_ns, seen.latencies_ns.len() as u64);
    cell.add(seen);
    Ok(())
}

/// A random seed for callers that did not choose one.
pub fn any_seed() -> u64 {
    ChaCha8Rng::seed_from_u64(clock::monotonic_ns()).random()
}
