//! `Asynchronous`: pushes jobs that no frame waits for, from any thread.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use super::frame::PushError;
use super::parts::{CALLER, JobQueue, Shared, Task, UNLINKED, WorkerSlot};
use super::settings::{Queue, QueueKind, WhenFull};
use super::worker_slot::add;

/// Pushes jobs that no frame waits for. Clone it for each thread that pushes.
///
/// ```
/// use evenkeel_rt::jobs::{Completion, JobSettings, Jobs, Progress, Queue, WorkerSettings};
///
/// const LATER: Queue = Queue(1);
///
/// let workers = vec![WorkerSettings::from_queues(&[LATER])];
/// let jobs = Jobs::start(&JobSettings { workers, ..JobSettings::default() })?;
/// let (asynchronous, saved) = (jobs.asynchronous(), Completion::new());
/// asynchronous.push_with_completion(LATER, &saved, || println!("save the match"))?;
/// drop(jobs); // runs what still waits
/// assert!(saved.has_ended() && saved.progress() == Progress::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Asynchronous {
    pub(super) shared: Arc<Shared>,
}

/// The state of an asynchronous job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No job was pushed with this completion yet.
    NotPushed,
    /// The job waits or runs.
    Pending,
    /// The job is done.
    Done,
    /// The job panicked; see [`Jobs::take_panic`](super::Jobs::take_panic).
    Panicked,
    /// The job was dropped without running: the queue was full, or the job system discarded it.
    Dropped,
}

/// Reports the state of one asynchronous job at a time. Create it before the first frame, and reuse it for later jobs.
#[derive(Clone, Debug, Default)]
pub struct Completion(Arc<AtomicU32>);

impl Completion {
    /// A completion without a job.
    pub fn new() -> Completion {
        Completion::default()
    }

    /// The state of the job. After [`Progress::Done`], the caller sees everything that the job wrote.
    pub fn progress(&self) -> Progress {
        match self.0.load(Ordering::Acquire) {
            NOT_PUSHED => Progress::NotPushed,
            PENDING => Progress::Pending,
            DONE => Progress::Done,
            PANICKED => Progress::Panicked,
            _ => Progress::Dropped,
        }
    }

    /// Whether the job has ended, in any way.
    pub fn has_ended(&self) -> bool {
        !matches!(self.progress(), Progress::NotPushed | Progress::Pending)
    }
}

const NOT_PUSHED: u32 = 0;
const PENDING: u32 = 1;
const DONE: u32 = 2;
const PANICKED: u32 = 3;
const DROPPED: u32 = 4;

/// Travels with the job, and reports when the job ends, in any way.
struct Ends(Completion);

impl Ends {
    fn end(self, how: u32) {
        self.0.0.store(how, Ordering::Release);
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.0.compare_exchange(PENDING, DROPPED, Ordering::Release, Ordering::Relaxed);
    }
}

impl Asynchronous {
    /// Pushes a job. A worker runs the job as soon as one is free.
    /// If workers sleep, the push prefers to wake a worker whose first queue is this one, rather than one that serves frames.
    ///
    /// # Errors
    /// If the queue is full and refuses, is for frames, or no worker takes from it; or if the job system has ended.
    pub fn push<F>(&self, queue: Queue, job: F) -> Result<(), PushError>
    where
        F: FnOnce() + Send + 'static,
    {
        self.put(queue, None, job)
    }

    /// Pushes a job as [`push`](Asynchronous::push) does. `completion` reports the state of the job.
    ///
    /// # Errors
    /// As for [`push`](Asynchronous::push); and if the completion's last job has not ended.
    pub fn push_with_completion<F>(&self, queue: Queue, completion: &Completion, job: F) -> Result<(), PushError>
    where
        F: FnOnce() + Send + 'static,
    {
        let before = completion.0.load(Ordering::Relaxed);
        if before == PENDING
            || completion.0.compare_exchange(before, PENDING, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return Err(PushError::StillPending);
        }
        self.put(queue, Some(Ends(completion.clone())), job)
    }

    fn put<F>(&self, queue: Queue, ends: Option<Ends>, job: F) -> Result<(), PushError>
    where
        F: FnOnce() + Send + 'static,
    {
        let shared = &self.shared;
        let at = shared.queues.get(usize::from(queue.0)).filter(|at| at.settings.kind == QueueKind::Asynchronous);
        let Some(at) = at else { return Err(PushError::WrongQueue(queue)) };
        if !at.is_served {
            return Err(PushError::NoWorker(queue));
        }
        if shared.is_closed.load(Ordering::Acquire) {
            return Err(PushError::Ended);
        }
        if at.ring.len() >= at.settings.capacity {
            if at.settings.when_full == WhenFull::Refuse {
                return Err(PushError::Full(queue));
            }
            run(shared, ends, job);
            return Ok(());
        }
        let task = Task::free(UNLINKED, move |slot: &WorkerSlot| {
            if run(&slot.shared, ends, job) == PANICKED {
                add(&slot.counted().panics, 1);
            }
        });
        at.ring.push(task).map_err(|_| PushError::Full(queue))?;
        if shared.gate.wake_one(at.first_choice_of).is_none() {
            shared.gate.wake_one(at.takers);
        }
        // `wake_one` has a fence: either this thread sees that the job system ends, or the thread that ends it finds the job.
        if shared.is_closed.load(Ordering::Relaxed) {
            run_late(shared, at);
        }
        Ok(())
    }
}

/// Runs a job that was pushed while the job system ended, because the workers may have ended already.
#[cold]
fn run_late(shared: &Arc<Shared>, at: &JobQueue) {
    let slot = WorkerSlot::new(shared, CALLER, Vec::new(), Vec::new());
    let _leftovers = shared.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(task) = at.pop() {
        if shared.stop.load(Ordering::Relaxed) {
            task.discard(&slot.tally);
        } else {
            task.run(&slot, &slot.tally);
        }
    }
}

/// Runs a job, and reports how it went.
fn run(shared: &Shared, ends: Option<Ends>, job: impl FnOnce()) -> u32 {
    let how = match catch_unwind(AssertUnwindSafe(job)) {
        Ok(()) => DONE,
        Err(payload) => {
            shared.asynchronous_failures.add(payload);
            PANICKED
        }
    };
    if let Some(ends) = ends {
        ends.end(how);
    }
    how
}

impl fmt::Debug for Asynchronous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asynchronous").finish_non_exhaustive()
    }
}
