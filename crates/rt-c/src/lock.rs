//! Locks that sleep in the kernel and never yield. They spin only for a moment, and only with more than one CPU.
//! Locks live in the caller's storage, so only the caller's memory limits their number.

use std::mem::{align_of, size_of};
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_rt::{Event, InheritMutex, Mutex, RwLock};

use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::holder::Holder;
use crate::structs;

/// A lock, in storage that the caller owns. evenkeel_mutex_init prepares it. Do not copy or move it.
#[repr(C)]
#[derive(Debug)]
pub struct EvenkeelMutex {
    /// Internal to the library.
    pub opaque: [u64; 2],
}

/// A lock whose holder runs with the priority of the most urgent waiter: for a real-time tick that shares data with ordinary threads.
/// The lock is in storage that the caller owns. evenkeel_inherit_mutex_init prepares the storage. Do not copy or move it.
#[repr(C)]
#[derive(Debug)]
pub struct EvenkeelInheritMutex {
    /// Internal to the library.
    pub opaque: [u64; 2],
}

/// A lock for many readers or one writer, in storage that the caller owns. evenkeel_rw_lock_init prepares it. Do not copy or move it.
#[repr(C)]
#[derive(Debug)]
pub struct EvenkeelRwLock {
    /// Internal to the library.
    pub opaque: [u64; 3],
}

/// An event happens once, until it is reset. It is in storage that the caller owns.
/// evenkeel_event_init prepares it. Do not copy or move it.
#[repr(C)]
#[derive(Debug)]
pub struct EvenkeelEvent {
    /// Internal to the library.
    pub opaque: [u64; 2],
}

/// The content of the storage that the caller owns.
#[repr(C)]
struct Stored<L> {
    /// [`Storage::READY`] between `init` and `destroy`; any other value means that the storage has no lock.
    ready: AtomicU32,
    lock: L,
}

/// A struct that the caller owns, with room for a lock.
trait Storage: Sized {
    type Lock: Sync;
    /// Marks storage that has a lock. Each kind of lock has its own value, and memory is unlikely to contain that value by chance.
    const READY: u32;
    const FITS: () = assert!(
        size_of::<Stored<Self::Lock>>() <= size_of::<Self>() && align_of::<Stored<Self::Lock>>() <= align_of::<Self>(),
        "the storage has room for the lock, at its alignment"
    );
}

/// A lock that one thread at a time holds, and the number of that thread.
struct Held<L> {
    lock: L,
    holder: Holder,
}

impl<L> Held<L> {
    const fn new(lock: L) -> Held<L> {
        Held { lock, holder: Holder::nobody() }
    }
}

impl Storage for EvenkeelMutex {
    type Lock = Held<Mutex<()>>;
    const READY: u32 = 0x6d75_7401;
}

impl Storage for EvenkeelInheritMutex {
    type Lock = Held<InheritMutex<()>>;
    const READY: u32 = 0x6d75_7402;
}

impl Storage for EvenkeelRwLock {
    type Lock = Held<RwLock<()>>;
    const READY: u32 = 0x6d75_7403;
}

impl Storage for EvenkeelEvent {
    type Lock = Event;
    const READY: u32 = 0x6d75_7404;
}

/// Writes the lock into the storage.
///
/// # Safety
/// `storage` may be written, and no other thread uses it. Null is an error.
unsafe fn init<S: Storage>(storage: *mut S, lock: S::Lock) -> Result<(), Failure> {
    const { S::FITS };
    structs::puttable(storage)?;
    // SAFETY: the pointer is neither null nor misaligned, the storage is large enough (`FITS`), and it belongs to the caller.
    unsafe { storage.cast::<Stored<S::Lock>>().write(Stored { ready: AtomicU32::new(S::READY), lock }) };
    Ok(())
}

/// Calls `work` with the lock in the storage. Fails if the storage has no lock of this kind.
///
/// # Safety
/// `storage` may be read and written, through atomic words by several threads. Null is an error.
unsafe fn with<S: Storage, R>(
    storage: *const S,
    work: impl FnOnce(&S::Lock) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: as the caller promises.
    let stored = unsafe { stored(storage) }?;
    work(&stored.lock)
}

