//! `Jobs`: the work of a frame in small pieces on a few threads, and longer work beside it.
//!
//! Threads take from queues in an order of their own: what a frame waits for first, what may last after it, and where the settings have a
//! worker for that alone, nobody else's frame waits for it. Who opens a frame runs its jobs too. Where there is one CPU, nobody else is
//! woken for them: there is nothing to win, and each wake would cost two turns of the scheduler.
//!
//! ```
//! use evenkeel_rt::jobs::{JobSettings, Jobs, Queue, WorkerSettings};
//!
//! const FRAME: Queue = Queue(0);
//! const LATER: Queue = Queue(1);
//!
//! let workers = vec![WorkerSettings::of(&[FRAME, LATER]), WorkerSettings::of(&[LATER])];
//! let mut jobs = Jobs::start(&JobSettings { workers, ..JobSettings::default() })?;
//! let asynchronous = jobs.asynchronous();
//!
//! let mut heights = vec![0; 100];
//! let (left, right) = heights.split_at_mut(50);
//! jobs.frame(|frame| {
//!     let first = frame.push_dependency(FRAME, || left.fill(1))?;
//!     let second = frame.push_dependency(FRAME, || right.fill(2))?;
//!     frame.push_after(&[first, second], FRAME, || println!("both halves are filled"))?;
//!     asynchronous.push(LATER, || println!("saved, sometime"))
//! })?;
//! assert_eq!(heights.iter().sum::<i32>(), 150); // the frame is over: all of its jobs are done
//! assert_eq!(jobs.last_frame().jobs, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use evenkeel_sys::job::Tally;

use crate::thread::{ThreadReport, TickThread};

mod asynchronous;
mod counters;
mod frame;
mod parts;
mod settings;
mod shared;
mod worker_slot;

pub use asynchronous::{Asynchronous, Completion, Progress};
pub use counters::FrameCounters;
pub use frame::{Frame, Handle, PushError};
pub use settings::{Idling, JobSettings, JobsError, Queue, QueueKind, QueueSettings, WhenFull, WorkerSettings};

use counters::Totals;
use parts::{CALLER, Shared, WorkerSlot};

/// Workers and their queues. Ends them when it is dropped: jobs that run are waited for, asynchronous ones that wait are dropped.
pub struct Jobs {
    shared: Arc<Shared>,
    /// Of who opens frames.
    slot: WorkerSlot,
    threads: Vec<JoinHandle<()>>,
    reports: Vec<ThreadReport>,
    before: Totals,
    last: FrameCounters,
}

impl Jobs {
    /// Starts the workers. All memory is taken here.
    ///
    /// # Errors
    /// If the settings make no sense, or the system gives no thread; then none is left.
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
            let wishes = wanted.thread.clone();
            let (says, said) = std::sync::mpsc::sync_channel(1);
            let body = move || {
                let thread = TickThread::set_up(&wishes);
                let _ = says.send(thread.report());
                slot.work();
            };
            let spawned = std::thread::Builder::new().name(format!("job-worker-{worker}")).spawn(body);
            // Where this fails, those that were started end with what is returned to nobody.
            jobs.threads.push(spawned.map_err(|source| JobsError::Thread { worker, source })?);
            jobs.reports.extend(said.recv());
        }
        Ok(jobs)
    }

    /// Calls `body`, which pushes jobs, and returns when all of them are done; helps until then. Jobs may borrow what lives for longer than
    /// the call.
    ///
    /// # Panics
    /// If `body` panics, or else the first of the jobs that did: with what it panicked with, when all others are done.
    pub fn frame<'env, R>(&mut self, body: impl FnOnce(&Frame<'_, 'env>) -> R) -> R {
        let shared = &self.shared;
        // No job is left, so nobody uses a link.
        shared.links.clear();
        shared.generation.store(shared.generation.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let counts = CountsAtEnd { shared, before: &mut self.before, last: &mut self.last };
        let result = frame::open(&self.slot, body);
        drop(counts);
        result
    }

    /// What the last frame took.
    pub fn last_frame(&self) -> FrameCounters {
        self.last
    }

    /// Pushes asynchronous jobs, from any thread.
    pub fn asynchronous(&self) -> Asynchronous {
        Asynchronous { shared: Arc::clone(&self.shared) }
    }

    /// Runs up to so many asynchronous jobs of queues that no worker takes from: for a server without workers, in the time that its tick
    /// has left. How many there were.
    pub fn run_asynchronous(&mut self, at_most: usize) -> usize {
        self.slot.run_orphans(at_most)
    }

    /// What the first asynchronous job panicked with since this was last called.
    pub fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        let failures = &self.shared.asynchronous_failures;
        failures.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }

    /// What became of each worker's wishes.
    pub fn workers(&self) -> &[ThreadReport] {
        &self.reports
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // Each is awake and sees it before it sleeps, or sleeps and is woken.
        (1..=self.threads.len()).for_each(|slot| _ = self.shared.gate.wake_one(1 << slot));
        let own = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != own) {
            // A worker does not panic.
            let _ = thread.join();
        }
        let tally = Tally::new();
        for queue in &self.shared.queues {
            while let Some(task) = queue.pop() {
                task.discard(&tally);
            }
        }
    }
}

/// Counts a frame when it ends, in whichever way.
struct CountsAtEnd<'a> {
    shared: &'a Shared,
    before: &'a mut Totals,
    last: &'a mut FrameCounters,
}

impl Drop for CountsAtEnd<'_> {
    fn drop(&mut self) {
        let now = Totals::of(self.shared);
        *self.last = now.since(self.before, self.shared);
        *self.before = now;
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("workers", &self.threads.len()).finish_non_exhaustive()
    }
}
