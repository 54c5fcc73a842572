//! The C ABI of `evenkeel-rt`. Generators make `include/evenkeel_rt.h` and `csharp/EvenkeelRt.cs` from this source, and a test compares them.
//! So callers read the comments of these functions.
//!
//! **Nothing unwinds into C.** Every function is a `caught` closure.
//! A panic becomes [`Panicked`](EvenkeelStatus::Panicked), and from then on the handle of that call returns this status.
//! If the library aborted instead, a fault in one session would end the server with all sessions.
//! So the profile `rt-c`, which `make install-rt` uses, unwinds, while the program's own profile aborts.
//!
//! **Handles are never dereferenced.** The `EvenkeelClock *` in C is a number (see `handle`).
//! A handle that was freed, has another kind, or never existed is an error. A second thread in the same clock is an error too.
//! The library checks other pointers as far as possible: null and misaligned pointers are errors, and so are structs without a size.
//!
//! **Structs grow.** Each struct begins with its size and version (see `structs`).
//! In an older caller's shorter struct, missing fields count as zero, which means the default.
//! In a newer caller's longer struct, the size shows how much was filled.

mod agones;
mod clock;
mod failure;
mod failure_text;
mod handle;
mod holder;
mod jobs;
mod lock;
mod memory;
mod phases;
mod quantum;
mod rate;
mod scope;
mod structs;
mod telemetry;
mod text;
mod thread;
mod tick_loop;
mod udp;
mod waits;

use std::ffi::{c_char, c_void};

pub use agones::*;
pub use clock::*;
pub use failure::{EvenkeelStatus, evenkeel_status_text};
pub use failure_text::evenkeel_last_error;
pub use jobs::*;
pub use lock::*;
pub use memory::*;
pub use phases::*;
pub use quantum::*;
pub use rate::*;
pub use scope::*;
pub use structs::EVENKEEL_ABI_VERSION;
pub use telemetry::*;
pub use thread::*;
pub use tick_loop::*;
pub use udp::*;
pub use waits::*;

use failure::caught;

/// The library's version, such as "0.1.0".
///
/// Threads: any, at any time. The text lives as long as the library is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The ABI version of the running library. EVENKEEL_ABI_VERSION is the ABI version of the header that the program was compiled with.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_abi_version() -> u32 {
    EVENKEEL_ABI_VERSION
}

/// Prepares a struct: sets its size and version, and sets all other fields to zero, which means the defaults.
/// EVENKEEL_INIT(&structure) calls this function with the right size.
///
/// Threads: any. The caller owns the struct.
///
/// # Safety
/// `structure` is null or points to `size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_init(structure: *mut c_void, size: usize) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        unsafe { structs::init(structure, size) }
    })
}

/// Writes the time of the monotonic clock (CLOCK_MONOTONIC) to `now_ns`, in nanoseconds. All times of this library are times of this clock.
///
/// Threads: any, at any time.
///
/// # Safety
/// `now_ns` may be written. A null `now_ns` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_now_ns(now_ns: *mut u64) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(now_ns, evenkeel_rt::monotonic_ns()) }
    })
}
