//! `Telemetry`: publishes ticks on a page of shared memory, which any permitted process can read while the server runs. Writing is a few dozen
//! stores and one read of an open file, without a lock or an allocation.

mod run_delay;

use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_sys::lock::tick_waits;
pub use evenkeel_sys::lock::tick_waits::TickWait;
pub use evenkeel_sys::shared_page::Access;
pub use evenkeel_sys::telemetry::{
    Count, Counters, Faults, LastTick, NAME_BYTES_MAX, Odd, Owner, PageError, PageHistogram, PageSlices, PageWaits,
    Session, Snapshot, State, TelemetryReader, folders, prometheus, sessions,
};
use evenkeel_sys::telemetry::{PageWriter, TickEntry};

use crate::quantum::Quantum;
use crate::rate::{SliceModel, TimeSlices};
use crate::tick::Done;
use run_delay::TickDelays;

/// Settings of a session's page.
///
/// ```
/// use evenkeel_rt::telemetry::{Access, Telemetry, TelemetrySettings};
/// # let here = tempfile::tempdir().unwrap();
///
/// let settings = TelemetrySettings {
///     session: "match 7".to_owned(),
///     folder: Some(here.path().to_owned()), // None for /dev/shm
///     access: Access::Group,
/// };
/// println!("{}", Telemetry::create(&settings)?.path().display());
/// # Ok::<(), evenkeel_rt::telemetry::PageError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    /// The session's name: any text of 1 to 64 bytes. In the file's name, characters other than letters, digits and `-` become `_`.
    pub session: String,
    /// The folder of the page. `None` means /dev/shm, or `$XDG_RUNTIME_DIR` if /dev/shm is not writable.
    pub folder: Option<PathBuf>,
    /// Who may read the page besides the server's user.
    pub access: Access,
}

impl TelemetrySettings {
    /// A session with this name, in the default folder, for the server's user only.
    pub fn named(session: &str) -> TelemetrySettings {
        TelemetrySettings { session: session.to_owned(), folder: None, access: Access::Owner }
    }
}

/// Writes a session's page, from the tick's thread. Dropping the `Telemetry` and its [`Counters`] removes the page.
/// If a server was killed, the next server of the same user removes the page.
///
/// ```
/// use evenkeel_rt::telemetry::{Count, PageWaits, Telemetry, TelemetryReader, TelemetrySettings, TickWait};
/// use evenkeel_rt::{TickClock, TickSettings};
/// # use std::time::Duration;
/// # let here = tempfile::tempdir().unwrap();
/// # let folder = Some(here.path().to_owned());
///
/// // Without a folder the page is in /dev/shm.
/// let settings = TelemetrySettings { folder, ..TelemetrySettings::named("match 7") };
/// let mut telemetry = Telemetry::create(&settings)?;
/// let counters = telemetry.counters(); // for any thread
/// counters.set(Count::Players, 12);
/// let mut clock = TickClock::start(TickSettings { period: Duration::from_millis(2), ..TickSettings::default() })?;
/// telemetry.set_period(clock.period());
/// for _ in 0..3 {
///     clock.wait();
///     // … move the world …
///     if let Some(done) = clock.done() {
///         telemetry.after(&done);
///     }
/// }
///
/// // In this process or in another one:
/// let reader = TelemetryReader::open(telemetry.path())?;
/// let page = reader.read()?;
/// assert_eq!((page.ticks, page.count(Count::Players)), (3, Some(12)));
/// if let Some(PageWaits { total_ns, last: Some(TickWait { kind, by, .. }), .. }) = page.waits {
///     println!("ticks waited {total_ns} ns; the last long wait was for a {kind:?} that {by:?} held");
/// }
/// assert!(reader.prometheus()?.contains("evenkeel_ticks_total{session=\"match 7\""));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Telemetry {
    writer: PageWriter,
    period_ns: Option<u64>,
    turns: PageSlices,
    faults: Option<Faults>,
    swapped_in: Option<u64>,
    /// The thread that runs the ticks.
    thread: Option<u32>,
    delays: TickDelays,
}

