//! `PageWriter`: writes the entry of each tick, on the tick's thread. `Counters`: values that any thread adds to.
//! After the page is created, nothing here waits or allocates.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::{self, Count, UNKNOWN, head, histogram, tick};
use super::owner::{Owner, State};
use super::reader::{self, PREFIX, PageError};
use super::sequence;
use super::snapshot::{Faults, PageSlices};
use crate::IS_LINUX;
use crate::clock;
use crate::lock::tick_waits::TickWaits;
use crate::shared_page::{self, Access, SharedPage};

/// The maximum length of a session's name in bytes.
pub const NAME_BYTES_MAX: usize = head::NAME_WORDS * 8;

/// The entry of a tick.
#[derive(Clone, Copy, Debug)]
pub struct TickEntry {
    /// The number of earlier ticks, including missed ones.
    pub number: u64,
    /// How many ticks right before this one were missed.
    pub missed: u64,
    /// When the tick was due, in nanoseconds of the monotonic clock.
    pub due_ns: u64,
    /// When the tick began.
    pub began_ns: u64,
    /// When the tick was done.
    pub done_ns: u64,
    /// The tick period, in nanoseconds, if it is known.
    pub period_ns: Option<u64>,
    /// How the CPU is provided.
    pub turns: PageSlices,
    /// Page faults of this tick.
    pub faults: Option<Faults>,
    /// Pages that the system read back from swap since the session began.
    pub swapped_in: Option<u64>,
    /// The tick's thread, by the kernel's number.
    pub thread: Option<u32>,
    /// The tick's waits for locks and events, if they are known.
    pub waits: Option<TickWaits>,
    /// How long the tick's thread waited for a CPU since the previous tick was done, if that is known.
    pub run_delay_ns: Option<u64>,
}

impl TickEntry {
    /// The part of the wait for a CPU that made this tick or the next one late. A wait before a tick that begins in time delays nothing,
    /// and neither does a wait in a tick that is done before the next one is due.
    fn late_run_delay_ns(&self) -> Option<u64> {
        let period_ns = self.period_ns?;
        let lateness_ns = self.began_ns.saturating_sub(self.due_ns);
        let before_ns = if lateness_ns >= period_ns / LONG_WAIT_OF_PERIOD { lateness_ns } else { 0 };
        let is_over = self.done_ns.saturating_sub(self.due_ns) > period_ns;
        let within_ns = if is_over { self.done_ns.saturating_sub(self.began_ns) } else { 0 };
        let late_ns = self.run_delay_ns?.min(before_ns.saturating_add(within_ns));
        Some(if late_ns >= period_ns / LONG_WAIT_OF_PERIOD { late_ns } else { 0 })
    }
}

/// A page to write to, from one thread. Dropping this value and all its [`Counters`] removes the file.
#[derive(Debug)]
pub struct PageWriter {
    page: Arc<SharedPage>,
}

/// Counters that any thread may add to. Cloning them is cheap.
#[derive(Clone, Debug)]
pub struct Counters {
    page: Arc<SharedPage>,
}

impl PageWriter {
    /// Creates the session's page in a folder, and removes pages that ended servers of the same user left in it.
    /// `session` is a name of 1 to 64 bytes.
    ///
    /// # Errors
    /// If the name has another length, or this process already has a session of that name.
    /// If the file system is full, or the folder is not writable.
    pub fn create(folder: &Path, session: &str, access: Access) -> Result<PageWriter, PageError> {
        if session.is_empty() || session.len() > NAME_BYTES_MAX {
            return Err(PageError::Name(session.len()));
        }
        if !IS_LINUX {
            return Err(PageError::Unsupported);
        }
        let owner = Owner::ours().map_err(|errno| PageError::Kernel { path: "/proc/self".into(), errno })?;
        sweep(folder);
        let path = folder.join(file_name(owner.pid, session));
        let page = SharedPage::create(&path, layout::PAGE_BYTES, access)
            .map_err(|errno| PageError::Kernel { path: path.clone(), errno })?;
        fill(page.words(), &owner, session);
        Ok(PageWriter { page: Arc::new(page) })
    }

