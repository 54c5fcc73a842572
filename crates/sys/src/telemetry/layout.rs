//! The layout of the page: 64-bit words in the machine's byte order. [`UNKNOWN`] marks a value that was never set.
//!
//! The header contains the start and length of each part. A reader uses the words that it knows.
//! So a later version can append words to a part. A change of a word's meaning needs another format number.

/// The first word: `EVENKEEL` in bytes. A machine with the other byte order reads another number. The writer writes it last.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"EVENKEEL");
/// The format number.
pub const FORMAT: u64 = 1;
/// Marks an unknown value.
pub const UNKNOWN: u64 = u64::MAX;

/// Words of the head.
pub mod head {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::FORMAT`].
    pub const FORMAT: usize = 1;
    /// The size of the whole page in bytes.
    pub const PAGE_BYTES: usize = 2;
    /// Where the tick's part begins, as a word index.
    pub const TICK_AT: usize = 3;
    /// The length of the tick's part, in words.
    pub const TICK_WORDS: usize = 4;
    /// Where the counters' part begins, as a word index.
    pub const COUNTS_AT: usize = 5;
    /// The length of the counters' part, in words.
    pub const COUNTS_WORDS: usize = 6;
    /// Where the first histogram begins, as a word index.
    pub const HISTOGRAMS_AT: usize = 7;
    /// How many histograms there are, one right after another.
    pub const HISTOGRAMS: usize = 8;
    /// The length of each histogram, in words.
    pub const HISTOGRAM_WORDS: usize = 9;
    /// The writer's process, by the number in its own namespace.
    pub const PID: usize = 10;
    /// When that process started, in the kernel's ticks since boot. A later process with the same number has another start.
    pub const START_TICKS: usize = 11;
    /// The inode of its PID namespace.
    pub const NAMESPACE: usize = 12;
    /// The boot's identifier, in two words.
    pub const BOOT: usize = 13;
    /// When the session began, in nanoseconds since 1970 UTC.
    pub const BEGAN: usize = 15;
    /// The length of the session's name in bytes.
    pub const NAME_BYTES: usize = 16;
    /// The session's name, UTF-8.
    pub const NAME: usize = 17;
    /// Words of the name.
    pub const NAME_WORDS: usize = 8;
    /// How many entries the tick's thread has begun to write: see [`super::super::sequence`].
    pub const BEGUN: usize = 30;
    /// How many entries are complete.
    pub const DONE: usize = 31;
    /// Words of the head.
    pub const WORDS: usize = 32;
}

/// The words of the tick's part. Only the tick's thread writes them. Times are on the monotonic clock.
pub mod tick {
    /// Completed ticks.
    pub const TICKS: usize = 0;
    /// Missed ticks.
    pub const MISSED: usize = 1;
    /// The last tick's number.
    pub const NUMBER: usize = 2;
    /// When the last tick was due, in nanoseconds.
    pub const DUE: usize = 3;
    /// When the last tick began, in nanoseconds.
    pub const BEGAN: usize = 4;
    /// When the last tick was done, in nanoseconds.
    pub const DONE: usize = 5;
    /// The time from one tick to the next, in nanoseconds.
    pub const PERIOD: usize = 6;
    /// How often the period changed.
    pub const PERIOD_CHANGES: usize = 7;
    /// How the CPU is provided: 0 means always, 1 in time slices, 2 by a limit.
    pub const TURNS_MODEL: usize = 8;
    /// The period of the time slices or of the limit, in nanoseconds.
    pub const TURNS_PERIOD: usize = 9;
    /// The share of the period in which the CPU is available, in millionths.
    pub const TURNS_SHARE: usize = 10;
    /// Page faults of the tick's thread without disk access.
    pub const MINOR_FAULTS: usize = 11;
    /// Page faults of the tick's thread that waited for a disk.
    pub const MAJOR_FAULTS: usize = 12;
    /// Minor page faults during the last tick.
    pub const TICK_MINOR_FAULTS: usize = 13;
    /// Major page faults during the last tick.
    pub const TICK_MAJOR_FAULTS: usize = 14;
    /// Pages that the whole system read back from swap since the session began.
    pub const SWAPPED_IN: usize = 15;
    /// The tick's thread, by the kernel's number in its own namespace.
    pub const THREAD: usize = 16;
    /// How long ticks waited for locks and events, in nanoseconds, since the session began.
    pub const LOCK_WAIT: usize = 17;
    /// The part of [`LOCK_WAIT`] from ticks that waited for at least an eighth of the period.
    pub const LONG_LOCK_WAIT: usize = 18;
    /// The longest wait of the last tick that waited for at least an eighth of the period, in nanoseconds.
    pub const LAST_LOCK_WAIT: usize = 19;
    /// What that wait was for: 0 a mutex, 1 a mutex whose holder inherits priority, 2 to read, 3 to write, 4 an event.
    pub const LAST_LOCK_KIND: usize = 20;
    /// The address of that lock or event in the server's memory.
    pub const LAST_LOCK_ADDRESS: usize = 21;
    /// The thread that held that lock or set the event, in the same namespace as [`THREAD`].
    pub const LAST_LOCK_THREAD: usize = 22;
    /// Time that the tick's thread waited for a CPU and that made ticks late, in nanoseconds, since the session began: waits
    /// before ticks that began late, and waits in ticks that were not done when the next one was due. Waits of less than an eighth of the
    /// period are left out.
    pub const LATE_RUN_DELAY: usize = 23;
    /// Words of the part.
    pub const WORDS: usize = 24;
}

/// A counter that any thread may add to, by its word in its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Jobs that were run.
    Jobs = 0,
    /// Received datagrams.
    PacketsIn = 1,
    /// Sent datagrams.
    PacketsOut = 2,
    /// Bytes in received datagrams.
    BytesIn = 3,
    /// Bytes in sent datagrams.
    BytesOut = 4,
    /// Datagrams that were dropped because there was no room, in either direction.
    Drops = 5,
    /// The current number of players. This number goes up and down.
    Players = 6,
}

impl Count {
    /// All counters, in the order of their words.
    pub const ALL: [Count; 7] = [
        Count::Jobs,
        Count::PacketsIn,
        Count::PacketsOut,
        Count::BytesIn,
        Count::BytesOut,
        Count::Drops,
        Count::Players,
    ];
}

/// Words of the counters' part.
pub const COUNTS_WORDS: usize = 12;

/// The histograms in their order: from due to begun, from begun to done, from due to done.
pub const HISTOGRAMS: [&str; 3] = ["lateness", "work", "due_to_done"];

/// The words of a histogram: count, sum and longest value in nanoseconds, then one word per bucket.
pub mod histogram {
    /// The number of values.
    pub const COUNT: usize = 0;
    /// The sum of the values, in nanoseconds.
    pub const SUM: usize = 1;
    /// The longest value, in nanoseconds.
    pub const MAX: usize = 2;
    /// The first bucket.
    pub const BUCKETS: usize = 4;
    /// Words of a histogram.
    pub const WORDS: usize = BUCKETS + super::BUCKETS;
}

/// Where this version's tick part begins.
pub const TICK_AT: usize = head::WORDS;
/// Where this version's counters part begins.
pub const COUNTS_AT: usize = TICK_AT + tick::WORDS;
/// Where this version's histograms begin.
pub const HISTOGRAMS_AT: usize = COUNTS_AT + COUNTS_WORDS;
/// Words in use.
pub const WORDS: usize = HISTOGRAMS_AT + HISTOGRAMS.len() * histogram::WORDS;
/// The size of this version's page.
pub const PAGE_BYTES: usize = 4096;
const _: () = assert!(WORDS * 8 <= PAGE_BYTES);

/// Twenty bounds per factor of ten, including 1, 2 and 5. With these bounds, a quantile is at most a seventh too long.
const MANTISSAS: [u64; 20] =
    [100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900];
const TENFOLDS: usize = 7;
/// Bounds between buckets.
pub const BOUNDS: usize = MANTISSAS.len() * TENFOLDS + 1;
/// The number of buckets. The last bucket contains all values above the last bound.
pub const BUCKETS: usize = BOUNDS + 1;

/// The upper bound of each bucket except the last, in nanoseconds, from 1 us to 10 s.
pub const BOUNDS_NS: [u64; BOUNDS] = bounds_ns();

const fn bounds_ns() -> [u64; BOUNDS] {
    let mut bounds = [0; BOUNDS];
    let (mut at, mut unit) = (0, 10);
    while at < BOUNDS {
        bounds[at] = MANTISSAS[at % MANTISSAS.len()] * unit;
        at += 1;
        if at.is_multiple_of(MANTISSAS.len()) {
            unit *= 10;
        }
    }
    bounds
}

/// The bucket of a value.
pub fn bucket(value_ns: u64) -> usize {
    BOUNDS_NS.partition_point(|bound| *bound < value_ns)
}

/// The lower bound of a bucket, in nanoseconds. Every value in the bucket is above this bound.
pub fn lower_bound_ns(bucket: usize) -> u64 {
    bucket.checked_sub(1).and_then(|at| BOUNDS_NS.get(at)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_in_order_and_hold_the_round_ones() {
        assert!(BOUNDS_NS.is_sorted());
        assert_eq!([0, 1, BOUNDS, BOUNDS + 1].map(lower_bound_ns), [0, 1_000, 10_000_000_000, 0]);
        assert_eq!((BOUNDS_NS[0], BOUNDS_NS[BOUNDS - 1]), (1_000, 10_000_000_000));
        for round_ns in [2_000, 50_000, 1_000_000, 20_000_000, 5_000_000_000] {
            assert!(BOUNDS_NS.contains(&round_ns), "{round_ns}");
        }
        assert!(BOUNDS_NS.windows(2).all(|pair| pair[1] as f64 <= pair[0] as f64 * 1.15));
        let table = [(0, 0), (1_000, 0), (1_001, 1), (1_120, 1), (10_000_000_000, 140), (10_000_000_001, 141)];
        for (value_ns, expected) in table {
            assert_eq!(bucket(value_ns), expected, "{value_ns}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
