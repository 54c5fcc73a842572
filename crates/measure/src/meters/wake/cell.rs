//! `Cell`: all wakes of one kind, place, idle gap and variant.

use serde::Serialize;

use super::idle::Idle;
use super::kind::{Kind, Place};
use super::turn::TurnLatencies;
use super::variant::Variant;
use crate::{Samples, Unit};

/// The result for one way to be woken.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// What wakes the waiter.
    pub kind: Kind,
    /// The CPUs of the waker and the waiter.
    #[serde(flatten)]
    pub place: Place,
    /// How long the waiter had slept, in nanoseconds.
    pub gap_ns: u64,
    /// How the waiter waited.
    pub variant: Variant,
    /// The time until the waiter ran, in nanoseconds: from the due time of a timer, or from the waker's start.
    pub latency: Samples,
    /// What the waiter's CPU did during the waits.
    pub idle: Idle,
    /// The p50 of each round. None for a round that lost every wake.
    #[serde(skip)]
    pub(super) p50_ns_by_round: Vec<Option<u64>>,
}

impl Cell {
    pub(super) fn new(kind: Kind, place: Place, gap_ns: u64, variant: Variant) -> Cell {
        let waker = place.waker_cpu.map_or("the timer".to_owned(), |cpu| format!("CPU {cpu}"));
        let conditions = [
            ("kind", kind.name().to_owned()),
            ("variant", variant.name().to_owned()),
            ("gap_us", (gap_ns as f64 / 1000.0).to_string()),
            ("waker", waker),
            ("waiter", format!("CPU {}", place.waiter_cpu)),
        ];
        let latency = Samples::new("wake_latency_ns", Unit::Ns, conditions);
        Cell { kind, place, gap_ns, variant, latency, idle: Idle::default(), p50_ns_by_round: Vec::new() }
    }

    /// Adds a turn.
    pub(super) fn add(&mut self, mut seen: TurnLatencies) {
        // The histogram starts at 1 ns. A wake within the same nanosecond is recorded as 1 ns and is not lost.
        seen.latencies_ns.iter().for_each(|ns| self.latency.record((*ns).max(1)));
        if let Some(why) = &seen.why {
            self.latency.lose(seen.lost, why);
        }
        seen.latencies_ns.sort_unstable();
        self.p50_ns_by_round.push(seen.latencies_ns.get(seen.latencies_ns.len() / 2).copied());
    }
}
