//! Settings of a job system.

use std::ffi::c_char;

use evenkeel_rt::jobs::{Idling, JobSettings, JobsError, PushError, Queue, QueueSettings, WhenFull, WorkerSettings};

use crate::failure::{EvenkeelStatus, Failure};
use crate::structs::{self, structs};
use crate::thread::{EvenkeelThreadConfig, asked as thread_config};

/// Settings of a job system. All zero (EVENKEEL_INIT) means one frame queue, one asynchronous queue, and no workers.
/// Without workers, the thread that opens a frame runs its jobs.
/// Frame queues have the numbers from 0, in the order in which threads take from them. The asynchronous queue has the next number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelJobSettings {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The number of threads that take jobs from the frame queues in their order, and then from the asynchronous queue.
    pub workers: u32,
    /// The number of threads that take asynchronous jobs only, so that long jobs do not delay a frame. At most 63 together with the other workers.
    pub asynchronous_workers: u32,
    /// The number of frame queues, up to 8. 0 means 1.
    pub frame_queues: u32,
    /// The capacity of each frame queue, up to 1,048,576. 0 means 1,024.
    pub frame_capacity: u32,
    /// The capacity of the asynchronous queue, up to 1,048,576. 0 means 256. A job that does not fit is refused.
    pub asynchronous_capacity: u32,
    /// How many jobs of a frame may have dependencies or be dependencies, up to 1,048,576. 0 means 1,024.
    pub linked_max: u32,
    /// How many dependencies these jobs may have together, up to 1,048,576. 0 means 4,096.
    pub waits_max: u32,
    /// What happens to a job if its frame queue is full. 0: the pushing thread runs it at once. 1: the push fails.
    pub refuses_when_full: u32,
    /// What a thread does if it finds no job. 1: it sleeps at once.
    /// 0: it looks for a job for some microseconds if the process has CPUs to spare, and then sleeps.
    pub sleeps_at_once: u32,
    /// What happens to an asynchronous job if no worker takes from its queue. 0: the push fails.
    /// 1: the job waits until evenkeel_jobs_run_asynchronous runs it.
    pub caller_runs_asynchronous: u32,
    /// More workers, each with its own queues and thread settings: `own_workers_count` pointers to the workers' settings.
    /// Their numbers follow those of the workers above. Null means no such workers.
    pub own_workers: *const *const EvenkeelWorkerSettings,
    /// How many workers `own_workers` lists. At most 63 together with all other workers.
    pub own_workers_count: usize,
    /// The CPUs that a hypervisor may run in slices, as a list such as "0-1", with numbers up to 255. Null or empty means none.
    /// If a job does not fit into the rest of its CPU's slice, it begins on another CPU, if that is sooner.
    /// Use this for threads that are pinned to one CPU each. A thread for each listed CPU follows the CPU's slices: see evenkeel_jobs_cpu_slice.
    pub slice_cpus: *const c_char,
}

/// A worker with its own queues and thread settings.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelWorkerSettings {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The numbers of the queues that the worker takes jobs from. The worker always takes from the first queue that has a job.
    pub queues: [u32; 9],
    /// How many queues the worker takes jobs from, 1 to 9.
    pub queues_count: u32,
    /// The kernel settings of the worker's thread, such as its CPUs, in a struct prepared by evenkeel_init. Null means the default settings.
    pub thread: *const EvenkeelThreadConfig,
}

structs! {
    EvenkeelJobSettings {
        workers: u32, asynchronous_workers: u32, frame_queues: u32, frame_capacity: u32, asynchronous_capacity: u32,
        linked_max: u32, waits_max: u32, refuses_when_full: u32, sleeps_at_once: u32, caller_runs_asynchronous: u32,
        own_workers: *const *const EvenkeelWorkerSettings, own_workers_count: usize, slice_cpus: *const c_char,
    }
    EvenkeelWorkerSettings { queues: [u32; 9], queues_count: u32, thread: *const EvenkeelThreadConfig }
}

impl From<JobsError> for Failure {
    fn from(error: JobsError) -> Failure {
        let status = match error {
            JobsError::Thread { .. } => EvenkeelStatus::Refused,
            _ => EvenkeelStatus::OutOfRange,
        };
        Failure::new(status, error)
    }
}

impl From<PushError> for Failure {
    fn from(refused: PushError) -> Failure {
        let status = match refused {
            PushError::Full(_) | PushError::Links => EvenkeelStatus::NoRoom,
            PushError::WrongQueue(_) => EvenkeelStatus::OutOfRange,
            PushError::NoWorker(_) => EvenkeelStatus::NoWorker,
            _ => EvenkeelStatus::Refused,
        };
        Failure::new(status, refused)
    }
}

