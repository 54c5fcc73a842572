//! The settings of a job system: its queues, and which worker takes from which queue, in which order.

use crate::slices::Slices;
use crate::thread::ThreadConfig;
use evenkeel_sys::job::SLOTS_MAX;

/// A queue, by its index in [`JobSettings::queues`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue(pub u8);

/// Whether a frame waits for the jobs of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// A frame waits for these jobs. They may borrow data that outlives the frame.
    Frame,
    /// No frame waits for these jobs. They own the data that they use.
    Asynchronous,
}

/// What happens to a job whose queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The pushing thread runs the job at once. A job whose dependencies are not done is refused.
    #[default]
    RunHere,
    /// The push fails with [`PushError::Full`](super::PushError::Full), and the job is dropped.
    Refuse,
}

/// Settings of a queue.
///
/// ```
/// use evenkeel_rt::jobs::{Idling, JobSettings, Jobs, Queue, QueueKind, QueueSettings, WhenFull};
///
/// const LATER: Queue = Queue(1);
///
/// let later = QueueSettings { when_full: WhenFull::RunHere, ..QueueSettings::asynchronous(64) };
/// assert_eq!(later.kind, QueueKind::Asynchronous);
/// let settings = JobSettings {
///     queues: vec![QueueSettings::frame(4096), later],
///     caller_runs_asynchronous: true, // there are no workers
///     idling: Idling::SleepAtOnce,
///     ..JobSettings::default()
/// };
/// let mut jobs = Jobs::start(&settings)?;
/// jobs.asynchronous().push(LATER, || println!("save the match"))?;
/// assert_eq!(jobs.run_asynchronous(10), 1); // in the time that a tick has left
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// Whether a frame waits for the queue's jobs.
    pub kind: QueueKind,
    /// How many jobs may wait in the queue, 1 to 1,048,576.
    pub capacity: usize,
    /// What happens to a job that does not fit.
    pub when_full: WhenFull,
}

impl QueueSettings {
    /// A queue whose jobs a frame waits for. A job that does not fit runs on the pushing thread.
    pub fn frame(capacity: usize) -> QueueSettings {
        QueueSettings { kind: QueueKind::Frame, capacity, when_full: WhenFull::RunHere }
    }

    /// A queue for jobs that no frame waits for. A job that does not fit is refused, because a long job must not run inside the tick.
    pub fn asynchronous(capacity: usize) -> QueueSettings {
        QueueSettings { kind: QueueKind::Asynchronous, capacity, when_full: WhenFull::Refuse }
    }
}

/// Settings of a worker, which is a thread.
#[derive(Clone, Debug, Default)]
pub struct WorkerSettings {
    /// The queues that the worker takes jobs from. It always takes from the first queue that has a job.
    pub queues: Vec<Queue>,
    /// The kernel settings of the worker's thread.
    pub thread: ThreadConfig,
}

impl WorkerSettings {
    /// A worker that takes from these queues, in this order.
    pub fn from_queues(queues: &[Queue]) -> WorkerSettings {
        WorkerSettings { queues: queues.to_vec(), thread: ThreadConfig::default() }
    }
}

/// Settings of a job system.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// The queues. The thread that opens a frame takes jobs from the frame queues, in the order of this list.
    pub queues: Vec<QueueSettings>,
    /// The workers, at most 63. Without workers, the thread that opens a frame runs all of its jobs.
    pub workers: Vec<WorkerSettings>,
    /// How many jobs of a frame may have dependencies or be dependencies, at most 1,048,576.
    pub linked_max: u32,
    /// How many dependencies all jobs of a frame may have together, at most 1,048,576.
    pub waits_max: u32,
    /// Whether asynchronous jobs may be pushed to queues that no worker takes from. If not, such a push is an error.
    /// Set it if the thread that owns the job system calls [`run_asynchronous`](super::Jobs::run_asynchronous).
    pub caller_runs_asynchronous: bool,
    /// What a thread does when it finds no job.
    pub idling: Idling,
    /// The time slices of the CPUs, if a hypervisor may run the CPUs in slices.
    /// If a frame's job would not finish before its CPU is taken away, the thread leaves the job to another CPU.
    /// The thread leaves the job only if the other CPUs finish all waiting jobs before this CPU is back.
    /// On CPUs without slices this setting costs some 20 ns a job.
    pub slices: Option<Slices>,
}

/// What a thread does when it finds no job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idling {
    /// Sleeps at once on one CPU or under a CPU limit. Otherwise looks for another job for some microseconds, then sleeps.
    #[default]
    AsTheMachineIs,
    /// Sleeps at once.
    SleepAtOnce,
}

impl Default for JobSettings {
    /// Queue 0 for frames, queue 1 for asynchronous jobs, and no workers.
    fn default() -> JobSettings {
        JobSettings {
            queues: vec![QueueSettings::frame(1024), QueueSettings::asynchronous(256)],
            workers: Vec::new(),
            linked_max: 1024,
            waits_max: 4096,
            caller_runs_asynchronous: false,
            idling: Idling::default(),
            slices: None,
        }
    }
}

/// The upper limit of capacities and counts in these settings.
const MOST: usize = 1 << 20;

/// Why a job system cannot start.
///
/// ```
/// use evenkeel_rt::jobs::{JobSettings, Jobs, JobsError};
///
/// let error = Jobs::start(&JobSettings { queues: vec![], ..JobSettings::default() }).unwrap_err();
/// assert!(matches!(error, JobsError::Queues(0)));
/// assert_eq!(error.to_string(), "0 queues: name 1 to 64");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobsError {
    /// Too many queues, or none.
    #[error("{0} queues: name 1 to 64")]
    Queues(usize),
    /// A capacity out of its range.
    #[error("queue {queue} has a capacity of {capacity}: set 1 to 1048576")]
    Capacity {
        /// The number of the queue.
        queue: usize,
        /// The requested capacity.
        capacity: usize,
    },
    /// Too many links.
    #[error("{0} jobs with dependencies: set linked_max and waits_max to at most 1048576")]
    Links(u32),
    /// Too many workers.
    #[error("{0} workers: a job system can have 63; use one job system for each group of CPUs")]
    Workers(usize),
    /// A worker names a queue that does not exist, no queue, or a queue twice.
    #[error("worker {worker} takes from {queues:?}: name at least one of the {count} queues, each once")]
    WorkerQueues {
        /// The number of the worker.
        worker: usize,
        /// The queues that it names.
        queues: Vec<Queue>,
        /// How many queues there are.
        count: usize,
    },
    /// The system started no more threads.
    #[error(
        "start the thread of worker {worker}: {source}; check the limits on threads and memory (ulimit -u, pids.max)"
    )]
    Thread {
        /// The number of the worker.
        worker: usize,
        /// The system's error.
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
