//! What a job system is made of: its queues, and who takes from which, in which order.

use crate::thread::ThreadConfig;
use evenkeel_sys::job::SLOTS_MAX;

/// A queue, by its place in [`JobSettings::queues`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue(pub u8);

/// What the jobs of a queue are to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// A frame ends when they are done; they may borrow what outlives the frame.
    Frame,
    /// No frame waits for them; they own what they use.
    Asynchronous,
}

/// What becomes of a job for which its queue has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Who pushes it runs it, at once. A job that has to wait for others is refused all the same, unless they are done.
    #[default]
    RunHere,
    /// It is dropped, and who pushes it gets [`PushError::Full`](super::PushError::Full).
    Refuse,
}

/// A queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// What its jobs are to a frame.
    pub kind: QueueKind,
    /// How many jobs may wait in it, 1 to 1,048,576.
    pub capacity: usize,
    /// What becomes of the next.
    pub when_full: WhenFull,
}

impl QueueSettings {
    /// For jobs that a frame waits for; what does not fit is run by who pushes it.
    pub fn frame(capacity: usize) -> QueueSettings {
        QueueSettings { kind: QueueKind::Frame, capacity, when_full: WhenFull::RunHere }
    }

    /// For jobs that no frame waits for; what does not fit is refused, since a long job in the tick is worse than none.
    pub fn asynchronous(capacity: usize) -> QueueSettings {
        QueueSettings { kind: QueueKind::Asynchronous, capacity, when_full: WhenFull::Refuse }
    }
}

/// A worker: a thread of its own.
#[derive(Clone, Debug, Default)]
pub struct WorkerSettings {
    /// The queues that it takes jobs from: of the first that has one, each time.
    pub queues: Vec<Queue>,
    /// What it asks of the kernel.
    pub thread: ThreadConfig,
}

impl WorkerSettings {
    /// A worker that takes from these queues, the first ones first.
    pub fn of(queues: &[Queue]) -> WorkerSettings {
        WorkerSettings { queues: queues.to_vec(), thread: ThreadConfig::default() }
    }
}

/// What a job system is made of. All memory is taken at the start.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// Its queues; the thread that opens a frame takes from those that are for frames, in this order.
    pub queues: Vec<QueueSettings>,
    /// Its workers, at most 63; none is enough for frames, which their callers then run alone.
    pub workers: Vec<WorkerSettings>,
    /// How many jobs a frame may have that wait for others or are waited for, at most 1,048,576.
    pub linked_max: u32,
    /// For how many others all of these together may wait, at most 1,048,576.
    pub waits_max: u32,
    /// What a thread does that finds no job.
    pub idling: Idling,
}

/// What a thread does that finds no job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idling {
    /// Sleeps at once where one CPU is all there is, or a limit on CPU time is in force; else looks for another some microseconds.
    #[default]
    AsTheMachineIs,
    /// Sleeps at once.
    SleepAtOnce,
}

impl Default for JobSettings {
    /// Queue 0 for frames and queue 1 for what may last, and no workers.
    fn default() -> JobSettings {
        JobSettings {
            queues: vec![QueueSettings::frame(1024), QueueSettings::asynchronous(256)],
            workers: Vec::new(),
            linked_max: 1024,
            waits_max: 4096,
            idling: Idling::default(),
        }
    }
}

/// The most of anything that is counted here.
const MOST: usize = 1 << 20;

/// Why a job system can't be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobsError {
    /// Too many queues, or none.
    #[error("{0} queues, of which 1 to 64 may be: correct the settings")]
    Queues(usize),
    /// A capacity out of its range.
    #[error("queue {queue} has room for {capacity} jobs, of which 1 to 1048576 may be: correct its capacity")]
    Capacity {
        /// Which queue.
        queue: usize,
        /// What was asked for.
        capacity: usize,
    },
    /// Too many links.
    #[error("{0} jobs that wait for others, of which 1048576 may be: correct linked_max and waits_max")]
    Links(u32),
    /// Too many workers.
    #[error("{0} workers, of which 63 may be: a job system per group of CPUs serves more")]
    Workers(usize),
    /// A worker takes from a queue that is not there, or from none, or from one twice.
    #[error("worker {worker} takes from {queues:?}: name each queue once, by its place among the {count} there are")]
    WorkerQueues {
        /// Which worker.
        worker: usize,
        /// What it was told to take from.
        queues: Vec<Queue>,
        /// How many queues there are.
        count: usize,
    },
    /// The system gave no thread.
    #[error(
        "start the thread of worker {worker}: {source}; look at the limits on threads and memory (ulimit -u, pids.max)"
    )]
    Thread {
        /// Which worker.
        worker: usize,
        /// What the system said.
        source: std::io::Error,
    },
}

impl JobSettings {
    pub(super) fn check(&self) -> Result<(), JobsError> {
        let count = self.queues.len();
        if count == 0 || count > 64 {
            return Err(JobsError::Queues(count));
        }
        for (queue, settings) in self.queues.iter().enumerate() {
            if settings.capacity == 0 || settings.capacity > MOST {
                return Err(JobsError::Capacity { queue, capacity: settings.capacity });
            }
        }
        if let Some(many) = [self.linked_max, self.waits_max].into_iter().find(|many| *many as usize > MOST) {
            return Err(JobsError::Links(many));
        }
        if self.workers.len() >= SLOTS_MAX {
            return Err(JobsError::Workers(self.workers.len()));
        }
        for (worker, settings) in self.workers.iter().enumerate() {
            let mut seen = 0_u64;
            for queue in &settings.queues {
                seen |= 1_u64.checked_shl(queue.0.into()).unwrap_or(0);
            }
            let known = settings.queues.iter().all(|queue| usize::from(queue.0) < count);
            if !known || settings.queues.is_empty() || seen.count_ones() as usize != settings.queues.len() {
                return Err(JobsError::WorkerQueues { worker, queues: settings.queues.clone(), count });
            }
        }
        Ok(())
    }
}