/// # Safety
/// As for [`with`].
unsafe fn stored<'a, S: Storage>(storage: *const S) -> Result<&'a Stored<S::Lock>, Failure> {
    const { S::FITS };
    structs::puttable(storage)?;
    // SAFETY: the pointer is neither null nor misaligned, and the storage is long enough. This reads only the flag.
    // The lock behind the flag is read only if the flag says that the storage has a lock.
    let ready = unsafe { &(*storage.cast::<Stored<S::Lock>>()).ready };
    if ready.load(Ordering::Acquire) != S::READY {
        return Err(Failure::new(EvenkeelStatus::BadHandle, "not initialised, destroyed, or a lock of another kind"));
    }
    // SAFETY: `init` wrote a lock here. The lock owns no memory, so it stays valid even while another thread destroys it.
    Ok(unsafe { &*storage.cast::<Stored<S::Lock>>() })
}

/// Ends the use of the lock: from now on the storage counts as empty.
///
/// # Safety
/// As for [`with`].
unsafe fn destroy<S: Storage>(storage: *mut S, is_used: impl FnOnce(&S::Lock) -> bool) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    let stored = unsafe { stored(storage.cast_const()) }?;
    if is_used(&stored.lock) {
        return Err(EvenkeelStatus::Busy.into());
    }
    stored.ready.store(0, Ordering::Release);
    Ok(())
}

/// Prepares a lock that nobody holds.
///
/// Threads: one, before any other thread uses it. Call evenkeel_mutex_destroy at the end.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_mutex_init(mutex: *mut EvenkeelMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { init(mutex, Held::new(Mutex::new(()))) })
}

/// Takes the lock, sleeping until it is free. Returns EVENKEEL_STATUS_BUSY if the calling thread already holds the lock: it would wait for itself.
///
/// Threads: any, at any time.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_mutex_lock(mutex: *mut EvenkeelMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(mutex, |lock| {
            lock.holder.is_another()?;
            std::mem::forget(lock.lock.lock());
            lock.holder.took();
            Ok(())
        })
    })
}

/// Takes the lock if it is free, else returns EVENKEEL_STATUS_WOULD_BLOCK.
///
/// Threads: any, at any time.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_mutex_try_lock(mutex: *mut EvenkeelMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(mutex, |lock| {
            std::mem::forget(lock.lock.try_lock().ok_or(EvenkeelStatus::WouldBlock)?);
            lock.holder.took();
            Ok(())
        })
    })
}

/// Releases the lock. Returns EVENKEEL_STATUS_NOT_LOCKED if nobody holds it, and EVENKEEL_STATUS_WRONG_THREAD if another thread does.
///
/// Threads: only the thread that holds the lock.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_mutex_unlock(mutex: *mut EvenkeelMutex) -> EvenkeelStatus {
    caught(|| {
        let unlock = |lock: &<EvenkeelMutex as Storage>::Lock| {
            if !lock.lock.is_locked() {
                return Err(EvenkeelStatus::NotLocked.into());
            }
            lock.holder.releases()?;
            // SAFETY: the lock guards no data of this library, this thread holds it, and its guard was forgotten.
            unsafe { lock.lock.force_unlock() };
            Ok(())
        };
        // SAFETY: as this function's caller promises.
        unsafe { with(mutex, unlock) }
    })
}

/// Ends the use of a lock. Returns EVENKEEL_STATUS_BUSY if a thread holds it. Afterwards the caller may use the storage for other data.
///
/// Threads: one, when no other thread uses it.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_mutex_destroy(mutex: *mut EvenkeelMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { destroy(mutex, |lock| lock.lock.is_locked()) })
}

/// Prepares a lock that inherits priority and that nobody holds.
///
/// Threads: one, before any other thread uses it. Call evenkeel_inherit_mutex_destroy at the end.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_inherit_mutex_init(mutex: *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { init(mutex, Held::new(InheritMutex::new(()))) })
}