    /// The path of the page.
    pub fn path(&self) -> &Path {
        self.page.path()
    }

    /// Counters for other threads.
    pub fn counters(&self) -> Counters {
        Counters { page: Arc::clone(&self.page) }
    }

    /// Writes an entry. `&mut` ensures that there is only one writer.
    pub fn tick(&mut self, entry: &TickEntry) {
        let words = self.page.words();
        let number = sequence::begin(&words[head::BEGUN]);
        let part = &words[layout::TICK_AT..layout::COUNTS_AT];
        add(&part[tick::TICKS], 1);
        add(&part[tick::MISSED], entry.missed);
        set(&part[tick::NUMBER], entry.number);
        set(&part[tick::DUE], entry.due_ns);
        set(&part[tick::BEGAN], entry.began_ns);
        set(&part[tick::DONE], entry.done_ns);
        if let Some(period_ns) = entry.period_ns {
            let before = part[tick::PERIOD].load(Ordering::Relaxed);
            if before != period_ns {
                set(&part[tick::PERIOD], period_ns);
                add(&part[tick::PERIOD_CHANGES], u64::from(before != UNKNOWN));
            }
        }
        let (model, period_ns, share) = entry.turns.words();
        set(&part[tick::TURNS_MODEL], model);
        set(&part[tick::TURNS_PERIOD], period_ns);
        set(&part[tick::TURNS_SHARE], share);
        if let Some(faults) = entry.faults {
            add(&part[tick::MINOR_FAULTS], faults.minor);
            add(&part[tick::MAJOR_FAULTS], faults.major);
        }
        set(&part[tick::TICK_MINOR_FAULTS], entry.faults.map_or(UNKNOWN, |faults| faults.minor));
        set(&part[tick::TICK_MAJOR_FAULTS], entry.faults.map_or(UNKNOWN, |faults| faults.major));
        if let Some(pages) = entry.swapped_in {
            set(&part[tick::SWAPPED_IN], pages);
        }
        set(&part[tick::THREAD], entry.thread.map_or(UNKNOWN, u64::from));
        if let Some(waits) = entry.waits {
            add_waits(part, &waits, entry.period_ns);
        }
        if let Some(late_ns) = entry.late_run_delay_ns() {
            add(&part[tick::LATE_RUN_DELAY], late_ns);
        }
        let values = [
            entry.began_ns.saturating_sub(entry.due_ns),
            entry.done_ns.saturating_sub(entry.began_ns),
            entry.done_ns.saturating_sub(entry.due_ns),
        ];
        for (words, value_ns) in words[layout::HISTOGRAMS_AT..].chunks_exact(histogram::WORDS).zip(values) {
            add(&words[histogram::COUNT], 1);
            add(&words[histogram::SUM], value_ns);
            set(&words[histogram::MAX], words[histogram::MAX].load(Ordering::Relaxed).max(value_ns));
            add(&words[histogram::BUCKETS + layout::bucket(value_ns)], 1);
        }
        sequence::end(&words[head::DONE], number);
    }
}

