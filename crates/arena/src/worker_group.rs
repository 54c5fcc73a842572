//! The work of a tick as jobs over ranges, on the tick thread alone or shared with workers. The number of workers never changes the result:
//! each job writes only its own part, and sums do not depend on the order.

use std::sync::{Mutex, PoisonError};

use evenkeel_rt::jobs::{JobSettings, Jobs, JobsError, Queue, WorkerSettings};

/// The maximum number of parts of a list for jobs that change its items. The bound avoids an allocation.
const PARTS: usize = 16;
/// The queue that a tick waits for.
const FRAME: Queue = Queue(0);

/// The threads that do the work.
#[derive(Debug, Default)]
pub struct WorkerGroup {
    /// None if only the calling thread works, without any queue.
    jobs: Option<Jobs>,
    done: u64,
}

impl WorkerGroup {
    /// A group of the calling thread and this many workers.
    ///
    /// # Errors
    /// If the system cannot start more threads, or `workers` exceeds 63.
    pub fn new(workers: usize) -> Result<Self, JobsError> {
        let workers = vec![WorkerSettings::from_queues(&[FRAME]); workers];
        let jobs = Jobs::start(&JobSettings { workers, ..JobSettings::default() })?;
        Ok(Self { jobs: Some(jobs), done: 0 })
    }

    /// The number of threads in addition to the calling thread.
    pub fn workers(&self) -> usize {
        self.jobs.as_ref().map_or(0, |jobs| jobs.workers().len())
    }

    /// The number of jobs that were run so far.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Runs `job` for every number below `count`, `chunk` numbers at a time, and returns when all are done.
    pub fn each(&mut self, count: usize, chunk: usize, job: impl Fn(usize) + Sync) {
        self.done += count as u64;
        let Some(jobs) = &mut self.jobs else {
            return (0..count).for_each(job);
        };
        if jobs.frame(|frame| frame.for_each(FRAME, 0..count, chunk, &job)).is_err() {
            // Only a missing queue is refused, before anything is done.
            (0..count).for_each(job);
        }
    }

    /// Runs `job` for every number below `count`, each as a separate job, for work that is about the jobs themselves.
    pub fn each_apart(&mut self, count: usize, job: impl Fn(usize) + Sync) {
        self.done += count as u64;
        let Some(jobs) = &mut self.jobs else {
            return (0..count).for_each(job);
        };
        let job = &job;
        // If the queue is full, the thread that pushes a job runs it at once, so nothing is refused.
        let pushed = jobs.frame(|frame| frame.push_batch(FRAME, (0..count).map(|at| move || job(at))));
        debug_assert!(pushed.is_ok());
    }

    /// Runs `job` for every item, which it may change.
    pub fn each_mut<T: Send>(&mut self, items: &mut [T], job: impl Fn(usize, &mut T) + Sync) {
        let size = items.len().div_ceil(PARTS).max(1);
        let mut cut = items.chunks_mut(size);
        // Each lock is taken once. It only hands a part to the job with its number.
        let parts: [_; PARTS] = std::array::from_fn(|_| Mutex::new(cut.next()));
        self.each(PARTS, 1, |part| {
            let items = parts[part].lock().unwrap_or_else(PoisonError::into_inner).take();
            for (at, item) in items.into_iter().flatten().enumerate() {
                job(part * size + at, item);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn every_number_and_every_item_has_its_turn_once() {
        for workers in [0, 1, 3] {
            let mut group = WorkerGroup::new(workers).unwrap();
            assert_eq!(group.workers(), workers);
            for count in [0, 1, 15, 16, 17, 3_000] {
                let sum = AtomicU64::new(0);
                group.each(count, 7, |at| {
                    sum.fetch_add(at as u64 + 1, Ordering::Relaxed);
                });
                assert_eq!(sum.into_inner(), (1..=count as u64).sum::<u64>(), "{count} with {workers}");
                let sum = AtomicU64::new(0);
                group.each_apart(count, |at| {
                    sum.fetch_add(at as u64 + 1, Ordering::Relaxed);
                });
                assert_eq!(sum.into_inner(), (1..=count as u64).sum::<u64>(), "{count} apart with {workers}");
                let mut items = vec![1; count];
                group.each_mut(&mut items, |at, item| *item += at);
                assert!(items.iter().enumerate().all(|(at, item)| *item == at + 1));
            }
        }
    }
}
