//! How a reader knows that its copy is consistent, while the writer never waits.
//! The writer increments one number before it writes an entry, and another number after the entry.
//! A reader reads the second number, copies the data, and reads the first number.
//! If both numbers are equal, the writer wrote no entry meanwhile.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Begins an entry, and returns its number. Only one thread may call this.
pub fn begin(begun: &AtomicU64) -> u64 {
    // Only this thread writes the number, so this read is current.
    let number = begun.load(Ordering::Relaxed).wrapping_add(1);
    begun.store(number, Ordering::Relaxed);
    // A reader that sees any of the following writes also sees that the entry was begun.
    fence(Ordering::Release);
    number
}

/// Marks the entry with this number as complete.
pub fn end(done: &AtomicU64, number: u64) {
    // Release: a reader that sees the number also sees the entry.
    done.store(number, Ordering::Release);
}

/// Reads three times: the completed number, the data to copy, and the begun number. `None` if the copy may mix two entries.
pub fn copied<T>(done: impl FnOnce() -> u64, copy: impl FnOnce() -> T, begun: impl FnOnce() -> u64) -> Option<T> {
    let before = done();
    // This fence pairs with the writer's release, so the copy has this entry or a later entry.
    fence(Ordering::Acquire);
    let copy = copy();
    // This fence pairs with the writer's fence. If the copy has a word of a later entry, the begun number below shows that entry.
    fence(Ordering::Acquire);
    (begun() == before).then_some(copy)
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;

    use super::*;

    #[test]
    fn no_order_of_steps_lets_a_torn_entry_through() {
        loom::model(|| {
            let page: Arc<[AtomicU64; 4]> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
            let writers = Arc::clone(&page);
            let writer = loom::thread::spawn(move || {
                for _ in 0..2 {
                    let number = begin(&writers[0]);
                    writers[2].store(number, Ordering::Relaxed);
                    writers[3].store(number, Ordering::Relaxed);
                    end(&writers[1], number);
                }
            });
            let load = |at: usize| page[at].load(Ordering::Relaxed);
            if let Some((done, one, other)) = copied(|| load(1), || (load(1), load(2), load(3)), || load(0)) {
                assert_eq!(one, other);
                assert_eq!(done, one, "the copy is of the entry that was done");
            }
            writer.join().unwrap();
        });
    }
}
