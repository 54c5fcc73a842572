//! What all threads of a job system share.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use evenkeel_sys::job::{self, Gate, Link, Links, Ring, Sink, Source};
use evenkeel_sys::lock::Mutex;
use evenkeel_sys::{cpu_limit, thread, tsc};

use super::seat::Seat;
use super::settings::{Idling, JobSettings, Kind, QueueSettings};

pub(super) type Task = job::Task<Seat, Failures>;
pub(super) type Lender<'env> = job::Lender<'env, Failures>;

/// Waking a thread costs some microseconds, most of them on the CPU of who wakes: less work than this is done sooner alone.
const WORTH_WAKING_NS: u64 = 10_000;

/// A thread takes as many jobs at once as last so long, as far as it is known: an atomic step, a look at more urgent queues and a
/// reading of the clock each cost about what a short job does.
const CLAIMED_NS: u64 = 2000;
pub(super) const CLAIM_MOST: u64 = 8;

/// Looks for another job before a thread sleeps, some 50 ns each: about what waking it would take.
const LOOKS: u32 = 60;

/// How many job systems this process has started.
static SYSTEMS: AtomicU64 = AtomicU64::new(0);

/// The seat of who opens frames.
pub(super) const CALLER: usize = 0;

/// What went wrong in the jobs of one frame.
#[derive(Default)]
pub(super) struct Failures {
    /// The first panic. A lock of the standard library, since only who panics takes it.
    pub(super) first: std::sync::Mutex<Option<Box<dyn Any + Send>>>,
}

impl Failures {
    #[cold]
    pub(super) fn add(&self, payload: Box<dyn Any + Send>) {
        let mut first = self.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*first {
            None => *first = Some(payload),
            // To drop it can panic again.
            Some(_) => drop_quietly(payload),
        }
    }

    pub(super) fn into_first(self) -> Option<Box<dyn Any + Send>> {
        self.first.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A payload whose drop panics would end a worker.
#[cold]
pub(super) fn drop_quietly(payload: Box<dyn Any + Send>) {
    if let Err(again) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload))) {
        // Whoever does that twice leaks it.
        std::mem::forget(again);
    }
}

/// How the CPUs are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// All threads on one: to wake another is to stand aside.
    OneCpu,
    /// Several, with a limit on their time: to wait awake is to waste it.
    Limited,
    /// Several.
    Several,
}

pub(super) struct JobQueue {
    /// What the caller pushes outside of jobs: by far the most, so it must cost least.
    pub(super) from_caller: Sink<Task>,
    /// What is pushed in jobs, what has waited, and what is asynchronous.
    pub(super) ring: Ring<Task>,
    pub(super) settings: QueueSettings,
    /// A bit for each seat that takes from it.
    pub(super) takers: u64,
    /// A bit for each worker that takes from it before all others.
    pub(super) first_choice_of: u64,
}

impl JobQueue {
    /// The next job: what has waited or was pushed in a job comes first, since others may wait for it.
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

/// What one seat has counted since the start. Only its thread writes.
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
    pub(super) waited_ns: AtomicU64,
    /// Of a frame's jobs, since the caller took it last.
    pub(super) longest_ticks: AtomicU64,
}

/// A job that waits for others, with its queue.
type Waiting = Option<(Task, usize)>;

pub(super) struct Shared {
    pub(super) queues: Box<[JobQueue]>,
    pub(super) links: Links,
    /// The jobs that wait, each in the place of its link.
    pub(super) waiting: Box<[Mutex<Waiting>]>,
    /// Which frame it is, of all job systems': a handle of another counts as done.
    pub(super) generation: AtomicU64,
    pub(super) gate: Gate,
    /// The link whose end the caller waits for.
    pub(super) awaited: AtomicU32,
    pub(super) counted: Box<[Counted]>,
    pub(super) sharing: Sharing,
    pub(super) looks: u32,
    /// What a job of a frame took on average lately. So much at the start that others are woken for any.
    pub(super) mean_ticks: AtomicU64,
    /// How many jobs a thread takes at once.
    pub(super) claim_most: AtomicU64,
    pub(super) worth_waking_ticks: u64,
    pub(super) ticks_per_us: u64,
    pub(super) stop: AtomicBool,
    /// What went wrong in jobs that no frame waits for.
    pub(super) asynchronous_failures: Failures,
}

