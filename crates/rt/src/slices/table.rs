//! `Table`: the known slices of each CPU, for threads that only read them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::slice::CpuSlice;
use crate::quantum::{Quantum, Slot};
use crate::thread::ApplyStatus;

/// How much sooner than expected a CPU may be taken away, in nanoseconds. We know the end of a slice less exactly than its start.
const GOES_EARLY_NS: f64 = 50_000.0;
/// Minimum confidence of slices, from 0 to 1. Below this value, slices count as unknown.
const CONFIDENT: f64 = 0.5;

/// The known slices of all CPUs. The index is the number of the CPU.
pub(super) struct Table {
    pub(super) places: Box<[Place]>,
    pub(super) stop: AtomicBool,
}

/// The slices of one CPU. The writer writes the two words one after the other.
/// If a reader comes between the two writes, its error is at most one update of the period.
#[derive(Default)]
pub(super) struct Place {
    /// The period (upper half) and the share (lower half), in nanoseconds. 0 if no slices are known.
    lengths: AtomicU64,
    start_ns: AtomicU64,
    /// Whether the thread that follows this CPU runs on it. Empty until the thread has started.
    pub(super) pinned: OnceLock<ApplyStatus>,
}

impl Table {
    /// A table with a place for each CPU below this number.
    pub(super) fn new(cpus: usize) -> Table {
        Table { places: (0..cpus).map(|_| Place::default()).collect(), stop: AtomicBool::new(false) }
    }

    /// A table with these slices, for tests.
    #[cfg(test)]
    pub(super) fn given(slices: &[Option<CpuSlice>]) -> Table {
        let table = Table::new(slices.len());
        for (place, slice) in table.places.iter().zip(slices) {
            let Some(slice) = slice else { continue };
            place.start_ns.store(slice.start_ns, Ordering::Relaxed);
            place.lengths.store(slice.period_ns << 32 | slice.share_ns, Ordering::Relaxed);
        }
        table
    }
}

impl Place {
    #[inline]
    pub(super) fn read(&self) -> Option<CpuSlice> {
        let lengths = self.lengths.load(Ordering::Relaxed);
        if lengths == 0 {
            return None;
        }
        let start_ns = self.start_ns.load(Ordering::Relaxed);
        Some(CpuSlice { start_ns, period_ns: lengths >> 32, share_ns: lengths & u64::from(u32::MAX) })
    }

    pub(super) fn write(&self, quantum: &Quantum) {
        let Some((slice, lengths)) = lengths(quantum) else {
            return self.lengths.store(0, Ordering::Relaxed);
        };
        self.start_ns.store(slice.phase_ns, Ordering::Relaxed);
        self.lengths.store(lengths, Ordering::Relaxed);
    }
}

/// The slices, and the word with their lengths. `None` if there are no slices, or their confidence is too low.
fn lengths(quantum: &Quantum) -> Option<(&Slot, u64)> {
    let Quantum::FixedSlot(slot) = quantum else { return None };
    let share_ns = slot.share * slot.period_ns - GOES_EARLY_NS;
    let is_known = slot.confidence >= CONFIDENT && share_ns >= 1.0 && slot.period_ns <= f64::from(u32::MAX);
    is_known.then_some((slot, (slot.period_ns as u64) << 32 | share_ns as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sure_slices_are_told() {
        let slot = Slot { period_ns: 1e7, share: 0.4, phase_ns: 123, confidence: 0.9 };
        let place = Place::default();
        assert_eq!(place.read(), None);
        place.write(&Quantum::FixedSlot(slot));
        assert_eq!(place.read(), Some(CpuSlice { start_ns: 123, period_ns: 10_000_000, share_ns: 3_950_000 }));
        let unsure = Slot { confidence: 0.4, ..slot };
        let hardly_there = Slot { share: 0.004, ..slot };
        for quantum in [Quantum::None, Quantum::FixedSlot(unsure), Quantum::FixedSlot(hardly_there)] {
            place.write(&Quantum::FixedSlot(slot));
            place.write(&quantum);
            assert_eq!(place.read(), None, "{quantum}");
        }
    }
}
