//! The locks with the data that they guard. The guards and all that people know from the standard library come from `lock_api`.

use super::inherit::Inherit;
use super::plain::Plain;

/// A lock for data of threads that all are ordinary, or all real-time.
pub type Mutex<T> = lock_api::Mutex<RawPlain, T>;
/// Held as long as this lives.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawPlain, T>;
/// A lock for data that a real-time thread shares with ordinary ones.
pub type InheritMutex<T> = lock_api::Mutex<RawInherit, T>;
/// Held as long as this lives, by the thread that took it.
pub type InheritMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawInherit, T>;

/// The lock of a [`Mutex`].
#[derive(Debug)]
pub struct RawPlain(Plain);

/// The lock of an [`InheritMutex`].
#[derive(Debug)]
pub struct RawInherit(Inherit);

// SAFETY: between a `lock` (or a `try_lock` that gave true) and its `unlock` no other thread gets through: the word goes from free to
// held in one atomic step, with acquire and release; the model checker has tried every order of two threads.
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

// SAFETY: as above; who is not first is let through by the kernel, which gives the lock to one thread at a time. A guard stays with its
// thread (`GuardNoSend`), whose number is in the word.
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
    fn a_held_lock_says_so() {
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
    fn to_take_what_one_holds_is_no_silent_hang() {
        let outcome = std::thread::spawn(|| {
            let lock = InheritMutex::new(());
            let _held = lock.lock();
            drop(lock.lock());
        });
        let panic = outcome.join().unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("does this thread hold it already"));
    }
}
