//! `Frame`: accepts jobs, and waits for all of them.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_sys::job::{self, Link};

use super::parts::{Failures, JobScope, Task, UNLINKED, WorkerSlot};
use super::settings::{Queue, QueueKind, WhenFull};
use super::worker_slot::add;

/// A job was refused, and dropped without running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The queue is full.
    #[error("push a job to queue {}: it is full; raise its capacity, or push fewer jobs", .0.0)]
    Full(Queue),
    /// The frame has no room for more dependencies.
    #[error("push a job with dependencies: the frame has no room for more; raise linked_max or waits_max")]
    Links,
    /// The queue does not exist, or is for the other kind of jobs.
    #[error("push a job to queue {}: it does not exist, or is for the other kind of jobs; check the settings", .0.0)]
    WrongQueue(Queue),
    /// No worker takes jobs from the queue, and no other thread runs them.
    #[error(
        "push a job to queue {}: no worker takes from it; add a worker for it, or set caller_runs_asynchronous and call run_asynchronous",
        .0.0
    )]
    NoWorker(Queue),
    /// The completion belongs to another job, which has not ended.
    #[error("push a job with a completion of another job: wait until that job has ended, or use another completion")]
    StillPending,
    /// The job system has ended.
    #[error("push a job: the job system has ended: end it after the last push")]
    Ended,
}

/// A job of a frame that others can depend on.
///
/// ```
/// use evenkeel_rt::jobs::{Handle, JobSettings, Jobs, Queue};
///
/// const FRAME: Queue = Queue(0);
///
/// let mut jobs = Jobs::start(&JobSettings::default())?;
/// jobs.frame(|frame| {
///     let moved: Handle<'_> = frame.push_dependency(FRAME, || println!("move the players"))?;
///     let answered = frame.push_after_with(&[moved], FRAME, |frame| {
///         let _ = frame.push(FRAME, || println!("answer one of them"));
///     })?;
///     assert!(frame.wait(answered) && frame.is_done(moved));
///     Ok::<(), evenkeel_rt::jobs::PushError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Handle<'env> {
    link: Link,
    generation: u64,
    frame: PhantomData<fn(&'env ()) -> &'env ()>,
}

/// An open frame, for the thread that opened it or for one of its jobs. Jobs may borrow what lives for `'env`.
///
/// ```
/// use evenkeel_rt::jobs::{JobSettings, Jobs, Queue};
///
/// const FRAME: Queue = Queue(0);
///
/// let mut jobs = Jobs::start(&JobSettings::default())?; // without workers: this thread runs all jobs
/// let mut cells = [0; 4];
/// let sum = jobs.frame(|frame| {
///     frame.push_batch(FRAME, cells.iter_mut().map(|cell| move || *cell = 1))?;
///     frame.push_with(FRAME, |frame| {
///         // A job that pushes its own jobs, which borrow from it.
///         let mut inside = [0; 2];
///         let _ = frame.nested(|inner| inner.push(FRAME, || inside.fill(1)));
///     })?;
///     let read = frame.push_dependency(FRAME, || println!("read the input"))?;
///     let moved = frame.push_after(&[read], FRAME, || println!("move the world"))?;
///     assert!(frame.wait(moved) && frame.is_done(read));
///     let sum = std::sync::atomic::AtomicUsize::new(0);
///     frame.for_each(FRAME, 0..100, 10, |at| _ = sum.fetch_add(at, std::sync::atomic::Ordering::Relaxed))?;
///     Ok::<_, evenkeel_rt::jobs::PushError>(sum.into_inner())
/// })?;
/// assert_eq!((sum, cells), (4950, [1; 4]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Frame<'a, 'env> {
    pub(super) slot: &'a WorkerSlot,
    pub(super) scope: &'a JobScope<'env>,
}

