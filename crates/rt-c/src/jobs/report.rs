//! What a job system reports: the counters of the last frame, and which settings of its workers are active.

use super::{EvenkeelJobs, alone};
use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::structs::{self, structs};
use crate::thread::{EvenkeelThreadReport, filled as filled_thread};

/// The counters of the last frame.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelFrameCounters {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// Jobs of the frame that ran.
    pub jobs: u64,
    /// The jobs that ran on the thread that opened the frame.
    pub by_caller: u64,
    /// The jobs that ran on workers.
    pub by_workers: u64,
    /// Asynchronous jobs that ended during the frame.
    pub asynchronous: u64,
    /// Jobs that found their queue full.
    pub full: u64,
    /// Threads that the caller and workers woke.
    pub wakes: u64,
    /// How long the thread that opened the frame slept because the remaining jobs ran on other threads, in nanoseconds.
    pub waited_ns: u64,
    /// The sum of the jobs' durations, in nanoseconds.
    pub busy_ns: u64,
    /// The duration of the longest job, in nanoseconds.
    pub longest_job_ns: u64,
    /// How often a thread left a job to others because its CPU was about to be taken away: see EvenkeelJobSettings.slice_cpus.
    /// The thread looks for a job again every 50 us.
    pub left: u64,
}

structs! {
    EvenkeelFrameCounters {
        jobs: u64, by_caller: u64, by_workers: u64, asynchronous: u64, full: u64, wakes: u64, waited_ns: u64, busy_ns: u64,
        longest_job_ns: u64, left: u64,
    }
}

/// Writes the counters of the last frame to `counters`.
///
/// Threads: one at a time.
///
/// # Safety
/// `counters` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_jobs_last_frame(
    jobs: *mut EvenkeelJobs,
    counters: *mut EvenkeelFrameCounters,
) -> EvenkeelStatus {
    caught(|| {
        let last = alone(jobs, |work| Ok(work.jobs.last_frame()))?;
        let filled = EvenkeelFrameCounters {
            size: 0,
            version: 0,
            jobs: last.jobs,
            by_caller: last.by_caller,
            by_workers: last.by_workers,
            asynchronous: last.asynchronous,
            full: last.full,
            wakes: last.wakes,
            waited_ns: last.waited_ns,
            busy_ns: last.busy_ns,
            longest_job_ns: last.longest_job_ns,
            left: last.left,
        };
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(counters, filled) }
    })
}

/// Writes to `report` which settings of a worker's thread are active. Workers have numbers from 0.
/// First come EvenkeelJobSettings.workers, then the asynchronous workers, then own_workers.
/// Returns EVENKEEL_STATUS_OUT_OF_RANGE if no worker has this number.
///
/// Threads: one at a time.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_jobs_worker_report(
    jobs: *mut EvenkeelJobs,
    number: usize,
    report: *mut EvenkeelThreadReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = alone(jobs, |work| {
            let wrong = || Failure::new(EvenkeelStatus::OutOfRange, format_args!("no worker has the number {number}"));
            work.jobs.workers().get(number).copied().ok_or_else(wrong)
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, filled_thread(found)) }
    })
}