/// Converts the settings to the type of the Rust library, without slices.
///
/// # Safety
/// `own_workers` is null or points to `own_workers_count` pointers. Each is null or points to a struct prepared by evenkeel_init.
/// The `thread` of that struct is null or points to such a struct too.
pub(super) unsafe fn settings(asked: EvenkeelJobSettings) -> Result<JobSettings, Failure> {
    let or = |many: u32, default: u32| if many == 0 { default } else { many };
    let wrong = |what: &str, number: u32| Failure::new(EvenkeelStatus::OutOfRange, format_args!("{what}: {number}"));
    let frames = match or(asked.frame_queues, 1) {
        frames @ 1..=8 => frames as u8,
        many => return Err(wrong("frame_queues must be 1 to 8, or 0 for 1", many)),
    };
    let own_count = u32::try_from(asked.own_workers_count).unwrap_or(u32::MAX);
    let workers = asked.workers.saturating_add(asked.asynchronous_workers).saturating_add(own_count);
    if workers > 63 {
        return Err(wrong("at most 63 workers of all kinds together", workers));
    }
    let when_full = match asked.refuses_when_full {
        0 => WhenFull::RunHere,
        1 => WhenFull::Refuse,
        other => return Err(wrong("refuses_when_full must be 0 or 1", other)),
    };
    let idling = match asked.sleeps_at_once {
        0 => Idling::AsTheMachineIs,
        1 => Idling::SleepAtOnce,
        other => return Err(wrong("sleeps_at_once must be 0 or 1", other)),
    };
    let caller_runs_asynchronous = match asked.caller_runs_asynchronous {
        0 => false,
        1 => true,
        other => return Err(wrong("caller_runs_asynchronous must be 0 or 1", other)),
    };
    let frame = QueueSettings { when_full, ..QueueSettings::frame(or(asked.frame_capacity, 1024) as usize) };
    let mut queues = vec![frame; frames.into()];
    queues.push(QueueSettings::asynchronous(or(asked.asynchronous_capacity, 256) as usize));
    let all: Vec<Queue> = (0..=frames).map(Queue).collect();
    let mut takers = vec![WorkerSettings::from_queues(&all); asked.workers as usize];
    takers.extend(vec![WorkerSettings::from_queues(&[Queue(frames)]); asked.asynchronous_workers as usize]);
    if asked.own_workers_count > 0 {
        structs::puttable(asked.own_workers)?;
    }
    for at in 0..asked.own_workers_count {
        // SAFETY: as the caller promises; the pointer is neither null nor misaligned, and there are at most 63.
        takers.push(unsafe { worker(asked.own_workers.add(at).read(), frames) }?);
    }
    let (linked_max, waits_max) = (or(asked.linked_max, 1024), or(asked.waits_max, 4096));
    Ok(JobSettings { queues, workers: takers, linked_max, waits_max, caller_runs_asynchronous, idling, slices: None })
}

/// Converts the description of one worker. `frames` is the number of frame queues, and therefore also the asynchronous queue's number.
///
/// # Safety
/// `described` is null or points to a struct prepared by evenkeel_init. The `thread` of that struct is null or points to such a struct too.
unsafe fn worker(described: *const EvenkeelWorkerSettings, frames: u8) -> Result<WorkerSettings, Failure> {
    // SAFETY: as the caller promises.
    let described = unsafe { structs::get(described) }?;
    let wrong = |what: &str, number: u32| Failure::new(EvenkeelStatus::OutOfRange, format_args!("{what}: {number}"));
    let numbers = described.queues.get(..described.queues_count as usize).filter(|numbers| !numbers.is_empty());
    let numbers = numbers.ok_or_else(|| wrong("queues_count", described.queues_count))?;
    let mut queues = Vec::with_capacity(numbers.len());
    for number in numbers {
        let known = u8::try_from(*number).ok().filter(|number| *number <= frames && !queues.contains(&Queue(*number)));
        queues.push(Queue(known.ok_or_else(|| wrong("a worker's queue must exist, and be named once", *number))?));
    }
    let worker = WorkerSettings::from_queues(&queues);
    if described.thread.is_null() {
        return Ok(worker);
    }
    // SAFETY: as the caller promises.
    let thread = unsafe { thread_config(structs::get(described.thread)?) }?;
    Ok(WorkerSettings { thread, ..worker })
}
