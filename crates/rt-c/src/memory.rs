//! Memory of a server: keeps pages loaded, so that no tick waits for a page, and counts each tick's page faults.

use std::ffi::{c_char, c_void};

use evenkeel_rt::memory::{self, Memory, MemoryConfig, MemoryLock, MemoryReport};

use crate::clock::EvenkeelClock;
use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle::{self, handles};
use crate::structs::{self, structs};
use crate::thread::{EVENKEEL_DO_NOT_ASK, apply_status};

/// Memory settings that are applied.
#[derive(Debug)]
pub struct EvenkeelMemory(());

handles! { EvenkeelMemory, 256 of Memory; }

/// Which pages stay in memory, in EvenkeelMemoryConfig.lock.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelMemoryLock {
    /// All pages that are mapped now or later. Each page stays from its first use on. Unused pages cost no memory.
    AllOnFault = 0,
    /// No pages: the kernel decides which pages it swaps out.
    Nothing = 1,
    /// All pages that are mapped now, loaded at once.
    Present = 2,
    /// All pages that are mapped now or later, loaded at once. This includes the whole stack of every thread.
    All = 3,
}

/// Memory settings. All zero (EVENKEEL_INIT): EVENKEEL_MEMORY_LOCK_ALL_ON_FAULT, and 256 KiB of stack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelMemoryConfig {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// One of EvenkeelMemoryLock.
    pub lock: u32,
    /// Always 0.
    pub reserved: u32,
    /// Loads this many bytes of the calling thread's stack, up to 64 MiB. 0 means 262,144. EVENKEEL_DO_NOT_ASK means none.
    pub stack_bytes: u64,
    /// Loads this many bytes for the heap, and makes glibc keep freed memory, in the whole process. Use it if the server allocates later.
    /// 0 means none.
    pub heap_bytes: u64,
}

/// Which settings are active: an EvenkeelApplyStatus for each setting. If the kernel refused it, its error number (errno) follows, else 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelMemoryReport {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// Whether pages that are mapped now stay in memory.
    pub present: u32,
    /// The errno of the field above.
    pub present_errno: i32,
    /// Whether pages that are mapped later stay in memory. If a limit would make later allocations fail, the library does not request this.
    pub future: u32,
    /// The errno of the field above.
    pub future_errno: i32,
    /// The status of EvenkeelMemoryConfig.stack_bytes.
    pub stack: u32,
    /// The errno of the field above.
    pub stack_errno: i32,
    /// The status of EvenkeelMemoryConfig.heap_bytes.
    pub heap: u32,
    /// The errno of the field above.
    pub heap_errno: i32,
    /// How many bytes this process may lock. UINT64_MAX means no limit.
    pub lock_limit_bytes: u64,
}

/// Page faults of a tick.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelTickMemory {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// Page faults of the tick's thread without disk access, since the previous tick ended. UINT64_MAX if the kernel does not report them.
    pub minor_faults: u64,
    /// Page faults of the tick's thread that waited for a disk. UINT64_MAX if the kernel does not report them.
    pub major_faults: u64,
    /// Pages that the whole system read back from swap since the start, updated once a second.
    /// UINT64_MAX if the kernel does not report them.
    pub swapped_in: u64,
}

structs! {
    EvenkeelMemoryConfig { lock: u32, reserved: u32, stack_bytes: u64, heap_bytes: u64 }
    EvenkeelMemoryReport {
        present: u32, present_errno: i32, future: u32, future_errno: i32, stack: u32, stack_errno: i32, heap: u32, heap_errno: i32,
        lock_limit_bytes: u64,
    }
    EvenkeelTickMemory { minor_faults: u64, major_faults: u64, swapped_in: u64 }
}

pub(crate) fn memory_config(asked: EvenkeelMemoryConfig) -> Result<MemoryConfig, Failure> {
    const LOCKS: [(EvenkeelMemoryLock, MemoryLock); 4] = [
        (EvenkeelMemoryLock::AllOnFault, MemoryLock::AllOnFault),
        (EvenkeelMemoryLock::Nothing, MemoryLock::Nothing),
        (EvenkeelMemoryLock::Present, MemoryLock::Present),
        (EvenkeelMemoryLock::All, MemoryLock::All),
    ];
    if asked.reserved != 0 {
        return Err(EvenkeelStatus::UnknownField.into());
    }
    let lock = LOCKS.iter().find(|(number, _)| *number as u32 == asked.lock).map(|(_, lock)| *lock);
    let lock = lock.ok_or_else(|| {
        Failure::new(EvenkeelStatus::OutOfRange, format_args!("no way to lock memory has the number {}", asked.lock))
    })?;
    let bytes = |bytes: u64| {
        usize::try_from(bytes)
            .map_err(|_| Failure::new(EvenkeelStatus::OutOfRange, format_args!("{bytes} bytes of memory")))
    };
    let stack_bytes = match asked.stack_bytes {
        0 => MemoryConfig::default().stack_bytes,
        EVENKEEL_DO_NOT_ASK => None,
        some => Some(bytes(some)?),
    };
    let heap_bytes = if asked.heap_bytes == 0 { None } else { Some(bytes(asked.heap_bytes)?) };
    Ok(MemoryConfig { lock, stack_bytes, heap_bytes })
}

