//! Locks that sleep in the kernel, never yield, and spin only a moment, and only where there is another CPU.

use evenkeel_rt::{Event, InheritMutex, Mutex, RwLock};

use crate::failure::{EvenkeelStatus, caught};
use crate::handle::{self, handles};
use crate::structs;

/// A lock. Not to be taken twice by one thread.
#[derive(Debug)]
pub struct EvenkeelMutex(());

/// A lock whose holder runs with the priority of the most urgent thread that waits for it: where the tick's thread is real-time and
/// shares data with ordinary ones.
#[derive(Debug)]
pub struct EvenkeelInheritMutex(());

/// A lock that many may read under, or one may write under.
#[derive(Debug)]
pub struct EvenkeelRwLock(());

/// Something that happens once, until it is reset.
#[derive(Debug)]
pub struct EvenkeelEvent(());

handles! {
    EvenkeelMutex, 4096 of Mutex<()>;
    EvenkeelInheritMutex, 4096 of InheritMutex<()>;
    EvenkeelEvent, 4096 of Event;
    EvenkeelRwLock, 4096 of RwLock<()>;
}

/// Makes a lock; EVENKEEL_STATUS_NO_ROOM where there are 4,096.
///
/// Threads: any. Free it with evenkeel_mutex_free.
///
/// # Safety
/// `mutex` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_mutex_new(mutex: *mut *mut EvenkeelMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { handle::give(mutex, || Ok(Mutex::new(()))) })
}

/// Takes the lock, sleeping until it is free.
///
/// Threads: any, at any time, but for one that holds it, which would wait for itself.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_mutex_lock(mutex: *mut EvenkeelMutex) -> EvenkeelStatus {
    caught(|| {
        handle::shared(mutex, |mutex| {
            std::mem::forget(mutex.lock());
            Ok(())
        })
    })
}

/// Takes the lock if it is free, and is EVENKEEL_STATUS_NOT_YET else.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_mutex_try_lock(mutex: *mut EvenkeelMutex) -> EvenkeelStatus {
    caught(|| {
        handle::shared(mutex, |mutex| {
            std::mem::forget(mutex.try_lock().ok_or(EvenkeelStatus::NotYet)?);
            Ok(())
        })
    })
}

/// Lets the lock go. EVENKEEL_STATUS_NOT_YET where nobody holds it.
///
/// Threads: the one that holds it.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_mutex_unlock(mutex: *mut EvenkeelMutex) -> EvenkeelStatus {
    caught(|| {
        handle::shared(mutex, |mutex| {
            if !mutex.is_locked() {
                return Err(EvenkeelStatus::NotYet.into());
            }
            // SAFETY: it guards nothing of ours (`Mutex<()>`), its word may be let go by anybody, and its guard was forgotten.
            unsafe { mutex.force_unlock() };
            Ok(())
        })
    })
}

/// Frees a lock; EVENKEEL_STATUS_BUSY while another thread is about to take it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_mutex_free(mutex: *mut EvenkeelMutex) -> EvenkeelStatus {
    caught(|| handle::take(mutex).map(drop))
}

/// Makes a lock that lends its holder the priority of who waits; EVENKEEL_STATUS_NO_ROOM where there are 4,096.
///
/// Threads: any. Free it with evenkeel_inherit_mutex_free.
///
/// # Safety
/// `mutex` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_inherit_mutex_new(mutex: *mut *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { handle::give(mutex, || Ok(InheritMutex::new(()))) })
}

/// Takes the lock, sleeping until it is free. EVENKEEL_STATUS_PANICKED where the calling thread holds it already: the kernel sees
/// that, and nothing has changed.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_inherit_mutex_lock(mutex: *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    caught(|| {
        handle::shared(mutex, |mutex| {
            std::mem::forget(mutex.lock());
            Ok(())
        })
    })
}

/// Takes the lock if it is free, and is EVENKEEL_STATUS_NOT_YET else.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_inherit_mutex_try_lock(mutex: *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    caught(|| {
        handle::shared(mutex, |mutex| {
            std::mem::forget(mutex.try_lock().ok_or(EvenkeelStatus::NotYet)?);
            Ok(())
        })
    })
}

/// Lets the lock go. EVENKEEL_STATUS_NOT_YET where nobody holds it, EVENKEEL_STATUS_PANICKED where another thread does: the kernel
/// sees that, and nothing has changed.
///
/// Threads: the one that holds it.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_inherit_mutex_unlock(mutex: *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    caught(|| {
        handle::shared(mutex, |mutex| {
            if !mutex.is_locked() {
                return Err(EvenkeelStatus::NotYet.into());
            }
            // SAFETY: it guards nothing of ours (`InheritMutex<()>`), its guard was forgotten, and it looks itself whether we hold it.
            unsafe { mutex.force_unlock() };
            Ok(())
        })
    })
}

