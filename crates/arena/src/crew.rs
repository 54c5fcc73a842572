//! The work of a tick as jobs over ranges: on the tick's thread alone, or on workers beside it. What comes out never depends on
//! how many there are: each job writes what is its own, and what is added up is added without order.

use std::sync::{Mutex, PoisonError};

/// Parts that a list is cut into for jobs that change its items; a bound, so that nothing is allocated for it.
const PARTS: usize = 16;

/// Who does the work.
#[derive(Debug, Default)]
pub struct Crew {
    workers: usize,
}

impl Crew {
    /// The calling thread, and so many beside it.
    pub fn new(workers: usize) -> Self {
        Self { workers }
    }

    /// Threads beside the calling one.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Does `job` for every number below `count`, `chunk` of them at a time, and comes back when all are done.
    pub fn each(&mut self, count: usize, chunk: usize, job: impl Fn(usize) + Sync) {
        if self.workers == 0 {
            return (0..count).for_each(job);
        }
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || {
            loop {
                let from = next.fetch_add(chunk.max(1), std::sync::atomic::Ordering::Relaxed);
                if from >= count {
                    break;
                }
                (from..(from + chunk.max(1)).min(count)).for_each(&job);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.workers {
                scope.spawn(work);
            }
            work();
        });
    }

    /// Does `job` for every item, which it may change.
    pub fn each_mut<T: Send>(&mut self, items: &mut [T], job: impl Fn(usize, &mut T) + Sync) {
        let size = items.len().div_ceil(PARTS).max(1);
        let mut cut = items.chunks_mut(size);
        // A lock that is taken once: it only hands each part to the job that gets its number.
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
            let mut crew = Crew::new(workers);
            for count in [0, 1, 15, 16, 17, 1_000] {
                let sum = AtomicU64::new(0);
                crew.each(count, 7, |at| {
                    sum.fetch_add(at as u64 + 1, Ordering::Relaxed);
                });
                assert_eq!(sum.into_inner(), (1..=count as u64).sum::<u64>(), "{count} with {workers}");
                let mut items = vec![1; count];
                crew.each_mut(&mut items, |at, item| *item += at);
                assert!(items.iter().enumerate().all(|(at, item)| *item == at + 1));
            }
        }
    }
}