/// Applies the settings, to the process (lock, heap) and to the calling thread (stack).
/// A setting that the kernel refuses is not an error: the report lists it.
///
/// Threads: only the thread that ticks, before its first tick. Free the handle with evenkeel_memory_free.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init; `memory` may be written. A null `memory` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_memory_new(
    asked: *const EvenkeelMemoryConfig,
    memory: *mut *mut EvenkeelMemory,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let config = memory_config(unsafe { structs::get(asked) }?)?;
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(memory, || Ok(Memory::set_up(&config))) }
    })
}

/// Returns which settings are active.
///
/// Threads: one at a time.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_memory_report(
    memory: *mut EvenkeelMemory,
    report: *mut EvenkeelMemoryReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::alone(memory, |memory| Ok(memory.report()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, filled(found)) }
    })
}

pub(crate) fn filled(found: MemoryReport) -> EvenkeelMemoryReport {
    let [(present, present_errno), (future, future_errno)] = [found.present, found.future].map(apply_status);
    let [(stack, stack_errno), (heap, heap_errno)] = [found.stack, found.heap].map(apply_status);
    EvenkeelMemoryReport {
        size: 0,
        version: 0,
        present,
        present_errno,
        future,
        future_errno,
        stack,
        stack_errno,
        heap,
        heap_errno,
        lock_limit_bytes: found.lock_limit_bytes.unwrap_or(u64::MAX),
    }
}

/// Writes to `buffer` a line for each setting that is not active, with what to do. The text is empty if all requested settings are active.
/// `needed` is the number of bytes, with the zero at the end. Returns EVENKEEL_STATUS_TOO_SMALL if the text does not fit.
///
/// Threads: one at a time. Allocates memory: do not call it in a tick.
///
/// # Safety
/// `buffer` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_memory_advice(
    memory: *mut EvenkeelMemory,
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(needed)?;
        let advice = handle::alone(memory, |memory| Ok(memory.report().advice().join("\n")))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(buffer, size, &advice, needed) }
    })
}

/// Writes the page faults of the last tick to `tick`. Call this function after each evenkeel_clock_done.
/// A call costs one system call (about 0.3 us), and once a second it reads a file. Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
///
/// Threads: only the thread that ticks.
///
/// # Safety
/// `tick` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_memory_after(
    memory: *mut EvenkeelMemory,
    clock: *mut EvenkeelClock,
    tick: *mut EvenkeelTickMemory,
) -> EvenkeelStatus {
    caught(|| {
        let done = handle::alone(clock, |clock| clock.last.ok_or_else(|| EvenkeelStatus::NoData.into()))?;
        let seen = handle::alone(memory, |memory| Ok(memory.after(&done)))?;
        let filled = EvenkeelTickMemory {
            size: 0,
            version: 0,
            minor_faults: seen.faults.map_or(u64::MAX, |faults| faults.minor),
            major_faults: seen.faults.map_or(u64::MAX, |faults| faults.major),
            swapped_in: seen.swapped_in.unwrap_or(u64::MAX),
        };
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(tick, filled) }
    })
}

/// Loads the pages of memory that ticks will write to. The contents of the memory do not change.
/// Returns EVENKEEL_STATUS_REFUSED if the kernel is older than Linux 5.14, or memory is full.
///
/// Threads: any, while no other thread writes to this memory.
///
/// # Safety
/// `memory` is null or points to `bytes` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_memory_prefault(memory: *mut c_void, bytes: usize) -> EvenkeelStatus {
    caught(|| {
        if memory.is_null() {
            return Err(Failure::new(EvenkeelStatus::NullPointer, "the pointer to the memory is null"));
        }
        if bytes > isize::MAX.unsigned_abs() {
            return Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("{bytes} bytes of memory")));
        }
        // SAFETY: as this function's caller promises. Bytes need no alignment, and the length is at most that of a slice.
        let memory = unsafe { std::slice::from_raw_parts_mut(memory.cast::<u8>(), bytes) };
        memory::prefault(memory).map_err(|error| Failure::new(EvenkeelStatus::Refused, error))
    })
}

/// Frees the handle. Locked pages stay locked.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_memory_free(memory: *mut EvenkeelMemory) -> EvenkeelStatus {
    caught(|| handle::take(memory).map(drop))
}
