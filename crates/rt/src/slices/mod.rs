//! `Slices`: when each CPU is available, if a hypervisor gives them in slices. Every CPU has slices of its own, which need not be in step.
//!
//! One thread a CPU finds and follows them, as [`TickClock`] does for its own thread: it sleeps nearly always, and costs some 0.1 % of the CPU.
//! Readers pay two loads from memory.

mod scout;
mod slice;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use evenkeel_sys::CpuSet;

use crate::quantum::{Quantum, Slot};

pub use slice::CpuSlice;
pub(crate) use slice::{Waiting, begins};

/// The most CPUs that are followed.
const CPUS_MAX: usize = 256;
/// How much sooner than expected a CPU may go, in nanoseconds. The end of a slice is known less exactly than its start.
const GOES_EARLY_NS: f64 = 50_000.0;
/// Slices that are known less surely count as unknown, from 0 to 1.
const CONFIDENT: f64 = 0.5;

/// The slices of some CPUs. Clones share them. The threads that follow them end with the last clone.
///
/// ```
/// use evenkeel_rt::jobs::{JobSettings, Jobs, Queue, WorkerSettings};
/// use evenkeel_rt::Slices;
///
/// let slices = Slices::start(&[0].into_iter().collect())?;
/// let settings = JobSettings {
///     workers: vec![WorkerSettings::from_queues(&[Queue(0)])],
///     slices: Some(slices.clone()), // a job that a CPU would leave in the middle begins on another one
///     ..JobSettings::default()
/// };
/// let jobs = Jobs::start(&settings)?;
/// match slices.cpu(0) {
///     Some(slice) => println!("CPU 0 is here for {} of {} ns", slice.share_ns, slice.period_ns),
///     None => println!("no slices are known of CPU 0 yet, or it has none"),
/// }
/// # drop(jobs);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Slices {
    scouts: Arc<Scouts>,
}

struct Scouts {
    table: Arc<Table>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads know. A CPU has the place of its number.
struct Table {
    places: Box<[Place]>,
    stop: AtomicBool,
}

/// The slices of one CPU. The two words are written one after the other. Between the two, a reader is wrong by no more than what a period
/// changes in a moment.
#[derive(Default)]
struct Place {
    /// The period and the share in nanoseconds, in the upper and the lower half; 0 if no slices are known.
    lengths: AtomicU64,
    start_ns: AtomicU64,
}

impl Slices {
    /// Starts to follow the slices of these CPUs. It takes some seconds until they are known. While the search lasts, it costs up to 2 % of each
    /// CPU.
    ///
    /// # Errors
    /// If a CPU's number is above 255, or the system starts no more threads; then none is left.
    pub fn start(cpus: &CpuSet) -> io::Result<Slices> {
        let places = cpus.iter().max().map_or(0, |cpu| cpu + 1);
        if places > CPUS_MAX {
            let what = format!("the slices of CPU {} can't be followed: name CPUs below {CPUS_MAX}", places - 1);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let places = (0..places).map(|_| Place::default()).collect();
        let table = Arc::new(Table { places, stop: AtomicBool::new(false) });
        let mut scouts = Scouts { table: Arc::clone(&table), threads: Vec::with_capacity(cpus.len()) };
        for cpu in cpus.iter() {
            // If this fails, dropping `scouts` ends the threads that were started.
            scouts.threads.push(scout::start(cpu, Arc::clone(&table))?);
        }
        Ok(Slices { scouts: Arc::new(scouts) })
    }

    /// Slices that are given, for tests.
    #[cfg(test)]
    pub(crate) fn given(slices: &[Option<CpuSlice>]) -> Slices {
        let place = |slice: &Option<CpuSlice>| {
            let lengths = slice.map_or(0, |slice| slice.period_ns << 32 | slice.share_ns);
            Place {
                lengths: AtomicU64::new(lengths),
                start_ns: AtomicU64::new(slice.map_or(0, |slice| slice.start_ns)),
            }
        };
        let table = Table { places: slices.iter().map(place).collect(), stop: AtomicBool::new(false) };
        Slices { scouts: Arc::new(Scouts { table: Arc::new(table), threads: Vec::new() }) }
    }

    /// The slices of a CPU; none if it has none, or they are not known.
    #[inline]
    pub fn cpu(&self, cpu: usize) -> Option<CpuSlice> {
        self.scouts.table.places.get(cpu)?.read()
    }
}

impl Place {
    #[inline]
    fn read(&self) -> Option<CpuSlice> {
        let lengths = self.lengths.load(Ordering::Relaxed);
        if lengths == 0 {
            return None;
        }
        let start_ns = self.start_ns.load(Ordering::Relaxed);
        Some(CpuSlice { start_ns, period_ns: lengths >> 32, share_ns: lengths & u64::from(u32::MAX) })
    }

    fn write(&self, quantum: &Quantum) {
        let Some((slice, lengths)) = lengths(quantum) else {
            return self.lengths.store(0, Ordering::Relaxed);
        };
        self.start_ns.store(slice.phase_ns, Ordering::Relaxed);
        self.lengths.store(lengths, Ordering::Relaxed);
    }
}

/// The slices, and the word of their lengths; none if there are none or they are not sure.
fn lengths(quantum: &Quantum) -> Option<(&Slot, u64)> {
    let Quantum::FixedSlot(slot) = quantum else { return None };
    let share_ns = slot.share * slot.period_ns - GOES_EARLY_NS;
    let is_known = slot.confidence >= CONFIDENT && share_ns >= 1.0 && slot.period_ns <= f64::from(u32::MAX);
    is_known.then_some((slot, (slot.period_ns as u64) << 32 | share_ns as u64))
}

impl Drop for Scouts {
    fn drop(&mut self) {
        self.table.stop.store(true, Ordering::Relaxed);
        let own = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != own) {
            // A scout does not panic.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Slices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.scouts.table.places.iter().enumerate();
        f.debug_map().entries(places.filter_map(|(cpu, place)| Some((cpu, place.read()?)))).finish()
    }
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

    #[test]
    fn threads_end_with_the_last_clone() {
        let slices = Slices::start(&evenkeel_sys::thread::affinity().unwrap_or_default()).unwrap();
        let table = Arc::clone(&slices.scouts.table);
        drop(slices.clone());
        assert!(!table.stop.load(Ordering::Relaxed));
        drop(slices);
        assert_eq!(Arc::strong_count(&table), 1, "a thread is left");
        assert!(Slices::start(&[CPUS_MAX].into_iter().collect()).is_err());
    }
}
