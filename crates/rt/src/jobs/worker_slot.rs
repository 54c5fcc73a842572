//! `WorkerSlot`: one thread of a job system. It takes jobs from its queues in order, runs and counts them, wakes other threads, and sleeps.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use evenkeel_sys::job::{Left, Link, Source, Tally};
use evenkeel_sys::{clock, tsc};

use super::parts::{CALLER, CLAIM_MOST, Counted, JobQueue, Shared, Sharing, Task, UNLINKED, WorkerSlot, drop_quietly};
use super::settings::QueueKind;
use super::sliced::{Offered, Sliced};

/// A bit in a task's label, next to its link: a dependency of the task panicked. The slot does not run such a task.
const SPOILT: u32 = 1 << 31;

/// How many ended jobs a thread collects before it reports them to the waiting thread.
/// If the thread finds no other job, it reports at once.
const UNREPORTED_MAX: u64 = 16;

/// The maximum number of nested jobs on a thread's stack, each of which waits for its own frame.
/// Beyond this number, a push runs the job at once, so that no unrelated job gets on the stack.
const DEPTH_MAX: u32 = 8;

impl WorkerSlot {
    pub(super) fn new(shared: &Arc<Shared>, id: usize, takes: Vec<u8>, sources: Vec<Source<Task>>) -> WorkerSlot {
        let for_frames = |queue: &u8| shared.queues[usize::from(*queue)].settings.kind == QueueKind::Frame;
        WorkerSlot {
            shared: Arc::clone(shared),
            id,
            takes_for_frames: takes.iter().copied().filter(for_frames).collect(),
            takes: takes.into(),
            sources: sources.into(),
            claimed: RefCell::new(None),
            tally: Tally::new(),
            running: Cell::new(0),
            queue: Cell::new(0),
            has_left_job: Cell::new(false),
            busy_ticks: Cell::new(0),
            longest_ticks: Cell::new(0),
            jobs: Cell::new(0),
        }
    }

    pub(super) fn bit(&self) -> u64 {
        1 << self.id
    }

    pub(super) fn counted(&self) -> &Counted {
        &self.shared.counted[self.id]
    }

    pub(super) fn is_too_deep(&self) -> bool {
        self.running.get() > DEPTH_MAX
    }

    /// Whether the queue has no room for one more job.
    #[inline]
    pub(super) fn is_full(&self, queue: usize, at: &JobQueue) -> bool {
        let stands = match self.sources.get(queue) {
            Some(source) => source.len() + at.ring.len(),
            None => at.len(),
        };
        stands >= at.settings.capacity
    }

    /// Puts a job into a queue. If the job's place in the queue is blocked, returns the job.
    #[inline]
    pub(super) fn put(&self, queue: usize, at: &JobQueue, task: Task) -> Result<(), Task> {
        match self.sources.get(queue) {
            Some(source) => source.push(task),
            None => at.ring.push(task),
        }
    }

    /// Whether this thread is running a job.
    pub(super) fn is_in_job(&self) -> bool {
        self.running.get() > 0
    }

    /// Runs jobs of frames until it finds none, or until `is_enough` says that all awaited jobs are done. Returns whether it ran any.
    pub(super) fn help(&self, is_enough: impl Fn() -> bool) -> bool {
        let mut began = tsc::ticks();
        let mut ran = false;
        while let Some(task) = self.take(&self.takes_for_frames) {
            began = self.run(task, began);
            ran = true;
            if is_enough() {
                break;
            }
        }
        self.report();
        ran
    }

    /// Runs jobs, and sleeps if it finds none. This function may return early.
    pub(super) fn settle(&self, left: &Left<'_>) {
        self.settle_until(|| left.is_nothing());
    }

    pub(super) fn settle_until(&self, is_over: impl Fn() -> bool) {
        if self.help(|| false) || is_over() {
            return;
        }
        let gate = &self.shared.gate;
        gate.about_to_sleep(self.id);
        if is_over() || self.shared.has_work(&self.takes_for_frames) {
            gate.stay(self.id);
            self.leave_to_others();
        } else {
            let began_ns = clock::monotonic_ns();
            gate.sleep(self.id, self.shared.looks);
            add(&self.counted().waited_ns, clock::monotonic_ns().saturating_sub(began_ns));
        }
        // A push may have woken this thread for a kind of job that a frame does not run. So wake another thread for that job.
        self.pass_on();
    }

    /// Runs jobs until a link is done. Only the thread that opens frames may call this, outside of jobs.
    pub(super) fn wait_for(&self, link: Link) {
        let shared = &self.shared;
        shared.awaited.store(link.index() as u32, Ordering::Relaxed);
        while !shared.links.is_done(link) {
            if !self.help(|| shared.links.is_done(link)) {
                self.settle_until(|| shared.links.is_done(link));
            }
        }
        shared.awaited.store(UNLINKED, Ordering::Relaxed);
    }

