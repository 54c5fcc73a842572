//! The profiler: where the time of a tick went.

use std::ffi::c_char;

use evenkeel_rt::scope::{self, Named};

use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::{structs, text};

/// Gives the calling thread a ring of its last scopes (up to a million; rounded up to a power of two), under a name. Takes the ring's
/// memory, so once a thread, before its first tick. A second call changes nothing. EVENKEEL_STATUS_NO_ROOM where 256 threads have one.
///
/// Threads: the one that enters scopes.
///
/// # Safety
/// `name` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_scope_start_thread(name: *const c_char, scopes: usize) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let name = unsafe { text::text(name) }?;
        scope::start_thread(name, scopes).then_some(()).ok_or_else(|| EvenkeelStatus::NoRoom.into())
    })
}

/// The number of the scope with this name of 1 to 128 bytes: the same one for the same name. Takes a lock and memory, so at the start,
/// not in a tick. EVENKEEL_STATUS_NO_ROOM where 4,096 names are known.
///
/// Threads: any, at any time.
///
/// # Safety
/// `name` is null or a text that ends with a zero; `scope` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_scope_register(name: *const c_char, scope: *mut u32) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(scope)?;
        // SAFETY: as this function's caller promises.
        let name = unsafe { text::text(name) }?;
        if !(1..=128).contains(&name.len()) {
            return Err(Failure::new(EvenkeelStatus::BadText, format_args!("a name of {} bytes", name.len())));
        }
        let named = Named::of(name).ok_or(EvenkeelStatus::NoRoom)?;
        // SAFETY: the same.
        unsafe { structs::put(scope, named.number()) }
    })
}

/// Enters a scope: gives the token that evenkeel_scope_leave wants. Costs a reading of the cycle counter.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_scope_enter(scope: u32) -> u64 {
    Named::from_number(scope).enter()
}

/// Leaves a scope. Without a ring of the thread nothing is recorded; a number that was never given out is counted, under no name.
///
/// Threads: the one that entered it.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_scope_leave(scope: u32, token: u64) -> EvenkeelStatus {
    caught(|| {
        Named::from_number(scope).leave(token);
        Ok(())
    })
}

/// What all rings hold, as JSON that opens in Perfetto and chrome://tracing, into `buffer`; how many bytes that takes, with its zero,
/// into `needed`. EVENKEEL_STATUS_TOO_SMALL where it does not fit: threads go on meanwhile, so ask with some more than was needed.
///
/// Threads: any, at any time. Takes memory: not in a tick.
///
/// # Safety
/// `buffer` is null or points to `size` bytes that may be written; `needed` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_scope_chrome_json(
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(needed)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(buffer, size, &scope::recording().chrome_json(), needed) }
    })
}

/// The same into a file, which is made or emptied first.
///
/// Threads: any, at any time. Takes memory and writes: not in a tick.
///
/// # Safety
/// `path` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_scope_write_chrome_json(path: *const c_char) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let path = unsafe { text::text(path) }?;
        std::fs::write(path, scope::recording().chrome_json())
            .map_err(|error| Failure::new(EvenkeelStatus::Refused, format_args!("failed to write {path}: {error}")))
    })
}
