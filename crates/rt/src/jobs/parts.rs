//! The types of a job system: what all of its threads share, and what each thread has for itself.
//! A job gets the slot of the thread that runs it, and the slots share the queues of jobs.
//! So these types name each other, and are in one file.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use evenkeel_sys::job::{self, Claim, Gate, Links, Ring, Sink, Source, Tally};
use evenkeel_sys::lock::Mutex;

use super::settings::QueueSettings;
use super::sliced::Sliced;

pub(super) type Task = job::Task<WorkerSlot, Failures>;

pub(super) type JobScope<'env> = job::JobScope<'env, Failures>;

/// The maximum number of jobs that a thread takes at once.
pub(super) const CLAIM_MOST: u64 = 8;

/// The slot of the thread that opens frames.
pub(super) const CALLER: usize = 0;

/// The panics in the jobs of one frame.
#[derive(Default)]
pub(super) struct Failures {
    /// The first panic. A lock of the standard library is good enough here, because only a panicking thread takes it.
    pub(super) first: std::sync::Mutex<Option<Box<dyn Any + Send>>>,
}

impl Failures {
    #[cold]
    pub(super) fn add(&self, payload: Box<dyn Any + Send>) {
        let mut first = self.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*first {
            None => *first = Some(payload),
            // Dropping the payload can panic again.
            Some(_) => drop_quietly(payload),
        }
    }

    pub(super) fn into_first(self) -> Option<Box<dyn Any + Send>> {
        self.first.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Drops a panic's payload. A panic in that drop must not end a worker.
#[cold]
pub(super) fn drop_quietly(payload: Box<dyn Any + Send>) {
    if let Err(again) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload))) {
        // We leak the payload of the second panic, because dropping it could panic too.
        std::mem::forget(again);
    }
}

/// How the CPUs are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// All threads share one CPU: a thread that wakes another gives its CPU away.
    OneCpu,
    /// Several CPUs with a limit on CPU time: a thread that spins while it waits uses up the limit.
    Limited,
    /// Several CPUs without a limit on CPU time.
    Several,
}

pub(super) struct JobQueue {
    /// Jobs that the caller pushes outside of jobs. Most jobs are of this kind, so this path must be the cheapest.
    pub(super) from_caller: Sink<Task>,
    /// Jobs that were pushed inside jobs, jobs that have waited for others, and asynchronous jobs.
    pub(super) ring: Ring<Task>,
    pub(super) settings: QueueSettings,
    /// A bit for each slot that takes from this queue.
    pub(super) takers: u64,
    /// Whether any thread ever runs the jobs of this queue.
    pub(super) is_served: bool,
    /// A bit for each worker that takes from this queue before all others.
    pub(super) first_choice_of: u64,
}

impl JobQueue {
    /// The next job. Jobs from the ring come first, because other jobs may wait for them.
    #[inline]
    pub(super) fn pop(&self) -> Option<Task> {
        self.ring.pop().or_else(|| self.from_caller.pop())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ring.len() + self.from_caller.len()
    }

    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        self.ring.has_ready() || self.from_caller.has_ready()
    }
}

/// The counts of one slot since the start. Only the slot's thread writes them.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Counted {
    pub(super) jobs: AtomicU64,
    pub(super) asynchronous: AtomicU64,
    pub(super) busy_ticks: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) full: AtomicU64,
    pub(super) wakes: AtomicU64,
    pub(super) left: AtomicU64,
    pub(super) waited_ns: AtomicU64,
    /// The duration of the longest job since the caller last read this value.
    pub(super) longest_ticks: AtomicU64,
}

/// A job that waits for others, with its queue.
type Waiting = Option<(Task, usize)>;

pub(super) struct Shared {
    pub(super) queues: Box<[JobQueue]>,
    pub(super) links: Links,
    /// The jobs that wait, each at the index of its link.
    pub(super) waiting: Box<[Mutex<Waiting>]>,
    /// The number of the frame, unique among all job systems. A handle of another frame counts as done.
    pub(super) generation: AtomicU64,
    pub(super) gate: Gate,
    /// The link that the caller waits for.
    pub(super) awaited: AtomicU32,
    pub(super) counted: Box<[Counted]>,
    pub(super) sharing: Sharing,
    /// The slices of the CPUs, if the user asked for them.
    pub(super) sliced: Option<Sliced>,
    pub(super) looks: u32,
    /// The recent average duration of a frame's job. The average starts high, so that at first any job wakes other threads.
    pub(super) mean_ticks: AtomicU64,
    /// How many jobs a thread takes at once.
    pub(super) claim_most: AtomicU64,
    pub(super) worth_waking_ticks: u64,
    pub(super) ticks_per_us: u64,
    /// Whether the job system refuses all further jobs.
    pub(super) is_closed: AtomicBool,
    /// Whether workers must end now, even if jobs wait.
    pub(super) stop: AtomicBool,
    /// A thread holds this lock while it runs jobs that were left when the workers ended.
    /// So the thread that ends the job system waits for these jobs.
    pub(super) leftovers: std::sync::Mutex<()>,
    /// The panics in jobs that no frame waits for.
    pub(super) asynchronous_failures: Failures,
}

/// The label of a task without a link: it depends on no other task, and no other task depends on it.
pub(super) const UNLINKED: u32 = u32::MAX;

/// One thread's slot in a job system.
pub(super) struct WorkerSlot {
    pub(super) shared: Arc<Shared>,
    pub(super) id: usize,
    /// The queues that this slot takes jobs from, in its order.
    pub(super) takes: Box<[u8]>,
    /// The frame queues among `takes`.
    pub(super) takes_for_frames: Box<[u8]>,
    /// The caller's ends of all queues. Other slots have none.
    pub(super) sources: Box<[Source<Task>]>,
    /// Jobs that this thread took from a queue and has not run yet. A job that waits for others runs them before it sleeps.
    pub(super) claimed: RefCell<Option<Claim<Task>>>,
    pub(super) tally: Tally<Failures>,
    /// How many jobs are on this thread's stack, nested in each other.
    pub(super) running: Cell<u32>,
    /// The queue of the job that was taken last.
    pub(super) queue: Cell<u8>,
    /// Whether this thread left a job to other threads, because its CPU is about to be taken away.
    pub(super) has_left_job: Cell<bool>,
    /// Busy time that this thread has counted and not published yet.
    pub(super) busy_ticks: Cell<u64>,
    pub(super) longest_ticks: Cell<u64>,
    pub(super) jobs: Cell<u64>,
}
