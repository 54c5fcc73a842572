//! `Slot`: what a session publishes about its ticks, as words that other sessions read. The code is pure, and the same on every system.
//!
//! The checksum alone shows whether a reader has a whole entry, in whatever order the words were written, copied or lost.
//! A session may be killed at any instruction. Its entry is then whole, or no reader accepts it.
//! The writer needs no barrier and never waits.

use std::ops::RangeInclusive;

/// The number of words of a slot.
pub const WORDS: usize = 16;
/// The number of words of a set of CPUs.
pub const CPU_WORDS: usize = 4;
/// The tick periods that a slot may have, in nanoseconds.
pub const PERIODS_NS: RangeInclusive<u64> = 1_000_000..=1_000_000_000;

/// `EKPHASES` in bytes. A machine with the other byte order reads another number.
const MAGIC: u64 = u64::from_ne_bytes(*b"EKPHASES");
const FORMAT: u64 = 1;
/// How long a session may be silent, in periods. The next value is the minimum in nanoseconds, because a busy machine keeps threads waiting.
const SILENT_PERIODS: u64 = 32;
const SILENT_NS: u64 = 1_000_000_000;
/// The flag of a session that keeps its phase.
const FIXED: u64 = 1;

mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const FORMAT: usize = 1;
    pub(super) const NUMBER: usize = 2;
    pub(super) const TIME_NAMESPACE: usize = 3;
    pub(super) const PERIOD: usize = 4;
    pub(super) const DUE: usize = 5;
    pub(super) const WORK: usize = 6;
    pub(super) const FLAGS: usize = 7;
    pub(super) const CPUS: usize = 8;
}

/// CPUs, by their numbers modulo 256. On a machine with more CPUs, sets may seem to overlap when they do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus([u64; CPU_WORDS]);

impl Cpus {
    /// All CPUs, for a session whose CPUs are not known.
    pub const ALL: Cpus = Cpus([u64::MAX; CPU_WORDS]);

    /// The set of these CPUs.
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Cpus {
        let mut words = [0; CPU_WORDS];
        for cpu in cpus {
            words[cpu / 64 % CPU_WORDS] |= 1 << (cpu % 64);
        }
        Cpus(words)
    }

    /// Whether the two sets have a CPU in common.
    pub fn overlap(&self, other: &Cpus) -> bool {
        self.0.iter().zip(other.0).any(|(one, other)| one & other != 0)
    }
}

/// What a session publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The time namespace, which may shift the monotonic clock. 0 if it is not known.
    pub time_namespace: u64,
    /// From one tick to the next, in nanoseconds.
    pub period_ns: u64,
    /// When the next tick is due, in nanoseconds of the monotonic clock.
    pub due_ns: u64,
    /// How long a tick works, in nanoseconds, as a smoothed average.
    pub work_ns: u64,
    /// Whether the session keeps its phase, whatever others do.
    pub is_fixed: bool,
    /// The CPUs that the session's ticks may use.
    pub cpus: Cpus,
}

impl Slot {
    /// The slot's words, as the entry with this number.
    pub fn to_words(&self, number: u64) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[at::MAGIC] = MAGIC;
        words[at::FORMAT] = FORMAT;
        words[at::NUMBER] = number;
        words[at::TIME_NAMESPACE] = self.time_namespace;
        words[at::PERIOD] = self.period_ns;
        words[at::DUE] = self.due_ns;
        words[at::WORK] = self.work_ns;
        words[at::FLAGS] = if self.is_fixed { FIXED } else { 0 };
        words[at::CPUS..at::CPUS + CPU_WORDS].copy_from_slice(&self.cpus.0);
        seal(&mut words);
        words
    }

    /// Parses words from an untrusted source. `None` if they are not a whole entry, or a value is out of range.
    pub fn parse(words: &[u64; WORDS]) -> Option<Slot> {
        if words[at::MAGIC] != MAGIC || words[at::FORMAT] != FORMAT || !is_whole(words) {
            return None;
        }
        let mut cpus = Cpus([0; CPU_WORDS]);
        cpus.0.copy_from_slice(&words[at::CPUS..at::CPUS + CPU_WORDS]);
        let slot = Slot {
            time_namespace: words[at::TIME_NAMESPACE],
            period_ns: words[at::PERIOD],
            due_ns: words[at::DUE],
            work_ns: words[at::WORK],
            is_fixed: words[at::FLAGS] & FIXED != 0,
            cpus,
        };
        (PERIODS_NS.contains(&slot.period_ns) && slot.work_ns < u64::MAX / 4).then_some(slot)
    }

    /// Whether the session has ticked lately. A dead or stopped session has not, and a session of an earlier boot has not either.
    pub fn is_fresh(&self, now_ns: u64) -> bool {
        let silent_ns = self.period_ns.saturating_mul(SILENT_PERIODS).max(SILENT_NS);
        let soonest_ns = now_ns.saturating_sub(silent_ns);
        // The due time may be ahead: a new session may shift its first tick by a period.
        let latest_ns = now_ns.saturating_add(self.period_ns.saturating_mul(3));
        (soonest_ns..=latest_ns).contains(&self.due_ns)
    }
}

/// Sets the last word to the checksum of all others.
fn seal(words: &mut [u64]) {
    if let Some((last, rest)) = words.split_last_mut() {
        *last = checksum(rest);
    }
}

/// Whether the last word is the checksum of all others.
fn is_whole(words: &[u64]) -> bool {
    words.split_last().is_some_and(|(last, rest)| *last == checksum(rest))
}