impl Telemetry {
    /// Creates the page. Allocates all memory, and loads it.
    ///
    /// # Errors
    /// If the session's name does not have 1 to 64 bytes, or this process already has a session of that name.
    /// If no folder accepts the page, the error has the reason of each folder.
    pub fn create(settings: &TelemetrySettings) -> Result<Telemetry, PageError> {
        let writer = match &settings.folder {
            Some(folder) => PageWriter::create(folder, &settings.session, settings.access)?,
            None => in_first(&folders(), settings)?,
        };
        Ok(Telemetry {
            writer,
            period_ns: None,
            turns: PageSlices::Unknown,
            faults: None,
            swapped_in: None,
            thread: None,
            delays: TickDelays::default(),
        })
    }

    /// The path of the page.
    pub fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Returns counters for any thread: jobs, packets, drops, players. Readers see a counter that no thread ever sets as unknown.
    pub fn counters(&self) -> Counters {
        self.writer.counters()
    }

    /// Sets the tick period, from the next entry on.
    pub fn set_period(&mut self, period: Duration) {
        self.period_ns = u64::try_from(period.as_nanos()).ok();
    }

    /// Sets the detected quantum ([`TickClock::quantum`](crate::TickClock::quantum)), from the next entry on.
    ///
    /// ```
    /// # use evenkeel_rt::telemetry::{Telemetry, TelemetrySettings};
    /// # let here = tempfile::tempdir().unwrap();
    /// # let settings = TelemetrySettings { folder: Some(here.path().to_owned()), ..TelemetrySettings::named("match 7") };
    /// # let mut telemetry = Telemetry::create(&settings)?;
    /// # let mut clock = evenkeel_rt::TickClock::start(evenkeel_rt::TickSettings::default())?;
    /// # let mut memory = evenkeel_rt::memory::Memory::set_up(&evenkeel_rt::memory::MemoryConfig::default());
    /// clock.wait();
    /// if let Some(done) = clock.done() {
    ///     let used = memory.after(&done);
    ///     telemetry.set_faults(used.faults);
    ///     telemetry.set_swapped_in(used.swapped_in);
    ///     telemetry.set_quantum(&clock.quantum());
    ///     telemetry.after(&done);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quantum(&mut self, quantum: &Quantum) {
        self.turns = match TimeSlices::from_quantum(quantum) {
            None if *quantum == Quantum::None => PageSlices::Whole,
            None => PageSlices::Unknown,
            Some(TimeSlices { period, share, model }) => {
                let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
                match model {
                    SliceModel::Slots => PageSlices::Slots { period_ns, share },
                    SliceModel::Bucket => PageSlices::Bucket { period_ns, share },
                }
            }
        };
    }

    /// Sets the page faults of the next entry's tick.
    pub fn set_faults(&mut self, faults: Option<Faults>) {
        self.faults = faults;
    }

    /// Sets the pages that the system read back from swap since the start, from the next entry on.
    pub fn set_swapped_in(&mut self, pages: Option<u64>) {
        self.swapped_in = pages;
    }

    /// Writes the entry of a tick that has ended. Call it on the tick's thread: the entry has what this thread waited for locks since the tick
    /// began, and for a CPU since the previous entry.
    pub fn after(&mut self, done: &Done) {
        // If this thread has no count of waits, another thread runs the ticks.
        let waits = tick_waits::end();
        let thread = waits.and_then(|_| tick_waits::this_thread());
        self.thread = self.thread.or(thread);
        let run_delay_ns = thread.and_then(|thread| self.delays.since_last(thread));
        self.writer.tick(&TickEntry {
            number: done.tick.number,
            missed: done.tick.missed,
            due_ns: done.tick.due_ns,
            began_ns: done.tick.began_ns,
            done_ns: done.done_ns,
            period_ns: self.period_ns,
            turns: self.turns,
            faults: self.faults.take(),
            swapped_in: self.swapped_in,
            thread: self.thread,
            waits,
            run_delay_ns,
        });
    }
}

