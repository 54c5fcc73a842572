//! `Jobs`: runs the work of a frame in small pieces on a few threads, and longer work outside the frame.
//!
//! Each thread takes jobs from its queues in its own order: for example, jobs of the frame first, long jobs later.
//! A worker that takes only long jobs never delays a frame. The thread that opens a frame also runs the frame's jobs.
//! On one CPU, a frame wakes no other thread, because each wake would cost two context switches and save no time.
//!
//! ```
//! use evenkeel_rt::jobs::{JobSettings, Jobs, Queue, WorkerSettings};
//!
//! const FRAME: Queue = Queue(0);
//! const LATER: Queue = Queue(1);
//!
//! let workers = vec![WorkerSettings::from_queues(&[FRAME, LATER]), WorkerSettings::from_queues(&[LATER])];
//! let mut jobs = Jobs::start(&JobSettings { workers, ..JobSettings::default() })?;
//! let asynchronous = jobs.asynchronous();
//!
//! let mut heights = vec![0; 100];
//! let (left, right) = heights.split_at_mut(50);
//! jobs.frame(|frame| {
//!     let first = frame.push_dependency(FRAME, || left.fill(1))?;
//!     let second = frame.push_dependency(FRAME, || right.fill(2))?;
//!     frame.push_after(&[first, second], FRAME, || println!("both halves are filled"))?;
//!     asynchronous.push(LATER, || println!("save the match"))
//! })?;
//! assert_eq!(heights.iter().sum::<i32>(), 150); // all jobs of the frame are done
//! assert_eq!(jobs.last_frame().jobs, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::any::Any;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use evenkeel_sys::job::Tally;

use crate::thread::{ThreadReport, TickThread};

mod asynchronous;
mod counters;
mod frame;
mod parts;
mod settings;
mod shared;
mod sliced;
mod worker_slot;

pub use asynchronous::{Asynchronous, Completion, Progress};
pub use counters::FrameCounters;
pub use frame::{Frame, Handle, PushError};
pub use settings::{Idling, JobSettings, JobsError, Queue, QueueKind, QueueSettings, WhenFull, WorkerSettings};

use counters::Totals;
use parts::{CALLER, Shared, WorkerSlot};

/// Workers and their queues.
///
/// Dropping a `Jobs` runs all asynchronous jobs that were pushed, waits for them, and ends the workers.
/// [`discard`](Jobs::discard) drops the waiting jobs instead.
pub struct Jobs {
    shared: Arc<Shared>,
    /// The slot of the thread that opens frames.
    slot: WorkerSlot,
    threads: Vec<JoinHandle<()>>,
    reports: Vec<ThreadReport>,
    before: Totals,
    last: FrameCounters,
}

impl Jobs {
    /// Starts the workers. Allocates all memory that the job system needs.
    ///
    /// # Errors
    /// If the settings are invalid, or the system starts no more threads. In that case all started workers have ended.
    pub fn start(settings: &JobSettings) -> Result<Jobs, JobsError> {
        settings.check()?;
        let (shared, sources) = Shared::new(settings);
        let shared = Arc::new(shared);
        let own = (0..settings.queues.len()).map(|queue| queue as u8);
        let own = own.filter(|queue| settings.queues[usize::from(*queue)].kind == QueueKind::Frame).collect();
        let mut jobs = Jobs {
            slot: WorkerSlot::new(&shared, CALLER, own, sources),
            shared,
            threads: Vec::with_capacity(settings.workers.len()),
            reports: Vec::with_capacity(settings.workers.len()),
            before: Totals::default(),
            last: FrameCounters::default(),
        };
        for (worker, wanted) in settings.workers.iter().enumerate() {
            let takes = wanted.queues.iter().map(|queue| queue.0).collect();
            let slot = WorkerSlot::new(&jobs.shared, worker + 1, takes, Vec::new());
            let config = wanted.thread.clone();
            let (says, said) = std::sync::mpsc::sync_channel(1);
            let body = move || {
                let thread = TickThread::set_up(&config);
                let _ = says.send(thread.report());
                slot.work();
            };
            let spawned = std::thread::Builder::new().name(format!("job-worker-{worker}")).spawn(body);
            // If this fails, dropping `jobs` ends the workers that were started.
            jobs.threads.push(spawned.map_err(|source| JobsError::Thread { worker, source })?);
            jobs.reports.extend(said.recv());
        }
        Ok(jobs)
    }