/// Takes the lock, sleeping until it is free. Returns EVENKEEL_STATUS_BUSY if the calling thread already holds the lock: it would wait for itself.
///
/// Threads: any, at any time.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_inherit_mutex_lock(mutex: *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(mutex, |lock| {
            lock.holder.is_another()?;
            std::mem::forget(lock.lock.lock());
            lock.holder.took();
            Ok(())
        })
    })
}

/// Takes the lock if it is free, else returns EVENKEEL_STATUS_WOULD_BLOCK.
///
/// Threads: any, at any time.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_inherit_mutex_try_lock(mutex: *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(mutex, |lock| {
            std::mem::forget(lock.lock.try_lock().ok_or(EvenkeelStatus::WouldBlock)?);
            lock.holder.took();
            Ok(())
        })
    })
}

/// Releases the lock. Returns EVENKEEL_STATUS_NOT_LOCKED if nobody holds it, and EVENKEEL_STATUS_WRONG_THREAD if another thread does.
///
/// Threads: only the thread that holds the lock.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_inherit_mutex_unlock(mutex: *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    caught(|| {
        let unlock = |lock: &<EvenkeelInheritMutex as Storage>::Lock| {
            if !lock.lock.is_locked() {
                return Err(EvenkeelStatus::NotLocked.into());
            }
            lock.holder.releases()?;
            // SAFETY: the lock guards no data of this library, this thread holds it, and its guard was forgotten.
            unsafe { lock.lock.force_unlock() };
            Ok(())
        };
        // SAFETY: as this function's caller promises.
        unsafe { with(mutex, unlock) }
    })
}

/// Ends the use of a lock. Returns EVENKEEL_STATUS_BUSY if a thread holds it. Afterwards the caller may use the storage for other data.
///
/// Threads: one, when no other thread uses it.
///
/// # Safety
/// `mutex` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_inherit_mutex_destroy(mutex: *mut EvenkeelInheritMutex) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { destroy(mutex, |lock| lock.lock.is_locked()) })
}

/// Prepares a lock for readers and writers that nobody holds.
///
/// Threads: one, before any other thread uses it. Call evenkeel_rw_lock_destroy at the end.
///
/// # Safety
/// `lock` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rw_lock_init(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { init(lock, Held::new(RwLock::new(()))) })
}

/// Takes the lock for reading, sleeping while a thread writes. Returns EVENKEEL_STATUS_BUSY if the calling thread itself writes.
///
/// Threads: any, at any time, except a thread that already holds the lock: it might wait for itself.
///
/// # Safety
/// `lock` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rw_lock_read(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(lock, |lock| {
            lock.holder.is_another()?;
            std::mem::forget(lock.lock.read());
            Ok(())
        })
    })
}

/// Takes the lock for reading if no thread writes, else returns EVENKEEL_STATUS_WOULD_BLOCK.
///
/// Threads: any, at any time.
///
/// # Safety
/// `lock` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rw_lock_try_read(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(lock, |lock| {
            std::mem::forget(lock.lock.try_read().ok_or(EvenkeelStatus::WouldBlock)?);
            Ok(())
        })
    })
}

/// Releases a lock that the calling thread took for reading. Returns EVENKEEL_STATUS_NOT_LOCKED if nobody reads.
///
/// Threads: only the thread that took the lock.
///
/// # Safety
/// `lock` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rw_lock_unlock_read(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    caught(|| {
        let unlock = |lock: &<EvenkeelRwLock as Storage>::Lock| {
            if !lock.lock.is_locked() || lock.lock.is_locked_exclusive() {
                return Err(EvenkeelStatus::NotLocked.into());
            }
            // SAFETY: the lock guards no data of this library, it is held for reading, and its guard was forgotten.
            unsafe { lock.lock.force_unlock_read() };
            Ok(())
        };
        // SAFETY: as this function's caller promises.
        unsafe { with(lock, unlock) }
    })
}

