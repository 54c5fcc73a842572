//! `Ring`: one thread writes, and any other thread may read, without a lock. The writer never waits.
//! A reader omits entries that were overwritten during its read.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Whether the thread kept its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum KeptCpu {
    Unknown = 0,
    Yes = 1,
    No = 2,
}

/// One scope: its number, and its start and end on the cycle counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u32,
    pub(super) start_ticks: u64,
    pub(super) end_ticks: u64,
    /// Whether the thread kept its CPU. `None` if the kernel does not report that.
    pub(super) kept: Option<bool>,
}

/// The position of the `KeptCpu` in `id`, above the scope's number.
const KEPT_SHIFT: u32 = 32;

#[derive(Debug, Default)]
struct Slot {
    /// The scope's number in the lower half, and a `KeptCpu` in the upper half.
    id: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Ring {
    slots: Box<[Slot]>,
    /// How many entries the writer has begun to write.
    begun: AtomicU64,
    /// How many entries are complete.
    done: AtomicU64,
}

/// The result of a read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) entries: Vec<Entry>,
    pub(super) overwritten: u64,
}

impl Ring {
    pub(super) fn new(entries: usize) -> Ring {
        let slots = (0..entries.next_power_of_two()).map(|_| Slot::default()).collect();
        Ring { slots, begun: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    /// Adds an entry. Only one thread may call this.
    #[inline]
    pub(super) fn push(&self, id: u32, kept: KeptCpu, start_ticks: u64, end_ticks: u64) {
        // Only this thread writes these two counters, so it reads back its own last values.
        let number = self.begun.load(Ordering::Relaxed);
        self.begun.store(number + 1, Ordering::Relaxed);
        // If a reader sees any of the stores below, it also sees that the writer began to overwrite this slot.
        fence(Ordering::Release);
        let slot = &self.slots[number as usize & (self.slots.len() - 1)];
        slot.id.store(u64::from(id) | (kept as u64) << KEPT_SHIFT, Ordering::Relaxed);
        slot.start.store(start_ticks, Ordering::Relaxed);
        slot.end.store(end_ticks, Ordering::Relaxed);
        // Release: a reader that sees this number sees the entry.
        self.done.store(number + 1, Ordering::Release);
    }

    pub(super) fn read(&self) -> Read {
        let length = self.slots.len() as u64;
        let done = self.done.load(Ordering::Acquire);
        let oldest = done.saturating_sub(length);
        let entries: Vec<Entry> = (oldest..done).map(|number| self.entry(number)).collect();
        // Entries that the writer began during the read may be torn. They replace the oldest entries of the ring.
        fence(Ordering::Acquire);
        let torn = self.begun.load(Ordering::Relaxed).saturating_sub(length).saturating_sub(oldest);
        let torn = usize::try_from(torn).unwrap_or(usize::MAX).min(entries.len());
        Read { overwritten: oldest + torn as u64, entries: entries[torn..].to_vec() }
    }

    fn entry(&self, number: u64) -> Entry {
        let slot = &self.slots[number as usize & (self.slots.len() - 1)];
        let word = slot.id.load(Ordering::Relaxed);
        let kept = word >> KEPT_SHIFT;
        Entry {
            id: word as u32,
            kept: (kept != KeptCpu::Unknown as u64).then_some(kept == KeptCpu::Yes as u64),
            start_ticks: slot.start.load(Ordering::Relaxed),
            end_ticks: slot.end.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let ring = Ring::new(3);
        assert!(ring.read().entries.is_empty());
        (0..6).for_each(|at| ring.push(at, KeptCpu::Yes, at.into(), u64::from(at) + 1));
        let read = ring.read();
        assert_eq!(read.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!(read.overwritten, 2);
    }

    #[test]
    fn nothing_torn_is_ever_read() {
        // The ring is so long that a running reader always finds entries that the writer has not overwritten yet.
        let (ring, stop) = (Ring::new(1 << 14), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut at = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    // All three words of an entry have its number, so a torn entry is detected.
                    ring.push(at as u32, if at.is_multiple_of(2) { KeptCpu::Yes } else { KeptCpu::No }, at, at);
                    at += 1;
                }
            });
            let (mut seen, mut overwritten) = (0, 0);
            let give_up_ns = evenkeel_sys::clock::monotonic_ns() + 20_000_000_000;
            while (seen < 1_000_000 || overwritten == 0) && evenkeel_sys::clock::monotonic_ns() < give_up_ns {
                let read = ring.read();
                for (at, entry) in read.entries.iter().enumerate() {
                    let number = read.overwritten + at as u64;
                    assert!(entry.start_ticks == number && entry.end_ticks == number, "{number}: {entry:?}");
                    assert_eq!((entry.id, entry.kept), (number as u32, Some(number.is_multiple_of(2))));
                    seen += 1;
                }
                overwritten = read.overwritten;
            }
            stop.store(true, Ordering::Relaxed);
            assert!(seen > 0 && overwritten > 0, "{seen} {overwritten}");
        });
    }
}
