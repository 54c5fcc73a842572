//! `Snapshot`: a page at one moment, parsed from untrusted bytes. Any bytes give a result or an error. The parser checks every value that it uses.

use super::layout::{self, BOUNDS_NS, Count, UNKNOWN, head, histogram, tick};
use super::owner::Owner;
use crate::lock::tick_waits::TickWait;
use crate::lock::waits::Kind;

/// The longest accepted period, in nanoseconds: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Odd {
    /// The page is too short for the contents that it announces.
    #[error("it has {0} bytes, and says that it needs {1}")]
    Short(usize, u64),
    /// The file is of another kind, from a machine of the other byte order, or not ready yet.
    #[error("it does not begin as a page of telemetry does")]
    Foreign,
    /// The page's format is unknown to this reader.
    #[error("it has format {0}, and this reader knows {known}", known = layout::FORMAT)]
    Format(u64),
    /// A part is shorter than this format requires.
    #[error("its part \"{0}\" is shorter than format 1 has it")]
    Part(&'static str),
    /// The session's name is invalid.
    #[error("its session's name is too long, empty, or not UTF-8")]
    Name,
    /// The buckets of a histogram do not add up.
    #[error("the buckets of its histogram \"{0}\" don't add up to its count")]
    Sum(&'static str),
}

/// How the CPU is provided.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PageSlices {
    /// How the CPU is provided is not known.
    #[default]
    Unknown,
    /// The CPU is always available.
    Whole,
    /// A hypervisor provides the CPU at fixed times.
    Slots {
        /// The period, in nanoseconds.
        period_ns: u64,
        /// The share of the period in which the CPU is available, 0 to 1.
        share: f64,
    },
    /// A limit on CPU time applies.
    Bucket {
        /// The period, in nanoseconds.
        period_ns: u64,
        /// The share of the period in which the CPU is available, 0 to 1.
        share: f64,
    },
}

impl PageSlices {
    pub(super) fn words(&self) -> (u64, u64, u64) {
        let millionths = |share: f64| (share.clamp(0.0, 1.0) * 1e6).round() as u64;
        match *self {
            PageSlices::Unknown => (UNKNOWN, UNKNOWN, UNKNOWN),
            PageSlices::Whole => (0, UNKNOWN, UNKNOWN),
            PageSlices::Slots { period_ns, share } => (1, period_ns, millionths(share)),
            PageSlices::Bucket { period_ns, share } => (2, period_ns, millionths(share)),
        }
    }

    /// A value that evenkeel never writes means unknown.
    fn from_words(model: u64, period_ns: u64, millionths: u64) -> PageSlices {
        let share = millionths as f64 / 1e6;
        match (model, period_ns, millionths) {
            (0, ..) => PageSlices::Whole,
            (1, 1..=LONGEST_NS, 0..=1_000_000) => PageSlices::Slots { period_ns, share },
            (2, 1..=LONGEST_NS, 0..=1_000_000) => PageSlices::Bucket { period_ns, share },
            _ => PageSlices::Unknown,
        }
    }
}

/// Page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Page faults without disk access.
    pub minor: u64,
    /// Page faults that waited for a disk: for a file, or for swapped memory.
    pub major: u64,
}

/// The waits of ticks for locks and events since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageWaits {
    /// The total time of all waits, in nanoseconds.
    pub total_ns: u64,
    /// The part of `total_ns` from ticks that waited for at least an eighth of the period.
    /// A shorter wait cannot make a tick late by a quarter of the period.
    pub long_ns: u64,
    /// The longest wait of the last tick with such a long wait. `None` if no tick waited that long.
    pub last: Option<TickWait>,
}