    /// Whether this many chunks are enough work for more than one thread. To answer, it runs the first chunk and measures the time.
    pub(super) fn is_worth_sharing(&self, chunks: usize, first: impl FnOnce()) -> bool {
        if self.shared.sharing == Sharing::OneCpu {
            return false;
        }
        let began_ticks = tsc::ticks();
        first();
        let took_ticks = tsc::ticks().saturating_sub(began_ticks);
        took_ticks.saturating_mul(chunks as u64 - 1) >= self.shared.worth_waking_ticks
    }

    /// The loop of a worker.
    pub(super) fn work(&self) {
        let gate = &self.shared.gate;
        if let Some(sliced) = &self.shared.sliced {
            sliced.is_here(self.id);
        }
        while !self.shared.stop.load(Ordering::Acquire) {
            let mut began = tsc::ticks();
            let mut is_fresh = true;
            while let Some(task) = self.take(&self.takes) {
                if std::mem::take(&mut is_fresh) {
                    // A push of many jobs wakes only one thread. That thread wakes the next if there is work for two.
                    self.pass_on();
                }
                // No frame waits for an asynchronous job.
                began = if task.is_free() { self.run_asynchronous(task) } else { self.run(task, began) };
                if self.shared.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            self.report();
            if self.shared.is_closed.load(Ordering::Acquire) && !self.shared.has_work(&self.takes) {
                return;
            }
            gate.about_to_sleep(self.id);
            if self.shared.is_closed.load(Ordering::Acquire) || self.shared.has_work(&self.takes) {
                gate.stay(self.id);
                self.leave_to_others();
            } else {
                gate.sleep(self.id, self.shared.looks);
            }
        }
    }

    /// The next job in the order of these queues.
    #[inline]
    fn take(&self, queues: &[u8]) -> Option<Task> {
        if let Some(claim) = &mut *self.claimed.borrow_mut()
            && let Some(task) = claim.pop()
        {
            return Some(task);
        }
        self.take_from_queues(queues)
    }

    fn take_from_queues(&self, queues: &[u8]) -> Option<Task> {
        for queue in queues {
            let at = &self.shared.queues[usize::from(*queue)];
            let sliced = self.shared.sliced.as_ref().filter(|_| at.settings.kind == QueueKind::Frame);
            if sliced.is_some_and(|sliced| !self.begins(sliced, *queue, at)) {
                continue;
            }
            self.queue.set(*queue);
            if let Some(task) = at.ring.pop() {
                return Some(task);
            }
            if let Some(claim) = at.from_caller.claim(self.shared.claim_most.load(Ordering::Relaxed)) {
                return self.claimed.borrow_mut().insert(claim).pop();
            }
        }
        None
    }

    /// Whether the next job of this queue should begin on this CPU. If not, wakes another thread for the job.
    fn begins(&self, sliced: &Sliced, queue: u8, at: &JobQueue) -> bool {
        let offered = Offered { queue: queue.into(), takers: at.takers, jobs: at.len() as u64 };
        let begins = offered.jobs == 0 || sliced.begins(self.id, offered);
        if !begins {
            self.has_left_job.set(true);
            add(&self.counted().left, 1);
            self.wake(at.takers);
        }
        begins
    }

    /// If this thread left a job to others, waits a moment.
    fn leave_to_others(&self) {
        if self.has_left_job.take() {
            Sliced::nap();
        }
    }

    /// Whether the thread has already taken the next job, and that job is too short to be timed by itself.
    #[inline]
    fn is_timed_with_next(&self) -> bool {
        self.shared.claim_most.load(Ordering::Relaxed) == CLAIM_MOST
            && self.claimed.borrow().as_ref().is_some_and(|claim| !claim.is_empty())
    }

    /// Runs a frame's job, whose start time is `began`. Returns the start time of the next job: the same time if both are timed together.
    #[inline]
    fn run(&self, task: Task, began_ticks: u64) -> u64 {
        let label = task.label();
        if label != UNLINKED && label & SPOILT != 0 {
            self.drop_spoilt(task);
            return tsc::ticks();
        }
        self.running.set(self.running.get() + 1);
        task.run(self, &self.tally);
        self.running.set(self.running.get() - 1);
        self.jobs.set(self.jobs.get() + 1);
        if self.is_timed_with_next() {
            return began_ticks;
        }
        let ended_ticks = tsc::ticks();
        self.took(ended_ticks.saturating_sub(began_ticks));
        ended_ticks
    }

    #[inline]
    fn took(&self, ticks: u64) {
        self.busy_ticks.set(self.busy_ticks.get() + ticks);
        if ticks > self.longest_ticks.get() {
            self.longest_ticks.set(ticks);
        }
        if let Some(sliced) = &self.shared.sliced {
            sliced.took(self.id, self.queue.get().into(), self.shared.ns_of(ticks));
        }
        if ticks > self.shared.worth_waking_ticks {
            self.pass_on();
        }
        if self.tally.unreported() >= UNREPORTED_MAX {
            self.report();
        }
    }

    /// Runs a job at once, on the pushing thread.
    #[cold]
    pub(super) fn run_here(&self, task: Task) {
        self.run(task, tsc::ticks());
    }

    #[cold]
    fn drop_spoilt(&self, task: Task) {
        let link = Link::at(task.label() & !SPOILT);
        // If the drop of the task's closure panics, this thread must continue.
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.discard(&self.tally)));
        add(&self.counted().dropped, 1);
        if let Err(payload) = dropped {
            drop_quietly(payload);
        }
        self.link_is_done(link, false);
    }

    fn run_asynchronous(&self, task: Task) -> u64 {
        // The next job may be long, so first report the jobs before it.
        self.report();
        task.run(self, &self.tally);
        add(&self.counted().asynchronous, 1);
        tsc::ticks()
    }

    /// After the workers have ended, runs every asynchronous job that waits.
    pub(super) fn run_pending(&self) {
        let next = || self.shared.queues.iter().find_map(JobQueue::pop);
        std::iter::from_fn(next).for_each(|task| _ = self.run_asynchronous(task));
    }

    /// Runs up to `at_most` asynchronous jobs of queues that no worker takes from.
    pub(super) fn run_orphans(&self, at_most: usize) -> usize {
        let orphans = || self.shared.queues.iter().filter(|queue| queue.takers == 0);
        let next = || orphans().find_map(|queue| queue.pop());
        (0..at_most).map_while(|_| next().map(|task| self.run_asynchronous(task))).count()
    }

    /// Publishes the slot's counts, then reports ended jobs. So a thread that waits for these jobs sees them counted.
    pub(super) fn report(&self) {
        let jobs = self.jobs.replace(0);
        if jobs > 0 {
            let counted = self.counted();
            add(&counted.jobs, jobs);
            add(&counted.busy_ticks, self.busy_ticks.replace(0));
            let longest = self.longest_ticks.replace(0);
            if longest > counted.longest_ticks.load(Ordering::Relaxed) {
                counted.longest_ticks.store(longest, Ordering::Relaxed);
            }
        }
        self.tally.report();
        let released = self.tally.take_released();
        if released & !self.bit() != 0 {
            (0..u64::BITS).map(|slot| released & 1 << slot).filter(|bit| *bit != 0).for_each(|bit| self.wake(bit));
        }
    }

    /// Wakes a thread for a job in this queue, if that is faster than to run the job on this thread.
    #[inline]
    pub(super) fn announce(&self, queue: usize) {
        let Some(at) = self.shared.queues.get(queue) else { return };
        let takes_it = at.takers & self.bit() != 0;
        // Without a fence, we may overlook a thread that falls asleep right now. In that case this thread runs the job itself in the end.
        if takes_it && self.shared.gate.idle() & at.takers == 0 {
            return;
        }
        self.announce_to_idle(queue, takes_it);
    }

    fn announce_to_idle(&self, queue: usize, takes_it: bool) {
        let shared = &self.shared;
        let Some(at) = shared.queues.get(queue) else { return };
        if takes_it && at.settings.kind == QueueKind::Frame {
            let stands = at.len() as u64;
            let takes_ticks = stands.saturating_mul(shared.mean_ticks.load(Ordering::Relaxed));
            if shared.sharing == Sharing::OneCpu || takes_ticks < shared.worth_waking_ticks {
                return;
            }
        }
        self.wake(at.takers);
    }

    /// Wakes another thread if more jobs wait than this thread can run soon.
    fn pass_on(&self) {
        let idle = self.shared.gate.idle();
        if idle == 0 {
            return;
        }
        let stands = |queue: &JobQueue| queue.takers & idle != 0 && queue.has_ready();
        if let Some(queue) = self.shared.queues.iter().position(stands) {
            self.announce_to_idle(queue, self.shared.queues[queue].takers & self.bit() != 0);
        }
    }

    pub(super) fn wake(&self, takers: u64) {
        if self.shared.gate.wake_one(takers & !self.bit()).is_some() {
            add(&self.counted().wakes, 1);
        }
    }

    /// Marks a job as done. Puts jobs without another open dependency into their queues.
    pub(super) fn link_is_done(&self, link: Link, well: bool) {
        self.shared.links.done(link, well, |free, all_well| self.set_free(free, all_well));
        // After this fence, either we see that a thread waits for the link, or the waiting thread sees that the link is done.
        fence(Ordering::SeqCst);
        if self.shared.awaited.load(Ordering::Relaxed) == link.index() as u32 {
            self.wake(1 << CALLER);
        }
    }

    pub(super) fn set_free(&self, link: Link, all_well: bool) {
        let waiting = self.shared.waiting.get(link.index()).and_then(|place| place.lock().take());
        let Some((mut task, queue)) = waiting else { return };
        if !all_well {
            task.set_label(task.label() | SPOILT);
        }
        match self.shared.queues[queue].ring.push(task) {
            Ok(()) => self.announce(queue),
            // The ring has room for all jobs that can wait.
            // But while a thread is preempted in the middle of taking a job out, that job's place stays blocked.
            Err(task) => self.run_here(task),
        }
    }
}

impl fmt::Debug for WorkerSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSlot").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Adds to a counter that only one thread writes, without an atomic read-modify-write.
#[inline]
pub(super) fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
