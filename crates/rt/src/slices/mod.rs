//! `Slices`: when each CPU is available, if a hypervisor runs the CPUs in slices. The slices of different CPUs need not be in step.
//!
//! One thread for each CPU finds and follows the CPU's slices, as [`TickClock`] does for its own thread.
//! The thread sleeps nearly always, and costs some 0.1 % of the CPU. A reader costs two loads from memory.

mod scout;
mod slice;
mod table;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use evenkeel_sys::CpuSet;

pub use slice::CpuSlice;
pub(crate) use slice::{Waiting, begins};
use table::Table;

use crate::thread::ApplyStatus;

/// The maximum number of CPUs to follow.
const CPUS_MAX: usize = 256;
/// The slices of some CPUs. Clones share the slices. The threads that follow the slices end when the last clone is dropped.
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

impl Slices {
    /// Starts to follow the slices of these CPUs. The search takes some seconds, and costs up to 2 % of each CPU.
    ///
    /// # Errors
    /// If a CPU's number is above 255, or the system starts no more threads. In that case all started threads have ended.
    pub fn start(cpus: &CpuSet) -> io::Result<Slices> {
        let places = cpus.iter().max().map_or(0, |cpu| cpu + 1);
        if places > CPUS_MAX {
            let what = format!("the slices of CPU {} can't be followed: name CPUs below {CPUS_MAX}", places - 1);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let table = Arc::new(Table::new(places));
        let mut scouts = Scouts { table: Arc::clone(&table), threads: Vec::with_capacity(cpus.len()) };
        for cpu in cpus.iter() {
            // If this fails, dropping `scouts` ends the threads that were started.
            scouts.threads.push(scout::start(cpu, Arc::clone(&table))?);
        }
        Ok(Slices { scouts: Arc::new(scouts) })
    }

    /// Whether this CPU is followed. `Refused` if the process may not run on the CPU, or if no such CPU exists.
    /// `NotRequested` if [`start`](Slices::start) did not name the CPU, and until the CPU's thread has started.
    ///
    /// ```
    /// use evenkeel_rt::{ApplyStatus, Slices};
    ///
    /// let slices = Slices::start(&[0].into_iter().collect())?;
    /// if let ApplyStatus::Refused(errno) = slices.pinned(0) {
    ///     eprintln!("the slices of CPU 0 stay unknown: {errno}");
    /// }
    /// assert_eq!(slices.pinned(7), ApplyStatus::NotRequested);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pinned(&self, cpu: usize) -> ApplyStatus {
        let place = self.scouts.table.places.get(cpu);
        place.and_then(|place| place.pinned.get().copied()).unwrap_or(ApplyStatus::NotRequested)
    }

    /// Slices with these values, for tests.
    #[cfg(test)]
    pub(crate) fn given(slices: &[Option<CpuSlice>]) -> Slices {
        let table = Table::given(slices);
        Slices { scouts: Arc::new(Scouts { table: Arc::new(table), threads: Vec::new() }) }
    }

    /// The slices of a CPU. `None` if the CPU has no slices, or they are not known.
    #[inline]
    pub fn cpu(&self, cpu: usize) -> Option<CpuSlice> {
        self.scouts.table.places.get(cpu)?.read()
    }
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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        let here = evenkeel_sys::thread::affinity().unwrap().first().unwrap();
        let absent = CPUS_MAX - 1;
        let slices = Slices::start(&[here, absent].into_iter().collect()).unwrap();
        for (cpu, expected) in [(here, ApplyStatus::Active), (absent, ApplyStatus::Refused(crate::Errno::INVAL))] {
            while slices.pinned(cpu) == ApplyStatus::NotRequested {
                std::thread::yield_now();
            }
            assert_eq!(slices.pinned(cpu), expected, "{cpu}");
        }
        assert_eq!(slices.pinned(absent - 1), ApplyStatus::NotRequested);
        assert_eq!(slices.pinned(CPUS_MAX), ApplyStatus::NotRequested);
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