impl PageWaits {
    /// `word` returns the word at a position of the tick's part.
    fn from_words(word: impl Fn(usize) -> u64) -> Option<PageWaits> {
        let known = |at: usize| Some(word(at)).filter(|word| *word != UNKNOWN);
        let kind = match word(tick::LAST_LOCK_KIND) {
            0 => Some(Kind::Mutex),
            1 => Some(Kind::InheritMutex),
            2 => Some(Kind::Read),
            3 => Some(Kind::Write),
            4 => Some(Kind::Event),
            _ => None,
        };
        let last = || {
            Some(TickWait {
                kind: kind?,
                address: usize::try_from(known(tick::LAST_LOCK_ADDRESS)?).ok()?,
                length_ns: known(tick::LAST_LOCK_WAIT)?,
                by: known(tick::LAST_LOCK_THREAD).and_then(|thread| u32::try_from(thread).ok()),
            })
        };
        let (total_ns, long_ns) = (known(tick::LOCK_WAIT)?, known(tick::LONG_LOCK_WAIT)?);
        Some(PageWaits { total_ns, long_ns, last: last() })
    }
}

/// The last completed tick. Times are on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastTick {
    /// The number of earlier ticks.
    pub number: u64,
    /// When the tick was due.
    pub due_ns: u64,
    /// When the tick began.
    pub began_ns: u64,
    /// When the tick was done.
    pub done_ns: u64,
    /// The tick's page faults. `None` if unknown.
    pub faults: Option<Faults>,
}

/// A histogram of durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHistogram {
    /// The number of values.
    pub count: u64,
    /// The sum of the values, in nanoseconds.
    pub sum_ns: u64,
    /// The longest value, in nanoseconds. `None` if the histogram is empty.
    pub max_ns: Option<u64>,
    /// The count of each bucket. The buckets have the bounds [`BOUNDS_NS`], and one more bucket has all longer values.
    pub buckets: Vec<u64>,
}

impl PageHistogram {
    /// The bound in nanoseconds that the share `q` (0 to 1) of the values do not exceed. The bound is at most a seventh too long.
    /// `None` if the histogram is empty.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        if self.count == 0 || !(0.0..=1.0).contains(&q) {
            return None;
        }
        let rank = ((q * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0_u64;
        let at = self.buckets.iter().position(|count| {
            seen = seen.saturating_add(*count);
            seen >= rank
        });
        let bound_ns = at.and_then(|at| BOUNDS_NS.get(at)).copied().unwrap_or(u64::MAX);
        Some(bound_ns.min(self.max_ns?))
    }

    /// The increase since an earlier snapshot. The longest value covers both snapshots.
    #[must_use]
    pub fn since(&self, before: &PageHistogram) -> PageHistogram {
        let buckets: Vec<u64> =
            self.buckets.iter().zip(&before.buckets).map(|(now, before)| now.saturating_sub(*before)).collect();
        let count = buckets.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        PageHistogram {
            count,
            sum_ns: self.sum_ns.saturating_sub(before.sum_ns),
            max_ns: self.max_ns.filter(|_| count > 0),
            buckets,
        }
    }
}