/// Frees a lock; EVENKEEL_STATUS_BUSY while another thread is about to take it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_inherit_mutex_free(mutex: *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    caught(|| handle::take(mutex).map(drop))
}

/// Makes a lock for readers and a writer; EVENKEEL_STATUS_NO_ROOM where there are 4,096.
///
/// Threads: any. Free it with evenkeel_rw_lock_free.
///
/// # Safety
/// `lock` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rw_lock_new(lock: *mut *mut EvenkeelRwLock) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { handle::give(lock, || Ok(RwLock::new(()))) })
}

/// Takes the lock for reading, sleeping while somebody writes.
///
/// Threads: any, at any time, but for one that holds it, which may wait for itself.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rw_lock_read(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    caught(|| {
        handle::shared(lock, |lock| {
            std::mem::forget(lock.read());
            Ok(())
        })
    })
}

/// Takes the lock for reading while nobody writes, and is EVENKEEL_STATUS_NOT_YET else.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rw_lock_try_read(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    caught(|| {
        handle::shared(lock, |lock| {
            std::mem::forget(lock.try_read().ok_or(EvenkeelStatus::NotYet)?);
            Ok(())
        })
    })
}

/// Lets go what was taken for reading. EVENKEEL_STATUS_NOT_YET where nobody reads.
///
/// Threads: the one that took it.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rw_lock_unlock_read(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    caught(|| {
        handle::shared(lock, |lock| {
            if !lock.is_locked() || lock.is_locked_exclusive() {
                return Err(EvenkeelStatus::NotYet.into());
            }
            // SAFETY: it guards nothing of ours (`RwLock<()>`), it is held for reading, and the guard was forgotten.
            unsafe { lock.force_unlock_read() };
            Ok(())
        })
    })
}

/// Takes the lock for writing, sleeping while anybody reads or writes.
///
/// Threads: any, at any time, but for one that holds it, which would wait for itself.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rw_lock_write(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    caught(|| {
        handle::shared(lock, |lock| {
            std::mem::forget(lock.write());
            Ok(())
        })
    })
}

/// Takes the lock for writing while nobody reads or writes, and is EVENKEEL_STATUS_NOT_YET else.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rw_lock_try_write(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    caught(|| {
        handle::shared(lock, |lock| {
            std::mem::forget(lock.try_write().ok_or(EvenkeelStatus::NotYet)?);
            Ok(())
        })
    })
}

/// Lets go what was taken for writing. EVENKEEL_STATUS_NOT_YET where nobody writes.
///
/// Threads: the one that took it.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rw_lock_unlock_write(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    caught(|| {
        handle::shared(lock, |lock| {
            if !lock.is_locked_exclusive() {
                return Err(EvenkeelStatus::NotYet.into());
            }
            // SAFETY: it guards nothing of ours (`RwLock<()>`), it is held for writing, and the guard was forgotten.
            unsafe { lock.force_unlock_write() };
            Ok(())
        })
    })
}

/// Frees a lock; EVENKEEL_STATUS_BUSY while another thread is about to take it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_rw_lock_free(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    caught(|| handle::take(lock).map(drop))
}

/// Makes an event that has not happened; EVENKEEL_STATUS_NO_ROOM where there are 4,096.
///
/// Threads: any. Free it with evenkeel_event_free.
///
/// # Safety
/// `event` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_event_new(event: *mut *mut EvenkeelEvent) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { handle::give(event, || Ok(Event::new())) })
}

/// It has happened: whoever waits goes on, and sees what was written before.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_event_set(event: *mut EvenkeelEvent) -> EvenkeelStatus {
    caught(|| {
        handle::shared(event, |event| {
            event.set();
            Ok(())
        })
    })
}

/// It is to happen anew.
///
/// Threads: any, while nobody waits who waits for the last time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_event_reset(event: *mut EvenkeelEvent) -> EvenkeelStatus {
    caught(|| {
        handle::shared(event, |event| {
            event.reset();
            Ok(())
        })
    })
}

/// Sleeps until it has happened.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_event_wait(event: *mut EvenkeelEvent) -> EvenkeelStatus {
    caught(|| {
        handle::shared(event, |event| {
            event.wait();
            Ok(())
        })
    })
}

/// Whether it has happened: 1 or 0.
///
/// Threads: any, at any time.
///
/// # Safety
/// `is_set` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_event_is_set(event: *const EvenkeelEvent, is_set: *mut u32) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(event, |event| Ok(event.is_set()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(is_set, found.into()) }
    })
}

/// Frees an event; EVENKEEL_STATUS_BUSY while another thread waits for it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_event_free(event: *mut EvenkeelEvent) -> EvenkeelStatus {
    caught(|| handle::take(event).map(drop))
}