    /// Opens a frame: calls `body`, which pushes jobs, and returns when all of them are done.
    /// The calling thread runs jobs until all jobs are done. Jobs may borrow data that outlives the call.
    ///
    /// # Panics
    /// If `body` or a job panics. The panic has the payload of the first panic, and comes after all other jobs are done.
    pub fn frame<'env, R>(&mut self, body: impl FnOnce(&Frame<'_, 'env>) -> R) -> R {
        let shared = &self.shared;
        // No job is left, so no thread uses a link.
        shared.links.clear();
        shared.generation.store(shared.generation.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let counts = CountsAtEnd { shared, before: &mut self.before, last: &mut self.last };
        let result = frame::open(&self.slot, body);
        drop(counts);
        result
    }

    /// The counters of the last frame.
    pub fn last_frame(&self) -> FrameCounters {
        self.last
    }

    /// Returns a handle that pushes asynchronous jobs, from any thread.
    pub fn asynchronous(&self) -> Asynchronous {
        Asynchronous { shared: Arc::clone(&self.shared) }
    }

    /// Runs up to `at_most` asynchronous jobs of queues that no worker takes from, and returns how many it ran.
    /// Servers without workers call this method in the time that a tick has left.
    /// [`JobSettings::caller_runs_asynchronous`] allows pushes to such queues.
    pub fn run_asynchronous(&mut self, at_most: usize) -> usize {
        self.slot.run_orphans(at_most)
    }

    /// Ends the workers as soon as the running jobs are done, and drops the waiting asynchronous jobs.
    /// Returns how many asynchronous jobs it dropped.
    ///
    /// ```
    /// use evenkeel_rt::jobs::{JobSettings, Jobs, Queue};
    ///
    /// let jobs = Jobs::start(&JobSettings { caller_runs_asynchronous: true, ..JobSettings::default() })?;
    /// jobs.asynchronous().push(Queue(1), || println!("this never runs"))?;
    /// assert_eq!(jobs.discard(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn discard(mut self) -> usize {
        self.shared.stop.store(true, Ordering::Release);
        self.end_workers();
        let leftovers = self.shared.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = Tally::new();
        let waiting = || self.shared.queues.iter().find_map(parts::JobQueue::pop);
        let count = std::iter::from_fn(waiting).fold(0, |count, task| {
            task.discard(&tally);
            count + 1
        });
        drop(leftovers);
        count
    }

    /// The payload of the first panic of an asynchronous job since the last call.
    ///
    /// ```
    /// use evenkeel_rt::jobs::{JobSettings, Jobs, Queue, WorkerSettings};
    ///
    /// const LATER: Queue = Queue(1);
    ///
    /// let workers = vec![WorkerSettings::from_queues(&[LATER])];
    /// let mut jobs = Jobs::start(&JobSettings { workers, ..JobSettings::default() })?;
    /// println!("the worker's thread: {}", jobs.workers()[0]);
    /// let finished = evenkeel_rt::jobs::Completion::new();
    /// jobs.asynchronous().push_with_completion(LATER, &finished, || panic!("no room on the disk"))?;
    /// while !finished.has_ended() {
    ///     std::thread::yield_now();
    /// }
    /// assert!(jobs.take_panic().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        let failures = &self.shared.asynchronous_failures;
        failures.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Which settings of each worker's thread are active.
    pub fn workers(&self) -> &[ThreadReport] {
        &self.reports
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.end_workers();
        // Jobs of queues that no worker takes from, and jobs whose worker had ended when they were pushed.
        let _leftovers = self.shared.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
        self.slot.run_pending();
    }
}

impl Jobs {
    /// Refuses further jobs, and ends the workers.
    fn end_workers(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        // Each worker either is awake and sees the request before it sleeps, or sleeps and is woken. The first call has a fence.
        (0..=self.threads.len()).for_each(|slot| _ = self.shared.gate.wake_one(1 << slot));
        let own = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != own) {
            // A worker does not panic.
            let _ = thread.join();
        }
    }
}

/// Counts a frame when it ends, also after a panic.
struct CountsAtEnd<'a> {
    shared: &'a Shared,
    before: &'a mut Totals,
    last: &'a mut FrameCounters,
}

impl Drop for CountsAtEnd<'_> {
    fn drop(&mut self) {
        let now = Totals::read(self.shared);
        if let Some(sliced) = &self.shared.sliced {
            sliced.forget();
        }
        *self.last = now.since(self.before, self.shared);
        *self.before = now;
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("workers", &self.threads.len()).finish_non_exhaustive()
    }
}