/// The checksum of these words. If any bit changes, or a word moves, about half of the checksum's bits change.
fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0x6576_656e_6b65_656c, |sum: u64, word| {
        // The finalizer of splitmix64.
        let sum = sum.rotate_left(17).wrapping_add(0x9e37_79b9_7f4a_7c15) ^ word;
        let sum = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let sum = (sum ^ sum >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        sum ^ sum >> 31
    })
}

/// Passes the words of an entry to `store`, each with its place. Only one thread may call this for the same memory.
pub fn publish(words: &[u64], mut store: impl FnMut(usize, u64)) {
    words.iter().enumerate().for_each(|(place, word)| store(place, *word));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLOT: Slot = Slot {
        time_namespace: 4_026_531_834,
        period_ns: 20_000_000,
        due_ns: 5_000_000_000,
        work_ns: 1_000_000,
        is_fixed: true,
        cpus: Cpus([3, 0, 0, 1]),
    };

    #[test]
    fn a_slot_is_read_as_it_was_written() {
        let words = SLOT.to_words(7);
        assert_eq!(Slot::parse(&words), Some(SLOT));
        assert_eq!(Slot::parse(&[0; WORDS]), None, "a new file");
        for (place, value) in [(at::MAGIC, 1), (at::FORMAT, 2), (at::PERIOD, 999_999), (at::PERIOD, u64::MAX)] {
            let mut other = words;
            other[place] = value;
            seal(&mut other);
            assert_eq!(Slot::parse(&other), None, "{place}: {value}");
        }
    }

    #[test]
    fn only_sessions_that_tick_are_fresh() {
        let at = |now_ms: u64| SLOT.is_fresh(now_ms * 1_000_000);
        // The tick is due at 5 s. In a dead session's slot this time never changes.
        assert_eq!(
            [4_000, 4_939, 4_940, 5_000, 6_000, 6_001, 60_000].map(at),
            [false, false, true, true, true, false, false]
        );
        let slow = Slot { period_ns: 1_000_000_000, ..SLOT };
        assert!(slow.is_fresh(37_000_000_000) && !slow.is_fresh(37_000_000_001));
        let odd = Slot { due_ns: u64::MAX, ..SLOT };
        assert!(!odd.is_fresh(0) && odd.is_fresh(u64::MAX));
    }

    #[test]
    fn sets_of_cpus_overlap() {
        let few = Cpus::new([1, 70, 255]);
        assert!(few.overlap(&Cpus::new([70])) && few.overlap(&Cpus::ALL) && few.overlap(&Cpus::new([256 + 1])));
        assert!(!few.overlap(&Cpus::new([0, 2, 71, 254])) && !few.overlap(&Cpus::new([])));
    }

    fn slots() -> impl Strategy<Value = Slot> {
        (any::<[u64; 8]>(), PERIODS_NS, any::<bool>()).prop_map(|(words, period_ns, is_fixed)| Slot {
            time_namespace: words[0],
            period_ns,
            due_ns: words[1],
            work_ns: words[2] >> 2,
            is_fixed,
            cpus: Cpus([words[3], words[4], words[5], words[6]]),
        })
    }

    proptest! {
        #[test]
        fn a_mix_of_two_entries_is_refused(one in slots(), other in slots(), number: u64, from_other: u16) {
            let (first, second) = (one.to_words(number), other.to_words(number.wrapping_add(1)));
            let mixed: [u64; WORDS] =
                std::array::from_fn(|at| if from_other >> at & 1 == 1 { second[at] } else { first[at] });
            let expected = if mixed == first { Some(one) } else if mixed == second { Some(other) } else { None };
            prop_assert_eq!(Slot::parse(&mixed), expected);
        }

        #[test]
        fn a_changed_bit_is_refused(slot in slots(), number: u64, word in 0..WORDS, bit in 0..64) {
            let mut words = slot.to_words(number);
            words[word] ^= 1_u64 << bit;
            prop_assert_eq!(Slot::parse(&words), None);
        }

        /// A hostile session that also writes the checksum can publish any values. Readers accept only values in range.
        #[test]
        fn sealed_hostile_words_are_in_range(words: [u64; WORDS], now_ns: u64) {
            let mut words = words;
            (words[at::MAGIC], words[at::FORMAT]) = (MAGIC, FORMAT);
            seal(&mut words);
            if let Some(slot) = Slot::parse(&words) {
                prop_assert!(PERIODS_NS.contains(&slot.period_ns));
                let _ = slot.is_fresh(now_ns);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A reader may get each word from any entry, in any order. The copy is whole, or it is refused.
    #[test]
    fn no_order_of_steps_lets_a_torn_slot_through() {
        let entry = |number: u64| {
            let mut words = [number, number * 20, number * 3, 0];
            seal(&mut words);
            words
        };
        loom::model(move || {
            let memory: Arc<[AtomicU64; 4]> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
            let theirs = Arc::clone(&memory);
            let store = move |place: usize, word| theirs[place].store(word, Ordering::Relaxed);
            let writer = loom::thread::spawn(move || (1..=2).for_each(|number| publish(&entry(number), &store)));
            let copy: [u64; 4] = std::array::from_fn(|at| memory[at].load(Ordering::Relaxed));
            if is_whole(&copy) {
                assert!((1..=2).any(|number| copy == entry(number)), "{copy:?}");
            }
            writer.join().unwrap();
        });
    }
}