/// The contents of a page.
///
/// ```
/// use evenkeel_sys::shared_page::Access;
/// use evenkeel_sys::telemetry::{
///     Count, Counters, Faults, LastTick, Odd, PageHistogram, PageSlices, PageWriter, Snapshot, TelemetryReader, TickEntry,
/// };
/// # let here = tempfile::tempdir().unwrap();
/// # let folder = here.path();
///
/// let mut writer = PageWriter::create(folder, "match 7", Access::Owner)?;
/// let counters: Counters = writer.counters(); // for any thread
/// counters.add(Count::Jobs, 3);
/// counters.set(Count::Players, 12);
/// writer.tick(&TickEntry {
///     number: 0,
///     missed: 0,
///     due_ns: 1_000,
///     began_ns: 1_200,
///     done_ns: 5_000,
///     period_ns: Some(20_000_000),
///     turns: PageSlices::Whole,
///     faults: Some(Faults { minor: 1, major: 0 }),
///     swapped_in: None,
///     thread: None,
///     waits: None,
///     run_delay_ns: None,
/// });
/// let Snapshot { last, work, .. } = TelemetryReader::open(writer.path())?.read()?;
/// assert!(matches!(last, Some(LastTick { began_ns: 1_200, .. })));
/// let nothing_before = PageHistogram { count: 0, sum_ns: 0, max_ns: None, buckets: vec![0; work.buckets.len()] };
/// println!("work: {:?} ns at p99", work.since(&nothing_before).quantile_ns(0.99));
/// let page = Snapshot::parse(&std::fs::read(writer.path())?)?;
/// assert_eq!(page.count(Count::Players), Some(12));
/// assert_eq!(Snapshot::parse(b"something else"), Err(Odd::Foreign));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The session's name, as the server set it: any text of up to 64 bytes.
    pub session: String,
    /// The server's process.
    pub owner: Owner,
    /// When the session began, in nanoseconds since 1970 UTC.
    pub began_realtime_ns: u64,
    /// Completed ticks.
    pub ticks: u64,
    /// Missed ticks.
    pub missed: u64,
    /// The last tick. `None` before the first tick.
    pub last: Option<LastTick>,
    /// The time from one tick to the next, in nanoseconds.
    pub period_ns: Option<u64>,
    /// How often the period changed.
    pub period_changes: u64,
    /// How the CPU is provided.
    pub turns: PageSlices,
    /// Page faults of the tick's thread.
    pub faults: Option<Faults>,
    /// Pages that the whole system read back from swap since the session began.
    pub swapped_in: Option<u64>,
    /// The tick's thread, by the kernel's number in the namespace of [`Owner::namespace`].
    /// `None` before the first tick, and if an older library wrote the page.
    pub thread: Option<u32>,
    /// The waits of ticks for locks and events, if the server counts them.
    pub waits: Option<PageWaits>,
    /// How long the tick's thread waited for a CPU and thereby made ticks late, in nanoseconds, since the session began. It has waits
    /// before ticks that began late, and waits in ticks that were not done when the next one was due. Waits of less than an eighth of the
    /// period are left out. None if the server does not count them.
    pub late_run_delay_ns: Option<u64>,
    /// Counters, in the order of [`Count::ALL`]. None for those that were never set.
    pub counts: [Option<u64>; Count::ALL.len()],
    /// The times from due to begun.
    pub lateness: PageHistogram,
    /// The times from begun to done.
    pub work: PageHistogram,
    /// The times from due to done, which players notice.
    pub due_to_done: PageHistogram,
}

