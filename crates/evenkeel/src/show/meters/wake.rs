//! The page of `measure wake`.

use evenkeel_measure::Unit;
use evenkeel_measure::meters::wake::{Cell, Kind, Part, Parts, Place, Report, Variant};

use crate::show::blocks::Block;
use crate::show::units::{percent_to, quantity, real_quantity};

/// A CPU that is idle for less of the time that its sleeper sleeps has other work: it may never have gone to sleep.
const IDLE_SHARE_MIN: f64 = 0.5;
/// Only a gap of this length or more is mostly sleep.
const SLEEPY_GAP_NS: u64 = 200_000;
/// A part is worth a sentence from here on, and if it is this share of the whole.
const PART_NS_MIN: f64 = 2_000.0;
const PART_SHARE_MIN: f64 = 0.3;

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading("How late one is woken")];
    blocks.push(Block::row("took", format!("{}, {} rounds", quantity(report.wall_ns, Unit::Ns), report.rounds)));
    let slack = report.plain_slack_ns.map_or("unknown".to_owned(), |ns| quantity(ns, Unit::Ns));
    blocks.push(Block::row("timer slack", slack));
    let driver = report.idle_driver.as_deref().unwrap_or("none: /dev/cpu_dma_latency has nothing to choose among");
    blocks.push(Block::row("idle driver", driver));
    if let Some(ns) = report.guest_halt_poll_ns {
        blocks.push(Block::row("halt polling", quantity(ns, Unit::Ns)));
    }
    let mut seen: Vec<(Kind, Place)> = Vec::new();
    for parts in &report.parts {
        if !seen.contains(&(parts.kind, parts.place)) {
            seen.push((parts.kind, parts.place));
            blocks.extend(of_place(report, parts.kind, parts.place));
        }
    }
    for samples in &report.round_trips {
        if let Some(summary) = samples.histogram.summary() {
            let cpus = samples.conditions.get("cpus").map_or("", String::as_str);
            let words =
                format!("{} (p99 {}) on CPUs {cpus}", quantity(summary.p50, Unit::Ns), quantity(summary.p99, Unit::Ns));
            blocks.push(Block::row("pipe round trip", words));
        }
    }
    for skipped in &report.skipped {
        blocks.push(Block::Warning(format!("left out: {}: {}", skipped.what, skipped.why)));
    }
    blocks
}

fn of_place(report: &Report, kind: Kind, place: Place) -> Vec<Block> {
    let what = match kind {
        Kind::Timer => "A timer (clock_nanosleep)",
        Kind::Timerfd => "A timer that is a file (timerfd)",
        Kind::Futex => "Another CPU, by futex",
        Kind::Udp => "Another CPU, by UDP on the loopback",
    };
    let on = match place.waker_cpu {
        Some(waker) => format!("CPU {waker} wakes CPU {}", place.waiter_cpu),
        None => format!("on CPU {}", place.waiter_cpu),
    };
    let all: Vec<&Parts> = report.parts.iter().filter(|parts| (parts.kind, parts.place) == (kind, place)).collect();
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| (cell.kind, cell.place) == (kind, place)).collect();
    let mut blocks = vec![Block::heading(format!("{what}, {on}"))];
    let rows = all.iter().map(|parts| row(parts, &cells));
    let header = ["idle gap", "p50", "p99", "slack", "class", "idle exit", "kept awake", "spinning"];
    blocks.push(Block::table(header, rows.collect()));
    blocks.extend(
        all.iter()
            .filter_map(|parts| largest(parts))
            .max_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(_, words)| Block::Note(words)),
    );
    blocks.extend(idle(&cells));
    blocks.extend(lost(&cells));
    // One is enough to see the shape: after a millisecond, or the gap that is nearest to it.
    let plain = cells.iter().filter(|cell| cell.variant == Variant::Plain);
    let shown = plain.min_by_key(|cell| cell.gap_ns.abs_diff(1_000_000));
    blocks.extend(shown.map(|cell| Block::Histogram(cell.latency.clone())));
    blocks
}

