//! Lets a thread sleep until a word in memory changes, with the standard library's locks.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The number of queues. Each word uses one of them, chosen by its address.
const QUEUES: usize = 64;

/// The threads that sleep on the words of one queue.
#[derive(Debug)]
struct Queue {
    sleepers: Mutex<Sleepers>,
    woken: Condvar,
}

#[derive(Debug)]
struct Sleepers {
    /// The address of the word, and a unique number for each sleeper.
    all: Vec<(usize, u64)>,
    next: u64,
}

static ALL: [Queue; QUEUES] =
    [const { Queue { sleepers: Mutex::new(Sleepers { all: Vec::new(), next: 0 }), woken: Condvar::new() } }; QUEUES];

fn queue(address: usize) -> &'static Queue {
    // Words are at least four bytes apart, and the words of one object should not share a queue.
    &ALL[(address >> 2) % QUEUES]
}

fn lock(queue: &Queue) -> MutexGuard<'_, Sleepers> {
    queue.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits as long as `word` has the value `value`. The wait may also end early without a reason.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    let address = std::ptr::from_ref(word).addr();
    let queue = queue(address);
    let mut sleepers = lock(queue);
    // Check under the lock that a waking thread takes. If the word changes later, the wake then finds this thread in the queue.
    if word.load(Ordering::SeqCst) != value {
        return;
    }
    let own = (address, sleepers.next);
    sleepers.next += 1;
    sleepers.all.push(own);
    while sleepers.all.contains(&own) {
        sleepers = queue.woken.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Wakes up to `count` threads that wait on `word`. Returns whether any thread waited.
pub(crate) fn wake(word: &AtomicU32, count: u32) -> bool {
    let address = std::ptr::from_ref(word).addr();
    let queue = queue(address);
    let mut sleepers = lock(queue);
    let mut left = count;
    sleepers.all.retain(|(sleeper, _)| {
        let is_woken = left > 0 && *sleeper == address;
        left -= u32::from(is_woken);
        !is_woken
    });
    let is_one_woken = left < count;
    if is_one_woken {
        // The condition variable wakes all threads of a queue. Threads that are still in the queue sleep again.
        queue.woken.notify_all();
    }
    is_one_woken
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_changed_word_is_not_waited_for() {
        wait(&AtomicU32::new(1), 2);
    }

    #[test]
    fn as_many_wake_as_were_meant() {
        let word = AtomicU32::new(0);
        assert!(!wake(&word, 1), "nobody waits");
        let woken = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    wait(&word, 0);
                    woken.fetch_add(1, Ordering::SeqCst);
                });
            }
            let mut wakes = 0;
            while wakes < 3 {
                if wake(&word, 1) {
                    wakes += 1;
                }
                std::thread::sleep(Duration::from_millis(1));
                assert!(woken.load(Ordering::SeqCst) <= wakes);
            }
        });
        assert_eq!(woken.into_inner(), 3);
    }
}