impl<'env> Frame<'_, 'env> {
    /// Pushes a job. It starts when a thread is free, at the latest at the end of the frame.
    ///
    /// # Errors
    /// If the queue is full and refuses ([`WhenFull::Refuse`]), or does not exist.
    #[inline]
    pub fn push<F>(&self, queue: Queue, job: F) -> Result<(), PushError>
    where
        F: FnOnce() + Send + 'env,
    {
        self.push_with(queue, |_: &Frame<'_, 'env>| job())
    }

    /// Pushes a job that can push more jobs to the same frame.
    ///
    /// # Errors
    /// As for [`push`](Frame::push).
    #[inline]
    pub fn push_with<F>(&self, queue: Queue, job: F) -> Result<(), PushError>
    where
        F: FnOnce(&Frame<'_, 'env>) + Send + 'env,
    {
        self.put(queue, job)?;
        self.slot.announce(queue.0.into());
        Ok(())
    }

    /// Pushes many jobs, and wakes another thread at most once.
    ///
    /// # Errors
    /// As for [`push`](Frame::push). Jobs before the refused job stay pushed.
    pub fn push_batch<F>(&self, queue: Queue, jobs: impl IntoIterator<Item = F>) -> Result<(), PushError>
    where
        F: FnOnce() + Send + 'env,
    {
        let put = jobs.into_iter().try_for_each(|job| self.put(queue, |_: &Frame<'_, 'env>| job()));
        self.slot.announce(queue.0.into());
        put
    }

    #[inline]
    fn put<F>(&self, queue: Queue, job: F) -> Result<(), PushError>
    where
        F: FnOnce(&Frame<'_, 'env>) + Send + 'env,
    {
        let at = self.slot.shared.queues.get(usize::from(queue.0)).filter(|at| at.settings.kind == QueueKind::Frame);
        let Some(at) = at else { return Err(PushError::WrongQueue(queue)) };
        if self.slot.is_full(queue.0.into(), at) || self.slot.is_too_deep() {
            return self.put_full(queue, at.settings.when_full, job);
        }
        match self.slot.put(queue.0.into(), at, self.task(job)) {
            Ok(()) => Ok(()),
            Err(task) => {
                // If a thread is descheduled in the middle of taking a job, the job's place in the queue stays blocked for a moment.
                self.slot.run_here(task);
                Ok(())
            }
        }
    }

    #[inline]
    fn task<F>(&self, job: F) -> Task
    where
        F: FnOnce(&Frame<'_, 'env>) + Send + 'env,
    {
        self.scope.task(UNLINKED, move |slot: &WorkerSlot, scope: &JobScope<'env>| {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(&Frame { slot, scope }))) {
                failed(slot, scope, payload);
            }
        })
    }

    #[cold]
    fn put_full<F>(&self, queue: Queue, when_full: WhenFull, job: F) -> Result<(), PushError>
    where
        F: FnOnce(&Frame<'_, 'env>) + Send + 'env,
    {
        if !self.slot.is_too_deep() {
            add(&self.slot.counted().full, 1);
            if when_full == WhenFull::Refuse {
                return Err(PushError::Full(queue));
            }
        }
        self.slot.run_here(self.task(job));
        Ok(())
    }

    /// Pushes a job that other jobs can depend on.
    ///
    /// # Errors
    /// As for [`push_after`](Frame::push_after).
    pub fn push_dependency<F>(&self, queue: Queue, job: F) -> Result<Handle<'env>, PushError>
    where
        F: FnOnce() + Send + 'env,
    {
        self.push_after(&[], queue, job)
    }

    /// Pushes a job that starts when all of `others` are done.
    /// If one of `others` panics, the job and all jobs that depend on it are dropped without running.
    /// Jobs of an earlier frame, or of another job system, count as done.
    ///
    /// # Errors
    /// If the queue is full and refuses; or if the frame already has [`linked_max`](super::JobSettings::linked_max) jobs of this kind.
    pub fn push_after<F>(&self, others: &[Handle<'env>], queue: Queue, job: F) -> Result<Handle<'env>, PushError>
    where
        F: FnOnce() + Send + 'env,
    {
        self.push_after_with(others, queue, |_: &Frame<'_, 'env>| job())
    }

    /// The same as [`push_after`](Frame::push_after), for a job that can push more jobs to the same frame.
    ///
    /// # Errors
    /// As for [`push_after`](Frame::push_after).
    pub fn push_after_with<F>(&self, others: &[Handle<'env>], queue: Queue, job: F) -> Result<Handle<'env>, PushError>
    where
        F: FnOnce(&Frame<'_, 'env>) + Send + 'env,
    {
        let shared = &self.slot.shared;
        let at = shared.queues.get(usize::from(queue.0)).filter(|at| at.settings.kind == QueueKind::Frame);
        let Some(at) = at else { return Err(PushError::WrongQueue(queue)) };
        if at.settings.when_full == WhenFull::Refuse && self.slot.is_full(queue.0.into(), at) {
            add(&self.slot.counted().full, 1);
            return Err(PushError::Full(queue));
        }
        let links = others.iter().map(|other| shared.link_of(other.generation, other.link));
        let place = shared.links.link(links).and_then(|link| Some((link, shared.waiting.get(link.index())?)));
        let Some((link, place)) = place else {
            add(&self.slot.counted().full, 1);
            return Err(PushError::Links);
        };
        let task = self.scope.task(link.index() as u32, move |slot: &WorkerSlot, scope: &JobScope<'env>| {
            let result = catch_unwind(AssertUnwindSafe(|| job(&Frame { slot, scope })));
            let well = result.is_ok();
            if let Err(payload) = result {
                failed(slot, scope, payload);
            }
            slot.link_is_done(link, well);
        });
        *place.lock() = Some((task, queue.0.into()));
        if let Some(all_well) = shared.links.start(link) {
            self.slot.set_free(link, all_well);
        }
        let generation = shared.generation.load(Ordering::Relaxed);
        Ok(Handle { link, generation, frame: PhantomData })
    }

    /// Whether a job is done.
    pub fn is_done(&self, handle: Handle<'env>) -> bool {
        let shared = &self.slot.shared;
        shared.link_of(handle.generation, handle.link).is_none_or(|link| shared.links.is_done(link))
    }

    /// Runs jobs until this one is done, then returns true. Inside a job it returns false at once if the awaited job is not done.
    /// The reason: the awaited job may be on the same stack, below the job that waits.
    /// Inside a job, use [`push_after`](Frame::push_after) or [`nested`](Frame::nested).
    pub fn wait(&self, handle: Handle<'env>) -> bool {
        let link = self.slot.shared.link_of(handle.generation, handle.link);
        match link.filter(|link| !self.slot.shared.links.is_done(*link)) {
            None => true,
            Some(_) if self.slot.is_in_job() => false,
            Some(link) => {
                self.slot.wait_for(link);
                true
            }
        }
    }

    /// Calls `each` with every number of the range, in chunks, on this thread and on threads that take from the queue.
    /// Returns when all calls have returned.
    ///
    /// # Errors
    /// If the queue does not exist. In that case `each` was not called.
    pub fn for_each(
        &self,
        queue: Queue,
        range: Range<usize>,
        chunk: usize,
        each: impl Fn(usize) + Sync,
    ) -> Result<(), PushError> {
        let at = self.slot.shared.queues.get(usize::from(queue.0)).filter(|at| at.settings.kind == QueueKind::Frame);
        let Some(at) = at else { return Err(PushError::WrongQueue(queue)) };
        let chunk = chunk.max(1);
        let next = AtomicUsize::new(range.start);
        let end = range.end;
        let turn = || {
            let claimed = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |start| {
                (start < end).then(|| start.saturating_add(chunk).min(end))
            });
            claimed.map(|start| (start..start.saturating_add(chunk).min(end)).for_each(&each)).is_ok()
        };
        let chunks = range.len().div_ceil(chunk);
        let helpers = (at.takers.count_ones() as usize).min(chunks).saturating_sub(1);
        let all = || while turn() {};
        self.nested(|inner| {
            if helpers > 0 && self.slot.is_worth_sharing(chunks, || _ = turn()) {
                // If the queue has no room for helper jobs, this thread makes all calls.
                let _ = (0..helpers).try_for_each(|_| inner.put(queue, |_: &Frame<'_, '_>| all()));
                self.slot.wake(at.takers);
            }
            all();
        });
        Ok(())
    }

    /// Opens a frame inside this one. Jobs of the nested frame may borrow what lives at this point of the code.
    /// This method runs jobs, and returns when all jobs of the nested frame are done.
    /// If frames are nested more than eight deep, a push runs the job at once.
    pub fn nested<'inner, R>(&self, body: impl FnOnce(&Frame<'_, 'inner>) -> R) -> R {
        open(self.slot, body)
    }
}

impl fmt::Debug for Frame<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").finish_non_exhaustive()
    }
}

#[cold]
fn failed(slot: &WorkerSlot, scope: &JobScope<'_>, payload: Box<dyn Any + Send>) {
    add(&slot.counted().panics, 1);
    scope.data().add(payload);
}

/// Opens a frame on this slot.
pub(super) fn open<'env, R>(slot: &WorkerSlot, body: impl FnOnce(&Frame<'_, 'env>) -> R) -> R {
    let opened = |scope: &JobScope<'env>| body(&Frame { slot, scope });
    let (result, failures) = job::open(slot.bit(), Failures::default(), |left| slot.settle(left), opened);
    match failures.into_first() {
        Some(payload) => resume_unwind(payload),
        None => result,
    }
}
