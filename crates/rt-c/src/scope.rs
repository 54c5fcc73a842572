//! The profiler: shows where the time of a tick goes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use evenkeel_rt::scope::{self, Entered, LongScope, Scope, ScopeError};

use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::structs::{self, structs};
use crate::text;

/// The maximum number of scopes that a thread may have entered and not left.
const DEPTH_MAX: usize = 128;
/// The maximum number of scope names.
const NAMES_MAX: usize = 4096;

/// Scopes by their numbers, which begin at 1.
static BY_NUMBER: [OnceLock<&'static Scope>; NAMES_MAX] = [const { OnceLock::new() }; NAMES_MAX];
static COUNT: Mutex<usize> = Mutex::new(0);

/// The scopes that a thread has entered and not left.
struct Inside(Vec<(u32, Entered)>);

impl Drop for Inside {
    fn drop(&mut self) {
        // The thread ends. Scopes that it did not leave have no end. The thread's ring may be gone already, so their guards must not run.
        self.0.drain(..).for_each(std::mem::forget);
    }
}

thread_local! {
    static INSIDE: RefCell<Inside> = const { RefCell::new(Inside(Vec::new())) };
}

fn inside<R>(work: impl FnOnce(&mut Vec<(u32, Entered)>) -> Result<R, Failure>) -> Result<R, Failure> {
    let outcome = INSIDE.try_with(|inside| work(&mut inside.borrow_mut().0));
    outcome.unwrap_or_else(|_| Err(Failure::new(EvenkeelStatus::Refused, "the thread is about to end")))
}

fn by_number(scope: u32) -> Result<&'static Scope, Failure> {
    let at = (scope as usize).checked_sub(1).and_then(|at| BY_NUMBER.get(at)?.get());
    at.copied().ok_or_else(|| Failure::new(EvenkeelStatus::BadHandle, "no scope has this number"))
}

impl From<ScopeError> for Failure {
    fn from(error: ScopeError) -> Failure {
        let status = match error {
            ScopeError::TooManyThreads => EvenkeelStatus::NoRoom,
            ScopeError::OtherName => EvenkeelStatus::Busy,
            ScopeError::Unsupported => EvenkeelStatus::Unsupported,
            _ => EvenkeelStatus::NoData,
        };
        Failure::new(status, error)
    }
}

/// Starts to record the calling thread under a name. Allocates a ring for the thread's last scopes (up to a million; rounded up to a power of two).
/// Call this function before the first tick: the first call of a process takes up to 0.3 s. A second call with the same name changes nothing.
/// Once a thread records, every other thread starts to record at its first scope, with a ring of 4,096.
/// Returns EVENKEEL_STATUS_NO_ROOM if 256 threads already record, and EVENKEEL_STATUS_BUSY if this thread records under another name.
///
/// Threads: only the thread that enters scopes.
///
/// # Safety
/// `name` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_scope_start_thread(name: *const c_char, scopes: usize) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let name = unsafe { text::text(name) }?;
        reserve()?;
        Ok(scope::start_thread(name, scopes)?)
    })
}

/// Allocates the memory that the calling thread needs to enter scopes.
pub(crate) fn reserve() -> Result<(), Failure> {
    inside(|inside| {
        inside.reserve_exact(DEPTH_MAX.saturating_sub(inside.len()));
        Ok(())
    })
}

/// Writes to `scope` the number of the scope with this name of 1 to 128 bytes. The same name always has the same number.
/// The call takes a lock and allocates, so make it at the start, not in a tick. Returns EVENKEEL_STATUS_NO_ROOM if 4,096 names already exist.
///
/// Threads: any, at any time.
///
/// # Safety
/// `name` is null or a text that ends with a zero; `scope` may be written. A null `scope` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_scope_register(name: *const c_char, scope: *mut u32) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(scope)?;
        // SAFETY: as this function's caller promises.
        let name = unsafe { text::text(name) }?;
        if !(1..=128).contains(&name.len()) {
            return Err(Failure::new(EvenkeelStatus::BadText, format_args!("a name of {} bytes", name.len())));
        }
        let named = Scope::named(name).ok_or(EvenkeelStatus::NoRoom)?;
        let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
        let known = BY_NUMBER[..*count].iter().position(|known| known.get().is_some_and(|it| std::ptr::eq(*it, named)));
        let at = known.unwrap_or(*count);
        BY_NUMBER.get(at).ok_or(EvenkeelStatus::NoRoom)?.get_or_init(|| named);
        *count = (*count).max(at + 1);
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(scope, at as u32 + 1) }
    })
}

/// Enters a scope. Returns EVENKEEL_STATUS_BAD_HANDLE if no scope has this number.
/// Returns EVENKEEL_STATUS_NO_ROOM if the thread is already in 128 scopes. In both cases do not leave the scope.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_scope_enter(scope: u32) -> EvenkeelStatus {
    caught(|| {
        let known = by_number(scope)?;
        inside(|inside| {
            if inside.len() >= DEPTH_MAX {
                return Err(EvenkeelStatus::NoRoom.into());
            }
            inside.push((scope, known.enter()));
            Ok(())
        })
    })
}