impl Shared {
    /// Of settings that were checked; with the caller's ends of all queues.
    pub(super) fn new(settings: &JobSettings) -> (Shared, Vec<Source<Task>>) {
        let seats = settings.workers.len() + 1;
        let linked = settings.linked_max as usize;
        let mut sources = Vec::with_capacity(settings.queues.len());
        let queues = settings.queues.iter().enumerate().map(|(at, queue)| {
            let is_this = |named: &super::Queue| usize::from(named.0) == at;
            let bits = |takes: &dyn Fn(&[super::Queue]) -> bool| {
                let workers = settings.workers.iter().enumerate();
                workers.filter(|(_, worker)| takes(&worker.queues)).fold(0, |bits, (worker, _)| bits | 2 << worker)
            };
            let caller = u64::from(queue.kind == Kind::Frame);
            let (source, from_caller) = job::one_to_many(if caller == 1 { queue.capacity } else { 0 });
            sources.push(source);
            JobQueue {
                from_caller,
                // Jobs that waited for others always find room behind those that were pushed.
                ring: Ring::new(queue.capacity + linked),
                settings: *queue,
                takers: caller | bits(&|queues| queues.iter().any(is_this)),
                first_choice_of: bits(&|queues| queues.first().is_some_and(is_this)),
            }
        });
        let sharing = sharing(settings);
        let looks = if sharing == Sharing::Several && settings.idling == Idling::AsTheMachineIs { LOOKS } else { 0 };
        let ticks_per_us = ticks_per_us();
        let shared = Shared {
            queues: queues.collect(),
            links: Links::new(settings.linked_max, settings.waits_max),
            waiting: (0..linked).map(|_| Mutex::new(None)).collect(),
            generation: AtomicU64::new(SYSTEMS.fetch_add(1, Ordering::Relaxed) << 40),
            gate: Gate::new(seats),
            awaited: AtomicU32::new(super::seat::UNLINKED),
            counted: (0..seats).map(|_| Counted::default()).collect(),
            sharing,
            looks,
            mean_ticks: AtomicU64::new(ticks_per_us * WORTH_WAKING_NS / 1000),
            claim_most: AtomicU64::new(1),
            worth_waking_ticks: ticks_per_us * WORTH_WAKING_NS / 1000,
            ticks_per_us,
            stop: AtomicBool::new(false),
            asynchronous_failures: Failures::default(),
        };
        (shared, sources)
    }

    /// What the jobs of a frame took on average is known.
    pub(super) fn learn(&self, mean_ticks: u64) {
        // Half of it is this frame's: a frame unlike the last is told by the second.
        let mean_ticks = self.mean_ticks.load(Ordering::Relaxed) / 2 + mean_ticks / 2;
        self.mean_ticks.store(mean_ticks, Ordering::Relaxed);
        let claimed_ticks = self.ticks_per_us * CLAIMED_NS / 1000;
        self.claim_most.store((claimed_ticks / mean_ticks.max(1)).clamp(1, CLAIM_MOST), Ordering::Relaxed);
    }

    pub(super) fn ns_of(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(1000) / self.ticks_per_us.max(1)
    }

    /// Whether a queue of these has a job.
    pub(super) fn has_work(&self, queues: &[u8]) -> bool {
        queues.iter().any(|queue| self.queues.get(usize::from(*queue)).is_some_and(JobQueue::has_ready))
    }

    /// The link of a handle of this frame.
    pub(super) fn link_of(&self, generation: u64, link: Link) -> Option<Link> {
        (generation == self.generation.load(Ordering::Relaxed)).then_some(link)
    }
}

/// Measured over some milliseconds, at the start.
fn ticks_per_us() -> u64 {
    let (ticks, ns) = tsc::ticks_and_ns();
    std::thread::sleep(std::time::Duration::from_millis(2));
    let (ticks_then, ns_then) = tsc::ticks_and_ns();
    let us = ns_then.saturating_sub(ns) / 1000;
    (ticks_then.saturating_sub(ticks) / us.max(1)).max(1)
}

/// Where its threads may run, and whether their time is limited. What can't be read is taken for several CPUs of which none is to spare.
fn sharing(settings: &JobSettings) -> Sharing {
    let Ok(own) = thread::affinity() else { return Sharing::Limited };
    let wished = settings.workers.iter().map(|worker| worker.thread.cpus.as_ref().unwrap_or(&own));
    let mut cpus: Vec<usize> = own.iter().chain(wished.flat_map(|cpus| cpus.iter())).collect();
    cpus.sort_unstable();
    cpus.dedup();
    match cpu_limit::tightest().map(|limit| limit.cpus()) {
        _ if cpus.len() <= 1 => Sharing::OneCpu,
        Some(share) if share < cpus.len() as f64 => Sharing::Limited,
        _ => Sharing::Several,
    }
}