/// Uses the first folder that accepts the page. An error of the session itself ends the search.
fn in_first(folders: &[PathBuf], settings: &TelemetrySettings) -> Result<PageWriter, PageError> {
    let mut refusals = Vec::new();
    for folder in folders {
        match PageWriter::create(folder, &settings.session, settings.access) {
            Err(PageError::Kernel { path, errno }) if errno != evenkeel_sys::Errno::EXIST => {
                refusals.push(format!("{}: {errno}", path.display()));
            }
            done => return done,
        }
    }
    Err(PageError::NoFolder(refusals.join("; ")))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::Tick;
    use evenkeel_sys::Errno;

    #[test]
    fn the_first_folder_that_takes_it_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let settings = TelemetrySettings::named("a");
        let nowhere = folder.path().join("none");
        let error = in_first(std::slice::from_ref(&nowhere), &settings).unwrap_err().to_string();
        assert!(error.starts_with("no folder for a page of telemetry: ") && error.contains("ENOENT"), "{error}");
        let made = in_first(&[nowhere, folder.path().into()], &settings).unwrap();
        assert!(made.path().starts_with(folder.path()));
        let again = in_first(&[folder.path().into()], &settings).unwrap_err();
        assert!(matches!(again, PageError::Kernel { errno: Errno::EXIST, .. }), "{again}");
        let nameless = in_first(&[folder.path().into()], &TelemetrySettings::named("")).unwrap_err();
        assert_eq!(nameless, PageError::Name(0));
    }

    #[test]
    fn the_page_has_the_written_values() {
        let folder = tempfile::tempdir().unwrap();
        let settings = TelemetrySettings { folder: Some(folder.path().into()), ..TelemetrySettings::named("a") };
        let mut telemetry = Telemetry::create(&settings).unwrap();
        let reader = TelemetryReader::open(telemetry.path()).unwrap();
        let tick = Tick { number: 4, due_ns: 1_000_000, began_ns: 1_200_000, missed: 2 };
        let done = Done { tick, done_ns: 5_000_000 };
        telemetry.after(&done);
        let page = reader.read().unwrap();
        assert_eq!((page.ticks, page.missed, page.period_ns, page.turns), (1, 2, None, PageSlices::Unknown));
        telemetry.set_period(Duration::from_millis(20));
        telemetry.set_quantum(&Quantum::TokenBucket { quota_ns: 4_000_000, period_ns: 10_000_000 });
        telemetry.set_faults(Some(Faults { minor: 3, major: 1 }));
        telemetry.set_swapped_in(Some(9));
        telemetry.after(&done);
        telemetry.set_period(Duration::from_millis(30));
        telemetry.after(&done);
        let bucket = PageSlices::Bucket { period_ns: 10_000_000, share: 0.4 };
        assert_eq!(reader.read().unwrap().turns, bucket);
        telemetry.set_quantum(&Quantum::None);
        telemetry.after(&done);
        let page = reader.read().unwrap();
        assert_eq!((page.period_ns, page.period_changes, page.turns), (Some(30_000_000), 1, PageSlices::Whole));
        assert_eq!((page.faults, page.swapped_in), (Some(Faults { minor: 3, major: 1 }), Some(9)));
        let last = LastTick { number: 4, due_ns: 1_000_000, began_ns: 1_200_000, done_ns: 5_000_000, faults: None };
        assert_eq!(page.last, Some(last));
        assert_eq!(page.lateness.max_ns, Some(200_000));
        assert_eq!((page.work.sum_ns, page.due_to_done.quantile_ns(0.5)), (4 * 3_800_000, Some(4_000_000)));
    }
}