fn outside() -> Failure {
    Failure::new(EvenkeelStatus::BadHandle, "this thread is in no scope with this number")
}

/// Leaves the innermost scope with this number. Returns EVENKEEL_STATUS_BAD_HANDLE if the thread is not in such a scope.
///
/// Threads: only the thread that entered the scope.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_scope_leave(scope: u32) -> EvenkeelStatus {
    caught(|| {
        inside(|inside| {
            let at = inside.iter().rposition(|(entered, _)| *entered == scope).ok_or_else(outside)?;
            drop(inside.remove(at));
            Ok(())
        })
    })
}

/// Writes all rings to `buffer`, as JSON that opens in Perfetto and chrome://tracing. `needed` is the number of bytes, with the zero at the end.
/// Returns EVENKEEL_STATUS_TOO_SMALL if the text does not fit. Threads keep recording meanwhile, so call again with more than `needed`.
/// Returns EVENKEEL_STATUS_NO_DATA if no thread records.
///
/// Threads: any, at any time, but not in a tick, because the call allocates.
///
/// # Safety
/// `buffer` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_scope_chrome_json(
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(needed)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(buffer, size, &scope::recording()?.chrome_json(), needed) }
    })
}

/// Writes all rings as JSON to a file. Creates or replaces the file.
///
/// Threads: any, at any time, but not in a tick, because the call allocates and writes a file.
///
/// # Safety
/// `path` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_scope_write_chrome_json(path: *const c_char) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let path = unsafe { text::text(path) }?;
        std::fs::write(path, scope::recording()?.chrome_json())
            .map_err(|error| Failure::new(EvenkeelStatus::Refused, format_args!("failed to write {path}: {error}")))
    })
}

/// A scope that used the CPU for a long time.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelLongScope {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The scope's name, cut to fit, with a zero at the end.
    pub name: [c_char; 136],
    /// The kernel's id of the thread that ran the scope.
    pub thread: u32,
    /// Always 0.
    pub reserved: u32,
    /// When the scope ended, in nanoseconds of evenkeel_now_ns's clock.
    pub end_ns: u64,
    /// The CPU time of the scope, in nanoseconds. It includes time that a hypervisor took without the kernel's knowledge.
    pub cpu_ns: u64,
}

structs! {
    EvenkeelLongScope { name: [c_char; 136], thread: u32, reserved: u32, end_ns: u64, cpu_ns: u64 }
}

/// The maximum number of long scopes that the log holds. The library counts later scopes without storing them.
const LONG_MAX: usize = 4096;

struct Long {
    scopes: VecDeque<LongScope>,
    lost: u64,
}

static LONG: Mutex<Long> = Mutex::new(Long { scopes: VecDeque::new(), lost: 0 });

/// From now on, logs each innermost scope that uses the CPU for longer than `over_ns` nanoseconds, on threads that record. Allocates the log.
/// Start with half of the quantum if the CPU runs in slices.
/// Each scope then reads the thread's CPU time twice, which takes about 0.7 us, so use this for diagnosis only.
/// Returns EVENKEEL_STATUS_UNSUPPORTED on other systems than Linux.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_scope_log_long(over_ns: u64) -> EvenkeelStatus {
    caught(|| Ok(scope::log_long(Duration::from_nanos(over_ns))?))
}

/// Stops logging. The caller can still take the scopes in the log.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_scope_stop_long() -> EvenkeelStatus {
    caught(|| {
        scope::stop_long();
        Ok(())
    })
}

/// Takes the oldest scope of the log. `lost` is the number of scopes that were lost since the last call because the log was full.
/// Returns EVENKEEL_STATUS_NO_DATA if no scope is left, and sets `lost` in that case too.
///
/// Threads: any, at any time, but not in a tick, because the call takes a lock and allocates.
///
/// # Safety
/// `long_scope` is null or points to a struct prepared by evenkeel_init; `lost` may be written. A null `lost` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_scope_take_long(
    long_scope: *mut EvenkeelLongScope,
    lost: *mut u64,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises. Check first, because a taken scope cannot be put back.
        unsafe { structs::fillable(long_scope) }?;
        structs::puttable(lost)?;
        let mut long = LONG.lock().unwrap_or_else(PoisonError::into_inner);
        let logged = scope::take_long();
        long.lost = long.lost.saturating_add(logged.lost);
        for one in logged.scopes {
            if long.scopes.len() < LONG_MAX {
                long.scopes.push_back(one);
            } else {
                long.lost = long.lost.saturating_add(1);
            }
        }
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(lost, std::mem::take(&mut long.lost)) }?;
        let one = long.scopes.pop_front().ok_or(EvenkeelStatus::NoData)?;
        let mut name = [0; 136];
        // The last byte of the name stays zero.
        for (to, from) in name[..135].iter_mut().zip(one.name.bytes()) {
            *to = from as c_char;
        }
        let LongScope { thread, end_ns, cpu_ns, .. } = one;
        let filled = EvenkeelLongScope { size: 0, version: 0, name, thread, reserved: 0, end_ns, cpu_ns };
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(long_scope, filled) }
    })
}