impl Counters {
    /// Adds to a counter. From the first call on, readers see the counter.
    pub fn add(&self, count: Count, more: u64) {
        let word = self.word(count);
        if word.load(Ordering::Relaxed) == UNKNOWN {
            // If another thread set the counter first, this adds to that thread's value.
            let _ = word.compare_exchange(UNKNOWN, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        word.fetch_add(more, Ordering::Relaxed);
    }

    /// Sets a value that goes up and down, such as [`Count::Players`].
    pub fn set(&self, count: Count, now: u64) {
        self.word(count).store(now, Ordering::Relaxed);
    }

    fn word(&self, count: Count) -> &AtomicU64 {
        &self.page.words()[layout::COUNTS_AT + count as usize]
    }
}

/// A wait inside a tick is long from this part of the period on: an eighth. A shorter wait makes no tick late.
pub const LONG_WAIT_OF_PERIOD: u64 = 8;

fn add_waits(part: &[AtomicU64], waits: &TickWaits, period_ns: Option<u64>) {
    let is_long = waits.total_ns >= period_ns.map_or(0, |ns| ns / LONG_WAIT_OF_PERIOD);
    add(&part[tick::LOCK_WAIT], waits.total_ns);
    add(&part[tick::LONG_LOCK_WAIT], if is_long { waits.total_ns } else { 0 });
    let Some(longest) = waits.longest.filter(|_| is_long) else { return };
    set(&part[tick::LAST_LOCK_WAIT], longest.length_ns);
    set(&part[tick::LAST_LOCK_KIND], longest.kind as u64);
    set(&part[tick::LAST_LOCK_ADDRESS], longest.address as u64);
    set(&part[tick::LAST_LOCK_THREAD], longest.by.map_or(UNKNOWN, u64::from));
}

/// Only one thread writes these words, so a load and a store suffice for an addition.
#[inline]
fn add(word: &AtomicU64, more: u64) {
    let before = word.load(Ordering::Relaxed);
    word.store(if before == UNKNOWN { more } else { before.wrapping_add(more) }, Ordering::Relaxed);
}

#[inline]
fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

fn fill(words: &[AtomicU64], owner: &Owner, session: &str) {
    let place = |at: usize, value: u64| set(&words[at], value);
    place(head::FORMAT, layout::FORMAT);
    place(head::PAGE_BYTES, layout::PAGE_BYTES as u64);
    place(head::TICK_AT, layout::TICK_AT as u64);
    place(head::TICK_WORDS, tick::WORDS as u64);
    place(head::COUNTS_AT, layout::COUNTS_AT as u64);
    place(head::COUNTS_WORDS, layout::COUNTS_WORDS as u64);
    place(head::HISTOGRAMS_AT, layout::HISTOGRAMS_AT as u64);
    place(head::HISTOGRAMS, layout::HISTOGRAMS.len() as u64);
    place(head::HISTOGRAM_WORDS, histogram::WORDS as u64);
    place(head::PID, owner.pid);
    place(head::START_TICKS, owner.start_ticks);
    place(head::NAMESPACE, owner.namespace);
    place(head::BOOT, owner.boot[0]);
    place(head::BOOT + 1, owner.boot[1]);
    place(head::BEGAN, clock::realtime_ns());
    place(head::NAME_BYTES, session.len() as u64);
    for (at, bytes) in session.as_bytes().chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        place(head::NAME + at, u64::from_ne_bytes(word));
    }
    for word in &words[layout::TICK_AT..layout::HISTOGRAMS_AT] {
        set(word, UNKNOWN);
    }
    for known in [tick::TICKS, tick::MISSED, tick::PERIOD_CHANGES] {
        place(layout::TICK_AT + known, 0);
    }
    // Release: a reader that sees this word sees everything above.
    words[head::MAGIC].store(layout::MAGIC, Ordering::Release);
}

/// The name is `evenkeel-rt.PID.SESSION`. Characters other than letters, digits and hyphens become underscores.
fn file_name(pid: u64, session: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("{PREFIX}{pid}.{}", session.chars().map(plain).collect::<String>())
}

/// Removes pages of this user's killed servers. Pages that cannot be read or removed stay.
fn sweep(folder: &Path) {
    for path in reader::session_paths(folder).unwrap_or_default() {
        let Ok(found) = reader::TelemetryReader::open(&path) else { continue };
        let is_ours = shared_page::own_user().is_some_and(|own| found.user() == Ok(own));
        if is_ours && found.state() == Ok(State::Gone) {
            let _ = std::fs::remove_file(path);
        }
    }
}