fn row(parts: &Parts, cells: &[&Cell]) -> [String; 8] {
    let part = |part: Option<Part>| part.map_or("-".to_owned(), |part| real_quantity(part.ns, Unit::Ns));
    let of = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| quantity(ns, Unit::Ns));
    let plain = cells.iter().find(|cell| cell.variant == Variant::Plain && cell.gap_ns == parts.gap_ns);
    [
        quantity(parts.gap_ns, Unit::Ns),
        of(parts.plain_ns),
        of(plain.and_then(|cell| cell.latency.histogram.quantile(0.99))),
        part(parts.slack),
        part(parts.class),
        part(parts.idle_exit),
        part(parts.idle_exit_kept_awake),
        of(parts.floor_ns),
    ]
}

/// The largest part in words, with how large a share it is.
fn largest(parts: &Parts) -> Option<(f64, String)> {
    let plain_ns = parts.plain_ns? as f64;
    let candidates = [
        (parts.slack, "is timer slack: gone with a slack of 1 ns (prctl, no right needed)"),
        (parts.class, "is the ordinary class: gone in the real-time class"),
        (
            parts.idle_exit,
            "is the CPU leaving idle: gone with /dev/cpu_dma_latency held at 0 (see `evenkeel explain cpuidle.dma_latency_us`)",
        ),
        (parts.idle_exit_kept_awake, "is the CPU leaving idle: gone when a thread of the idle class keeps it awake"),
    ];
    let parts_told = candidates.into_iter().filter_map(|(part, words)| Some((part?, words)));
    // A part that a quarter of the rounds did not see may be chance.
    let sure = parts_told.filter(|(part, _)| part.low_ns > 0.0 && part.ns >= PART_NS_MIN);
    let (part, words) = sure.max_by(|(one, _), (other, _)| one.ns.total_cmp(&other.ns))?;
    let share = part.ns / plain_ns;
    let of = |ns| real_quantity(ns, Unit::Ns);
    let told =
        format!("After {} of sleep, {} of {} {words}.", quantity(parts.gap_ns, Unit::Ns), of(part.ns), of(plain_ns));
    (share >= PART_SHARE_MIN).then_some((share, told))
}

/// Whether leaving idle could be seen at all.
fn idle(cells: &[&Cell]) -> Option<Block> {
    let sleepy = cells.iter().filter(|cell| cell.variant == Variant::Plain && cell.gap_ns >= SLEEPY_GAP_NS);
    let shares: Vec<f64> = sleepy.filter_map(|cell| cell.idle.idle_share).collect();
    if shares.is_empty() {
        return None;
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let percent = percent_to(0, mean);
    Some(if mean < IDLE_SHARE_MIN {
        let words = format!(
            "The CPU was idle for {percent} of the time only, other work had it: what leaving idle takes could not be seen."
        );
        Block::Warning(words)
    } else {
        Block::Note(format!("The CPU was idle for {percent} of the plain waits{}.", states(cells)))
    })
}

fn states(cells: &[&Cell]) -> String {
    let plain = cells.iter().filter(|cell| cell.variant == Variant::Plain);
    let mut sums = std::collections::BTreeMap::<&str, u64>::new();
    for (state, count) in plain.flat_map(|cell| &cell.idle.entered) {
        *sums.entry(state).or_default() += count;
    }
    let told: Vec<String> = sums.iter().map(|(state, count)| format!("{state} {count} times")).collect();
    if told.is_empty() { String::new() } else { format!(", and entered {}", told.join(", ")) }
}

fn lost(cells: &[&Cell]) -> Option<Block> {
    let count: u64 = cells.iter().map(|cell| cell.latency.lost.count).sum();
    let why = cells.iter().find_map(|cell| cell.latency.lost.why.as_deref())?;
    Some(Block::Warning(format!("lost: {count} wakes ({why})")))
}
