//! `Asynchronous`: jobs that no frame waits for, pushed from any thread.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::frame::PushError;
use super::parts::{Shared, Task, UNLINKED, WorkerSlot};
use super::settings::{Queue, QueueKind, WhenFull};
use super::worker_slot::add;

/// Pushes jobs that no frame waits for. Clone it for every thread that does.
#[derive(Clone)]
pub struct Asynchronous {
    pub(super) shared: Arc<Shared>,
}

/// What has become of an asynchronous job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// None was pushed with this completion yet.
    NotPushed,
    /// It waits or runs.
    Pending,
    /// It is done.
    Done,
    /// It panicked; see [`Jobs::take_panic`](super::Jobs::take_panic).
    Panicked,
    /// It was dropped unrun: the job system ended.
    Dropped,
}

/// Tells what has become of one asynchronous job at a time. Made before the first frame; for the next job it serves again.
#[derive(Clone, Debug, Default)]
pub struct Completion(Arc<AtomicU32>);

impl Completion {
    /// One of its own.
    pub fn new() -> Completion {
        Completion::default()
    }

    /// What has become of the job. What it did before it was done is seen.
    pub fn progress(&self) -> Progress {
        match self.0.load(Ordering::Acquire) {
            NOT_PUSHED => Progress::NotPushed,
            PENDING => Progress::Pending,
            DONE => Progress::Done,
            PANICKED => Progress::Panicked,
            _ => Progress::Dropped,
        }
    }

    /// Whether it has ended, in any way.
    pub fn has_ended(&self) -> bool {
        !matches!(self.progress(), Progress::NotPushed | Progress::Pending)
    }
}

const NOT_PUSHED: u32 = 0;
const PENDING: u32 = 1;
const DONE: u32 = 2;
const PANICKED: u32 = 3;
const DROPPED: u32 = 4;

/// Goes with the job; whatever becomes of that is told.
struct Tells(Completion);

impl Tells {
    fn end(self, how: u32) {
        self.0.0.store(how, Ordering::Release);
    }
}

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.0.compare_exchange(PENDING, DROPPED, Ordering::Release, Ordering::Relaxed);
    }
}

impl Asynchronous {
    /// Pushes a job; it runs when a worker comes to it. A worker that takes from this queue before all others is woken rather than one
    /// that has frames to serve.
    ///
    /// # Errors
    /// If the queue is full and refuses, or is for frames, or the job system has ended.
    pub fn push<F>(&self, queue: Queue, job: F) -> Result<(), PushError>
    where
        F: FnOnce() + Send + 'static,
    {
        self.put(queue, None, job)
    }

    /// The same, and `completion` tells what becomes of the job.
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
        self.put(queue, Some(Tells(completion.clone())), job)
    }

    fn put<F>(&self, queue: Queue, tells: Option<Tells>, job: F) -> Result<(), PushError>
    where
        F: FnOnce() + Send + 'static,
    {
        let shared = &self.shared;
        let at = shared.queues.get(usize::from(queue.0)).filter(|at| at.settings.kind == QueueKind::Asynchronous);
        let Some(at) = at else { return Err(PushError::WrongQueue(queue)) };
        if shared.stop.load(Ordering::Acquire) {
            return Err(PushError::Ended);
        }
        if at.ring.len() >= at.settings.capacity {
            if at.settings.when_full == WhenFull::Refuse {
                return Err(PushError::Full(queue));
            }
            run(shared, tells, job);
            return Ok(());
        }
        let task = Task::free(UNLINKED, move |slot: &WorkerSlot| {
            if run(&slot.shared, tells, job) == PANICKED {
                add(&slot.counted().panics, 1);
            }
        });
        at.ring.push(task).map_err(|_| PushError::Full(queue))?;
        if shared.gate.wake_one(at.first_choice_of).is_none() {
            shared.gate.wake_one(at.takers);
        }
        Ok(())
    }
}

/// Runs a job and tells how it went.
fn run(shared: &Shared, tells: Option<Tells>, job: impl FnOnce()) -> u32 {
    let how = match catch_unwind(AssertUnwindSafe(job)) {
        Ok(()) => DONE,
        Err(payload) => {
            shared.asynchronous_failures.add(payload);
            PANICKED
        }
    };
    if let Some(tells) = tells {
        tells.end(how);
    }
    how
}

impl fmt::Debug for Asynchronous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asynchronous").finish_non_exhaustive()
    }
}
