//! `Frame`: where jobs are pushed that somebody waits for.

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

/// A job was not taken, and dropped unrun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The queue holds as many jobs as it has room for.
    #[error("push a job to queue {}: it is full; give it more capacity or fewer jobs", .0.0)]
    Full(Queue),
    /// The frame has as many jobs that wait for others as there is room for.
    #[error("push a job that others wait for: the frame has no room for more; raise linked_max or waits_max")]
    Links,
    /// There is no such queue, or it is for the other kind of jobs.
    #[error("push a job to queue {}: it is not there, or for the other kind of jobs; look at the settings", .0.0)]
    WrongQueue(Queue),
    /// The completion belongs to a job that has not ended.
    #[error("push a job with a completion that is another's: wait until that one has ended, or make a second")]
    StillPending,
    /// The job system has ended.
    #[error("push a job: the job system has ended; keep it alive for longer")]
    Ended,
}

/// A job of a frame that others can wait for.
#[derive(Clone, Copy, Debug)]
pub struct Handle<'env> {
    link: Link,
    generation: u64,
    frame: PhantomData<fn(&'env ()) -> &'env ()>,
}

/// A frame that is open, as one thread sees it: who opened it, or a job of it. Jobs may borrow what lives for `'env`.
pub struct Frame<'a, 'env> {
    pub(super) slot: &'a WorkerSlot,
    pub(super) scope: &'a JobScope<'env>,
}

impl<'env> Frame<'_, 'env> {
    /// Pushes a job. It begins when a thread comes to it, at the latest when the frame is about to end.
    ///
    /// # Errors
    /// If the queue is full and refuses ([`WhenFull::Refuse`]), or there is none.
    #[inline]
    pub fn push<F>(&self, queue: Queue, job: F) -> Result<(), PushError>
    where
        F: FnOnce() + Send + 'env,
    {
        self.push_with(queue, |_: &Frame<'_, 'env>| job())
    }

    /// Pushes a job that can push others to the same frame.
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

    /// Pushes many, and wakes another thread once at the most.
    ///
    /// # Errors
    /// As for [`push`](Frame::push); those before the one that found no room are pushed.
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
                // A place is blocked for a moment by a thread that was taken from its CPU.
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

    /// Pushes a job that others can wait for, as [`push_after`](Frame::push_after) nothing.
    ///
    /// # Errors
    /// As for [`push_after`](Frame::push_after).
    pub fn push_dependency<F>(&self, queue: Queue, job: F) -> Result<Handle<'env>, PushError>
    where
        F: FnOnce() + Send + 'env,
    {
        self.push_after(&[], queue, job)
    }

    /// Pushes a job that begins when all of `others` are done. Where one of them panics it is dropped unrun, and so is what waits for it.
    /// Jobs of an earlier frame, or of another job system, count as done.
    ///
    /// # Errors
    /// If the queue is full and refuses, or the frame has [`linked_max`](super::JobSettings::linked_max) such jobs already.
    pub fn push_after<F>(&self, others: &[Handle<'env>], queue: Queue, job: F) -> Result<Handle<'env>, PushError>
    where
        F: FnOnce() + Send + 'env,
    {
        self.push_after_with(others, queue, |_: &Frame<'_, 'env>| job())
    }

    /// The same for a job that can push others to the same frame.
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

    /// Runs jobs until this one is done; true then. A job can't wait so: what it waits for may lie beneath it on the stack. There this is
    /// false at once if the other is not done; push what comes [`push_after`](Frame::push_after) it, or wait for a frame [`nested`](Frame::nested).
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

    /// Calls `each` with every number of the range, `chunk` of them at a time, here and on threads that take from the queue. Returns when
    /// all are done.
    ///
    /// # Errors
    /// If there is no such queue; then nothing was called.
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
                // Where there is no room for them, it is done here.
                let _ = (0..helpers).try_for_each(|_| inner.put(queue, |_: &Frame<'_, '_>| all()));
                self.slot.wake(at.takers);
            }
            all();
        });
        Ok(())
    }

    /// A frame within this one, whose jobs may borrow what lives here: returns when they are done, and helps until then. Deeper than eight
    /// frames in one another, jobs are run where they are pushed.
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
