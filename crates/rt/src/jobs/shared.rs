//! The shared part of a job system: its queues and slots, and the job durations that its threads learn.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use evenkeel_sys::job::{self, Gate, Link, Links, Ring, Source};
use evenkeel_sys::lock::Mutex;
use evenkeel_sys::{cpu_limit, thread, tsc};

use super::parts::{CLAIM_MOST, Counted, Failures, JobQueue, Shared, Sharing, Task, UNLINKED};
use super::settings::{Idling, JobSettings, Queue, QueueKind};
use super::sliced::Sliced;

/// Waking a thread costs some microseconds, mostly on the CPU of the waking thread.
/// If less work than this waits, one thread finishes the work sooner alone.
const WORTH_WAKING_NS: u64 = 10_000;

/// A thread takes as many jobs at once as will probably last this long.
/// Taking single jobs would be slower: an atomic operation, a look at more urgent queues and a clock reading are needed each time.
/// Each of these costs about as much as a short job.
const CLAIMED_NS: u64 = 2000;

/// How often a thread looks for another job before it sleeps.
/// A look takes some 50 ns, so all looks together cost about as much as waking the thread.
const LOOKS: u32 = 60;

/// How many job systems this process has started.
static SYSTEMS: AtomicU64 = AtomicU64::new(0);

impl Shared {
    /// Creates the shared part from valid settings, with the caller's ends of all queues.
    pub(super) fn new(settings: &JobSettings) -> (Shared, Vec<Source<Task>>) {
        let slots = settings.workers.len() + 1;
        let linked = settings.linked_max as usize;
        let mut sources = Vec::with_capacity(settings.queues.len());
        let queues = settings.queues.iter().enumerate().map(|(at, queue)| {
            let is_this = |named: &Queue| usize::from(named.0) == at;
            let bits = |takes: &dyn Fn(&[Queue]) -> bool| {
                let workers = settings.workers.iter().enumerate();
                workers.filter(|(_, worker)| takes(&worker.queues)).fold(0, |bits, (worker, _)| bits | 2 << worker)
            };
            let caller = u64::from(queue.kind == QueueKind::Frame);
            let (source, from_caller) = job::one_to_many(if caller == 1 { queue.capacity } else { 0 });
            sources.push(source);
            let takers = caller | bits(&|queues| queues.iter().any(is_this));
            JobQueue {
                from_caller,
                // Pushed jobs never take the extra room. It is for jobs that waited for others.
                ring: Ring::new(queue.capacity + linked),
                settings: *queue,
                takers,
                is_served: takers != 0 || settings.caller_runs_asynchronous,
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
            gate: Gate::new(slots),
            awaited: AtomicU32::new(UNLINKED),
            counted: (0..slots).map(|_| Counted::default()).collect(),
            sharing,
            sliced: settings.slices.clone().map(|slices| Sliced::new(slices, slots, settings.queues.len())),
            looks,
            mean_ticks: AtomicU64::new(ticks_per_us * WORTH_WAKING_NS / 1000),
            claim_most: AtomicU64::new(1),
            worth_waking_ticks: ticks_per_us * WORTH_WAKING_NS / 1000,
            ticks_per_us,
            is_closed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            leftovers: std::sync::Mutex::new(()),
            asynchronous_failures: Failures::default(),
        };
        (shared, sources)
    }

    /// Learns the average duration of the jobs of a frame.
    pub(super) fn learn(&self, mean_ticks: u64) {
        // Half of the new average comes from this frame. So after one frame of a new kind, the estimate is good.
        let mean_ticks = self.mean_ticks.load(Ordering::Relaxed) / 2 + mean_ticks / 2;
        self.mean_ticks.store(mean_ticks, Ordering::Relaxed);
        let claimed_ticks = self.ticks_per_us * CLAIMED_NS / 1000;
        self.claim_most.store((claimed_ticks / mean_ticks.max(1)).clamp(1, CLAIM_MOST), Ordering::Relaxed);
    }

    pub(super) fn ns_of(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(1000) / self.ticks_per_us.max(1)
    }

    /// Whether one of these queues has a job.
    pub(super) fn has_work(&self, queues: &[u8]) -> bool {
        queues.iter().any(|queue| self.queues.get(usize::from(*queue)).is_some_and(JobQueue::has_ready))
    }

    /// The link of a handle. `None` if the handle belongs to another frame.
    pub(super) fn link_of(&self, generation: u64, link: Link) -> Option<Link> {
        (generation == self.generation.load(Ordering::Relaxed)).then_some(link)
    }
}

/// The rate of the cycle counter, measured over some milliseconds at the start.
fn ticks_per_us() -> u64 {
    let (ticks, ns) = tsc::ticks_and_ns();
    std::thread::sleep(std::time::Duration::from_millis(2));
    let (ticks_then, ns_then) = tsc::ticks_and_ns();
    let us = ns_then.saturating_sub(ns) / 1000;
    (ticks_then.saturating_sub(ticks) / us.max(1)).max(1)
}

/// How the threads share CPUs, and whether their CPU time is limited.
/// If we cannot read these facts, the result is `Limited`: several CPUs under a limit.
fn sharing(settings: &JobSettings) -> Sharing {
    let Ok(own) = thread::affinity() else { return Sharing::Limited };
    let requested = settings.workers.iter().map(|worker| worker.thread.cpus.as_ref().unwrap_or(&own));
    let mut cpus: Vec<usize> = own.iter().chain(requested.flat_map(|cpus| cpus.iter())).collect();
    cpus.sort_unstable();
    cpus.dedup();
    match cpu_limit::tightest().map(|limit| limit.cpus()) {
        _ if cpus.len() <= 1 => Sharing::OneCpu,
        Some(share) if share < cpus.len() as f64 => Sharing::Limited,
        _ => Sharing::Several,
    }
}
