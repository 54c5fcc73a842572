//! The locks together with the data that they guard. The crate `lock_api` adds the guards and the rest of the standard library's interface.

use super::inherit::Inherit;
use super::plain::Plain;
use super::read_write::ReadWrite;

/// A lock for data that only ordinary threads share, or only real-time threads.
pub type Mutex<T> = lock_api::Mutex<RawPlain, T>;
/// Holds the lock until this guard is dropped.
///
/// ```
/// use evenkeel_sys::lock::{InheritMutex, InheritMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
///
/// let (score, world, input) = (Mutex::new(0), RwLock::new(vec![1, 2]), InheritMutex::new(7));
/// let mut all: MutexGuard<'_, usize> = score.lock();
/// let read: RwLockReadGuard<'_, Vec<i32>> = world.read();
/// let given: InheritMutexGuard<'_, usize> = input.lock();
/// *all += read.len() + *given;
/// drop(read); // a writer gets in when no reader is left
/// let mut written: RwLockWriteGuard<'_, Vec<i32>> = world.write();
/// written.push(3);
/// ```
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawPlain, T>;
/// A lock for data that a real-time thread shares with ordinary threads.
pub type InheritMutex<T> = lock_api::Mutex<RawInherit, T>;
/// Holds the lock until this guard is dropped, by the thread that took it.
pub type InheritMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawInherit, T>;

/// A lock for many readers or one writer. A waiting writer goes before readers that arrive later.
pub type RwLock<T> = lock_api::RwLock<RawReadWrite, T>;
/// Holds the lock for reading until this guard is dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawReadWrite, T>;
/// Holds the lock for writing until this guard is dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawReadWrite, T>;

/// The lock of a [`Mutex`].
#[derive(Debug)]
pub struct RawPlain(Plain);

/// The lock of an [`InheritMutex`].
#[derive(Debug)]
pub struct RawInherit(Inherit);

/// The lock of a [`RwLock`].
#[derive(Debug)]
pub struct RawReadWrite(ReadWrite);

// SAFETY: between a `lock` (or a successful `try_lock`) and its `unlock`, no other thread gets the lock.
// The word goes from free to held in one atomic operation, with acquire and release. The model checker has tried every order of two threads.
unsafe impl lock_api::RawMutex for RawPlain {
    const INIT: RawPlain = RawPlain(Plain::new());
    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        self.0.unlock();
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as above. If the lock is held, the kernel gives it to one waiting thread at a time.
// A guard stays with its thread (`GuardNoSend`), whose number is in the word.
unsafe impl lock_api::RawMutex for RawInherit {
    const INIT: RawInherit = RawInherit(Inherit::new());
    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        self.0.unlock();
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: a writer gets the lock only when the count of holders is 0, and sets a value that stops all readers.
// A reader gets the lock only when no writer holds it. Both use one atomic operation, with acquire and release.
// The model checker has tried the orders of up to three threads.
unsafe impl lock_api::RawRwLock for RawReadWrite {
    const INIT: RawReadWrite = RawReadWrite(ReadWrite::new());
    type GuardMarker = lock_api::GuardNoSend;

    fn lock_shared(&self) {
        self.0.read();
    }

    fn try_lock_shared(&self) -> bool {
        self.0.try_read()
    }

    unsafe fn unlock_shared(&self) {
        self.0.unlock_read();
    }

    fn lock_exclusive(&self) {
        self.0.write();
    }

    fn try_lock_exclusive(&self) -> bool {
        self.0.try_write()
    }

    unsafe fn unlock_exclusive(&self) {
        self.0.unlock_write();
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_by_writer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: u64 = 20_000;

    fn count<R: lock_api::RawMutex + Sync>() -> u64 {
        let counter = lock_api::Mutex::<R, u64>::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..EACH).for_each(|_| *counter.lock() += 1));
            }
        });
        counter.into_inner()
    }

    #[test]
    fn nothing_is_lost() {
        assert_eq!(count::<RawPlain>(), 4 * EACH);
        assert_eq!(count::<RawInherit>(), 4 * EACH);
    }

    #[test]
    fn a_held_lock_is_reported() {
        let (plain, inherit) = (Mutex::new(1), InheritMutex::new(1));
        let held = (plain.lock(), inherit.lock());
        assert!(plain.is_locked() && inherit.is_locked());
        assert!(plain.try_lock().is_none());
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| inherit.try_lock().is_none()).join().unwrap());
        });
        drop(held);
        assert!(!plain.is_locked() && !inherit.is_locked());
        assert_eq!(*plain.lock() + *inherit.lock(), 2);
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let lock = RwLock::new([0_u64; 2]);
        {
            let (_one, _two) = (lock.read(), lock.read());
            assert!(lock.is_locked() && !lock.is_locked_exclusive() && lock.try_write().is_none());
        }
        {
            let _writer = lock.write();
            assert!(lock.is_locked_exclusive() && lock.try_read().is_none() && lock.try_write().is_none());
        }
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let mut both = lock.write();
                        both[0] += 1;
                        both[1] += 1;
                    }
                });
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let both = lock.read();
                        assert_eq!(both[0], both[1], "a reader sees a writer's steps all or not at all");
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), [2 * EACH; 2]);
    }

    #[test]
    fn a_writer_is_not_kept_waiting_by_readers_that_come_later() {
        let lock = RwLock::new(());
        let first = lock.read();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| drop(lock.write()));
            while lock.try_read().is_some() {
                std::thread::yield_now();
            }
            drop(first);
            writer.join().unwrap();
        });
        assert!(lock.try_read().is_some());
    }

    #[test]
    fn taking_a_held_lock_again_is_no_silent_hang() {
        let outcome = std::thread::spawn(|| {
            let lock = InheritMutex::new(());
            let _held = lock.lock();
            drop(lock.lock());
        });
        let panic = outcome.join().unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("does this thread hold it already"));
    }
}
