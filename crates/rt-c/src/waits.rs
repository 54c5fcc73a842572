//! Logs long waits for locks and events, to find what delays a server.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use evenkeel_rt::waits::{self, Kind, LongWait};

use crate::failure::{EvenkeelStatus, caught};
use crate::structs::{self, structs};

/// The maximum number of waits that the log holds. The library counts later waits without storing them.
const KEPT_MAX: usize = 4096;

struct Taken {
    waits: VecDeque<LongWait>,
    lost: u64,
}

static TAKEN: Mutex<Taken> = Mutex::new(Taken { waits: VecDeque::new(), lost: 0 });

/// The kind of the lock or event, in EvenkeelLongWait.kind.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelWaitKind {
    /// A mutex.
    Mutex = 0,
    /// A mutex whose holder inherits priority.
    InheritMutex = 1,
    /// A reader-writer lock, to take it for reading.
    Read = 2,
    /// A reader-writer lock, to take it for writing.
    Write = 3,
    /// An event.
    Event = 4,
}

/// A wait that took longer than the limit of evenkeel_waits_log_over.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelLongWait {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// One of EvenkeelWaitKind.
    pub kind: u32,
    /// The kernel's id of the thread that waited.
    pub thread: u32,
    /// The address of the lock or event.
    pub lock: u64,
    /// When the wait began, in nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// How long the wait took, in nanoseconds, without no_cpu_ns.
    pub length_ns: u64,
    /// How long the lock was free but the waiter had no CPU, in nanoseconds.
    /// If the kernel does not count this time, the field is UINT64_MAX, and length_ns includes the time.
    pub no_cpu_ns: u64,
}

structs! {
    EvenkeelLongWait { kind: u32, thread: u32, lock: u64, start_ns: u64, length_ns: u64, no_cpu_ns: u64 }
}

/// From now on, logs every wait for a lock or an event of this library that takes longer than `over_ns` nanoseconds. Allocates the log.
/// Start with half of the quantum if the CPU runs in slices. A lock that is free costs no more than before.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_waits_log_over(over_ns: u64) -> EvenkeelStatus {
    caught(|| {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = KEPT_MAX.saturating_sub(taken.waits.len());
        taken.waits.reserve_exact(missing);
        waits::log_over_ns(over_ns);
        Ok(())
    })
}

/// Stops logging. The caller can still take the waits in the log.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_waits_stop_log() -> EvenkeelStatus {
    caught(|| {
        waits::stop_log();
        Ok(())
    })
}

/// Takes the oldest wait of the log. `lost` is the number of waits that were lost since the last call because the log was full.
/// Returns EVENKEEL_STATUS_NO_DATA if no wait is left, and sets `lost` in that case too.
///
/// Threads: any, at any time, but not in a tick, because the call takes a lock and allocates.
///
/// # Safety
/// `wait` is null or points to a struct prepared by evenkeel_init; `lost` may be written. A null `lost` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_waits_take(wait: *mut EvenkeelLongWait, lost: *mut u64) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        unsafe { structs::get(wait.cast_const()) }?;
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let logged = waits::take_log();
        taken.lost = taken.lost.saturating_add(logged.lost);
        for one in logged.waits {
            if taken.waits.len() < KEPT_MAX {
                taken.waits.push_back(one);
            } else {
                taken.lost = taken.lost.saturating_add(1);
            }
        }
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(lost, taken.lost) }?;
        taken.lost = 0;
        let one = taken.waits.pop_front().ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(wait, filled(one)) }
    })
}

fn filled(wait: LongWait) -> EvenkeelLongWait {
    let kind = match wait.kind {
        Kind::Mutex => EvenkeelWaitKind::Mutex,
        Kind::InheritMutex => EvenkeelWaitKind::InheritMutex,
        Kind::Read => EvenkeelWaitKind::Read,
        Kind::Write => EvenkeelWaitKind::Write,
        Kind::Event => EvenkeelWaitKind::Event,
    };
    EvenkeelLongWait {
        size: 0,
        version: 0,
        kind: kind as u32,
        thread: wait.thread,
        lock: wait.address as u64,
        start_ns: wait.start_ns,
        length_ns: wait.length_ns,
        no_cpu_ns: wait.no_cpu_ns.unwrap_or(u64::MAX),
    }
}