impl Snapshot {
    /// Parses a page's bytes.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(bytes: &[u8]) -> Result<Snapshot, Odd> {
        let page = Page { words: bytes.as_chunks().0, bytes: bytes.len() };
        let head = page.words.get(..head::WORDS).ok_or(Odd::Foreign)?;
        let head = |at: usize| u64::from_ne_bytes(head[at]);
        if head(head::MAGIC) != layout::MAGIC {
            return Err(Odd::Foreign);
        }
        if head(head::FORMAT) != layout::FORMAT {
            return Err(Odd::Format(head(head::FORMAT)));
        }
        let part = page.part("tick", head(head::TICK_AT), head(head::TICK_WORDS), tick::WORDS)?;
        let counts = page.part("counts", head(head::COUNTS_AT), head(head::COUNTS_WORDS), layout::COUNTS_WORDS)?;
        let [lateness, work, due_to_done] = page.histograms(&head)?;
        let tick = |at: usize| u64::from_ne_bytes(part[at]);
        let known = |word: u64| (word != UNKNOWN).then_some(word);
        let faults = |minor, major| Some(Faults { minor: known(tick(minor))?, major: known(tick(major))? });
        let last = known(tick(tick::NUMBER)).map(|number| LastTick {
            number,
            due_ns: tick(tick::DUE),
            began_ns: tick(tick::BEGAN),
            done_ns: tick(tick::DONE),
            faults: faults(tick::TICK_MINOR_FAULTS, tick::TICK_MAJOR_FAULTS),
        });
        Ok(Snapshot {
            session: name(&head)?,
            owner: Owner {
                pid: head(head::PID),
                start_ticks: head(head::START_TICKS),
                namespace: head(head::NAMESPACE),
                boot: [head(head::BOOT), head(head::BOOT + 1)],
            },
            began_realtime_ns: head(head::BEGAN),
            ticks: tick(tick::TICKS),
            missed: tick(tick::MISSED),
            last,
            period_ns: known(tick(tick::PERIOD)),
            period_changes: tick(tick::PERIOD_CHANGES),
            turns: PageSlices::from_words(tick(tick::TURNS_MODEL), tick(tick::TURNS_PERIOD), tick(tick::TURNS_SHARE)),
            faults: faults(tick::MINOR_FAULTS, tick::MAJOR_FAULTS),
            swapped_in: known(tick(tick::SWAPPED_IN)),
            thread: known(tick(tick::THREAD)).and_then(|thread| u32::try_from(thread).ok()),
            waits: PageWaits::from_words(tick),
            late_run_delay_ns: known(tick(tick::LATE_RUN_DELAY)),
            counts: Count::ALL.map(|count| known(u64::from_ne_bytes(counts[count as usize]))),
            lateness,
            work,
            due_to_done,
        })
    }

    /// The value of a counter. `None` if the server never set the counter.
    pub fn count(&self, count: Count) -> Option<u64> {
        self.counts[count as usize]
    }
}

struct Page<'a> {
    words: &'a [[u8; 8]],
    bytes: usize,
}

impl<'a> Page<'a> {
    fn part(&self, name: &'static str, at: u64, words: u64, least: usize) -> Result<&'a [[u8; 8]], Odd> {
        if words < least as u64 {
            return Err(Odd::Part(name));
        }
        let end = at.saturating_add(words);
        let range = usize::try_from(at).ok().zip(usize::try_from(end).ok());
        range.and_then(|(at, end)| self.words.get(at..end)).ok_or(Odd::Short(self.bytes, end.saturating_mul(8)))
    }

    fn histograms(&self, head: &impl Fn(usize) -> u64) -> Result<[PageHistogram; 3], Odd> {
        let words = head(head::HISTOGRAM_WORDS);
        if head(head::HISTOGRAMS) < layout::HISTOGRAMS.len() as u64 {
            return Err(Odd::Part("histograms"));
        }
        let one = |at: u64| {
            let name = layout::HISTOGRAMS[at as usize];
            let begin = head(head::HISTOGRAMS_AT).saturating_add(words.saturating_mul(at));
            let part = self.part(name, begin, words, histogram::WORDS)?;
            let word = |at: usize| u64::from_ne_bytes(part[at]);
            let buckets: Vec<u64> = (histogram::BUCKETS..histogram::WORDS).map(word).collect();
            let count = word(histogram::COUNT);
            let sum = buckets.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
            if sum != Some(count) {
                return Err(Odd::Sum(name));
            }
            let max_ns = (count > 0).then(|| word(histogram::MAX));
            Ok(PageHistogram { count, sum_ns: word(histogram::SUM), max_ns, buckets })
        };
        Ok([one(0)?, one(1)?, one(2)?])
    }
}

fn name(head: &impl Fn(usize) -> u64) -> Result<String, Odd> {
    let length = usize::try_from(head(head::NAME_BYTES)).unwrap_or(usize::MAX);
    let mut bytes = [0; head::NAME_WORDS * 8];
    for (at, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&head(head::NAME + at).to_ne_bytes());
    }
    let name = bytes.get(..length).filter(|name| !name.is_empty()).ok_or(Odd::Name)?;
    std::str::from_utf8(name).map(str::to_owned).map_err(|_| Odd::Name)
}
