//! The parts of a wake are differences between variants.
//! Each difference is taken within one round, in which both variants had the same machine state.

use evenkeel_stats::{median, quantile};
use serde::Serialize;

use super::cell::Cell;
use super::kind::{Kind, Place};
use super::variant::Variant;

/// The time that one part of a wake takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakePart {
    /// The median over the rounds of one variant's p50 minus another variant's p50, in nanoseconds.
    /// The median is below 0 if the first variant was faster.
    pub ns: f64,
    /// The lower quartile over the rounds.
    pub low_ns: f64,
    /// The upper quartile over the rounds.
    pub high_ns: f64,
    /// The number of rounds that measured both variants.
    pub rounds: usize,
}

/// A wake of one kind, at one place, after one idle gap.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeParts {
    /// What wakes the waiter.
    pub kind: Kind,
    /// The CPUs of the waker and the waiter.
    #[serde(flatten)]
    pub place: Place,
    /// How long the waiter had slept, in nanoseconds.
    pub gap_ns: u64,
    /// The p50 of a thread that sets nothing.
    pub plain_ns: Option<u64>,
    /// The slack that the kernel may add to a timer: the plain wait minus a wait with 1 ns of slack. Only for timers.
    pub slack: Option<WakePart>,
    /// The effect of the scheduling class: ordinary minus real-time.
    pub class: Option<WakePart>,
    /// The cost of leaving idle states: the difference from a wait with /dev/cpu_dma_latency held at 0. None without an idle driver.
    pub idle_exit: Option<WakePart>,
    /// The cost of leaving idle: the difference from a wait in which the CPU may not idle at all.
    pub idle_exit_kept_awake: Option<WakePart>,
    /// The part that remains when the waiter does not sleep: the p50 of a spinning waiter.
    pub floor_ns: Option<u64>,
}

/// Whether this machine has idle states that /dev/cpu_dma_latency can restrict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleDriver {
    There,
    None,
}

/// Merges the cells of one kind, place and gap into one `WakeParts`.
pub(super) fn from_cells(cells: &[Cell], driver: IdleDriver) -> Vec<WakeParts> {
    let mut all: Vec<WakeParts> = Vec::new();
    for cell in cells {
        let is_there =
            |parts: &WakeParts| (parts.kind, parts.place, parts.gap_ns) == (cell.kind, cell.place, cell.gap_ns);
        if all.iter().any(is_there) {
            continue;
        }
        let same: Vec<&Cell> = cells
            .iter()
            .filter(|other| (other.kind, other.place, other.gap_ns) == (cell.kind, cell.place, cell.gap_ns))
            .collect();
        all.push(one(cell, &same, driver));
    }
    all
}

fn one(cell: &Cell, same: &[&Cell], driver: IdleDriver) -> WakeParts {
    let of = |variant| same.iter().find(|cell| cell.variant == variant).copied();
    let less = |whole, without| Some(part(of(whole)?, of(without)?)).flatten();
    // Timer slack is a separate part, so the other parts are differences from a wait with 1 ns of slack.
    let base = if cell.kind == Kind::Timer && of(Variant::Slack1).is_some() { Variant::Slack1 } else { Variant::Plain };
    let p50 = |variant| of(variant)?.latency.histogram.quantile(0.5);
    let slack = if cell.kind == Kind::Timer { less(Variant::Plain, Variant::Slack1) } else { None };
    WakeParts {
        kind: cell.kind,
        place: cell.place,
        gap_ns: cell.gap_ns,
        plain_ns: p50(Variant::Plain),
        slack,
        class: less(base, Variant::Fifo),
        idle_exit: if driver == IdleDriver::There { less(base, Variant::DmaLatency0) } else { None },
        idle_exit_kept_awake: less(base, Variant::KeptAwake),
        floor_ns: p50(Variant::Spinning),
    }
}

fn part(whole: &Cell, without: &Cell) -> Option<WakePart> {
    let both = whole.p50_ns_by_round.iter().zip(&without.p50_ns_by_round);
    let differences: Vec<f64> =
        both.filter_map(|(whole, without)| Some((*whole)? as f64 - (*without)? as f64)).collect();
    let [ns, low_ns, high_ns] = [median(&differences)?, quantile(&differences, 0.25)?, quantile(&differences, 0.75)?];
    Some(WakePart { ns, low_ns, high_ns, rounds: differences.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { waker_cpu: None, waiter_cpu: 1 };

    fn cell(variant: Variant, rounds: &[Option<u64>]) -> Cell {
        let mut cell = Cell::new(Kind::Timer, PLACE, 1_000_000, variant);
        cell.p50_ns_by_round = rounds.to_vec();
        rounds.iter().flatten().for_each(|ns| cell.latency.record(*ns));
        cell
    }

    #[test]
    fn parts_are_compared_within_their_rounds() {
        // The second round was slow for all variants. The third round lost one of the two variants. Neither makes the part larger.
        let cells = [
            cell(Variant::Plain, &[Some(70), Some(1070), Some(70)]),
            cell(Variant::Slack1, &[Some(20), Some(1020), None]),
            cell(Variant::Fifo, &[Some(16), Some(1016), Some(16)]),
            cell(Variant::KeptAwake, &[Some(3), Some(1003), Some(3)]),
            cell(Variant::DmaLatency0, &[Some(4), Some(1004), Some(4)]),
        ];
        let parts = from_cells(&cells, IdleDriver::There);
        let [parts] = parts.as_slice() else { panic!("{parts:?}") };
        let ns = |part: Option<WakePart>| part.map(|part| (part.ns, part.rounds));
        assert_eq!((ns(parts.slack), ns(parts.class)), (Some((50.0, 2)), Some((4.0, 2))));
        assert_eq!((ns(parts.idle_exit), ns(parts.idle_exit_kept_awake)), (Some((16.0, 2)), Some((17.0, 2))));
        assert_eq!((parts.plain_ns, parts.floor_ns), (Some(70), None));
    }

    #[test]
    fn without_an_idle_driver_nothing_was_held() {
        let cells = [cell(Variant::Slack1, &[Some(20)]), cell(Variant::DmaLatency0, &[Some(4)])];
        assert_eq!(from_cells(&cells, IdleDriver::None)[0].idle_exit, None);
    }
}