/// Takes the lock for writing, sleeping while any thread reads or writes. Returns EVENKEEL_STATUS_BUSY if the calling thread already writes.
///
/// Threads: any, at any time, except a thread that reads: it would wait for itself.
///
/// # Safety
/// `lock` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rw_lock_write(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(lock, |lock| {
            lock.holder.is_another()?;
            std::mem::forget(lock.lock.write());
            lock.holder.took();
            Ok(())
        })
    })
}

/// Takes the lock for writing if no thread reads or writes, else returns EVENKEEL_STATUS_WOULD_BLOCK.
///
/// Threads: any, at any time.
///
/// # Safety
/// `lock` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rw_lock_try_write(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(lock, |lock| {
            std::mem::forget(lock.lock.try_write().ok_or(EvenkeelStatus::WouldBlock)?);
            lock.holder.took();
            Ok(())
        })
    })
}

/// Releases a lock that the calling thread took for writing.
/// Returns EVENKEEL_STATUS_NOT_LOCKED if nobody writes, and EVENKEEL_STATUS_WRONG_THREAD if another thread writes.
///
/// Threads: only the thread that took the lock.
///
/// # Safety
/// `lock` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rw_lock_unlock_write(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    caught(|| {
        let unlock = |lock: &<EvenkeelRwLock as Storage>::Lock| {
            if !lock.lock.is_locked_exclusive() {
                return Err(EvenkeelStatus::NotLocked.into());
            }
            lock.holder.releases()?;
            // SAFETY: the lock guards no data of this library, this thread holds it for writing, and its guard was forgotten.
            unsafe { lock.lock.force_unlock_write() };
            Ok(())
        };
        // SAFETY: as this function's caller promises.
        unsafe { with(lock, unlock) }
    })
}

/// Ends the use of a lock. Returns EVENKEEL_STATUS_BUSY if a thread holds it. Afterwards the caller may use the storage for other data.
///
/// Threads: one, when no other thread uses it.
///
/// # Safety
/// `lock` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_rw_lock_destroy(lock: *mut EvenkeelRwLock) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { destroy(lock, |lock| lock.lock.is_locked()) })
}

/// Prepares an event that has not happened.
///
/// Threads: one, before any other thread uses it. Call evenkeel_event_destroy at the end.
///
/// # Safety
/// `event` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_event_init(event: *mut EvenkeelEvent) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { init(event, Event::new()) })
}

/// Sets the event: it has happened. Every waiter continues, and sees the data that the calling thread wrote before the call.
///
/// Threads: any, at any time.
///
/// # Safety
/// `event` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_event_set(event: *mut EvenkeelEvent) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(event, |event| {
            event.set();
            Ok(())
        })
    })
}

/// Resets the event, so that it can happen again.
///
/// Threads: any, after all threads that waited for the event have returned.
///
/// # Safety
/// `event` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_event_reset(event: *mut EvenkeelEvent) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(event, |event| {
            event.reset();
            Ok(())
        })
    })
}

/// Sleeps until the event has happened.
///
/// Threads: any, at any time.
///
/// # Safety
/// `event` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_event_wait(event: *mut EvenkeelEvent) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe {
        with(event, |event| {
            event.wait();
            Ok(())
        })
    })
}

/// Writes to `is_set` whether the event has happened: 1 or 0.
///
/// Threads: any, at any time.
///
/// # Safety
/// `event` is null or points to storage that the caller owns and that may be read and written; `is_set` may be written. A null `is_set` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_event_is_set(event: *const EvenkeelEvent, is_set: *mut u32) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let found = unsafe { with(event, |event| Ok(event.is_set())) }?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(is_set, found.into()) }
    })
}

/// Ends the use of an event. Returns EVENKEEL_STATUS_BUSY if a thread waits for it. Afterwards the caller may use the storage for other data.
///
/// Threads: one, when no other thread uses it.
///
/// # Safety
/// `event` is null or points to storage that the caller owns and that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_event_destroy(event: *mut EvenkeelEvent) -> EvenkeelStatus {
    // SAFETY: as this function's caller promises.
    caught(|| unsafe { destroy(event, |lock| lock.is_awaited()) })
}
