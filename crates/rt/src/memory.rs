//! `Memory`: loads pages before a tick touches them, and keeps them in memory.
//! A page fault that reads a disk delays a tick by milliseconds, and the interval between ticks does not show the cause.
//! So `Memory` also counts the faults of each tick.

use std::fmt;
use std::hint::black_box;

use evenkeel_sys::resident::{self, Lock, SwapIns};
use evenkeel_sys::{Errno, Usage};

use crate::telemetry::Faults;
use crate::thread::{ApplyStatus, apply};
use crate::tick::Done;

/// The maximum size of stack that [`Memory`] loads.
pub const STACK_BYTES_MAX: usize = 64 << 20;
/// Stack that stays free below the loaded part, for the calls of this module.
const STACK_SPARE_BYTES: usize = 64 << 10;
const PAGE_BYTES: usize = 4096;
/// Time between two readings of the system's swap counters, in nanoseconds.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// Which pages stay in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryLock {
    /// No pages: the kernel decides which pages it swaps out.
    Nothing,
    /// All memory that is mapped now, loaded at once.
    Present,
    /// All memory that is mapped now or later, loaded at once. This includes the whole stack of every thread.
    All,
    /// All memory that is mapped now or later. Each page stays from its first use on. Unused pages cost no memory.
    #[default]
    AllOnFault,
}

/// Settings of [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Which pages may not be swapped out.
    pub lock: MemoryLock,
    /// Loads this many bytes of the calling thread's stack, up to 64 MiB.
    pub stack_bytes: Option<usize>,
    /// Loads this many bytes for the heap. Makes glibc keep freed memory, in the whole process. Use it if the server allocates later.
    pub heap_bytes: Option<usize>,
}

impl Default for MemoryConfig {
    fn default() -> MemoryConfig {
        MemoryConfig { lock: MemoryLock::default(), stack_bytes: Some(256 << 10), heap_bytes: None }
    }
}

/// Which settings of [`MemoryConfig`] are active. `Display` writes one line.
///
/// ```
/// use evenkeel_rt::memory::{Memory, MemoryConfig, MemoryLock, MemoryReport};
///
/// let config = MemoryConfig { lock: MemoryLock::Nothing, ..MemoryConfig::default() };
/// let report: MemoryReport = Memory::set_up(&config).report();
/// println!("{report}");
/// for advice in report.advice() {
///     eprintln!("{advice}");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// Whether pages that are mapped now stay in memory.
    pub present: ApplyStatus,
    /// Whether pages that are mapped later stay in memory.
    /// If a limit would make later allocations fail, [`Memory`] does not request this.
    pub future: ApplyStatus,
    /// Whether the stack of [`MemoryConfig::stack_bytes`] is loaded.
    pub stack: ApplyStatus,
    /// Whether the heap of [`MemoryConfig::heap_bytes`] is loaded and stays in memory.
    pub heap: ApplyStatus,
    /// How many bytes this process may lock. `None` means no limit.
    pub lock_limit_bytes: Option<u64>,
}

impl MemoryReport {
    /// A line for each setting that was requested and is not active, with what to do. Empty if all requested settings are active.
    pub fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let limit = self.lock_limit_bytes.map_or_else(String::new, |bytes| {
            format!(
                ": the limit on locked memory (RLIMIT_MEMLOCK) is {} KiB; raise it (LimitMEMLOCK=infinity in a systemd unit, memlock in \
                 /etc/security/limits.conf, --ulimit memlock=-1 for a container) or give CAP_IPC_LOCK",
                bytes / 1024
            )
        });
        if let Some(why) = self.present.why_missing() {
            advice.push(format!("memory can be swapped out, {why}{limit}"));
        } else if let Some(why) = self.future.why_missing() {
            advice.push(format!("memory that is mapped from now on can be swapped out, {why}{limit}"));
        }
        if let Some(why) = self.stack.why_missing() {
            advice.push(format!(
                "the stack is not loaded, {why}: start the tick's thread with a larger one, or set a smaller stack_bytes"
            ));
        }
        match self.heap {
            ApplyStatus::NoEffect => advice.push(
                "memory for the heap is loaded and given back: the program's allocator is not glibc's; load what it allocates with \
                 `prefault`"
                    .to_owned(),
            ),
            other => advice.extend(other.why_missing().map(|why| {
                format!("memory for the heap is not loaded, {why}: it needs Linux 5.14, and as much free memory")
            })),
        }
        advice
    }
}

impl fmt::Display for MemoryReport {
    /// Writes one line with all settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryReport { present, future, stack, heap, lock_limit_bytes } = self;
        write!(f, "present pages {present}; later pages {future}; stack {stack}; heap {heap}; RLIMIT_MEMLOCK ")?;
        match lock_limit_bytes {
            Some(bytes) => write!(f, "{} KiB", bytes / 1024),
            None => f.write_str("unlimited"),
        }
    }
}

/// Memory could not be loaded.
///
/// ```
/// use evenkeel_rt::memory::{MemoryError, prefault};
///
/// if let Err(MemoryError { errno }) = prefault(&mut vec![0; 4096]) {
///     eprintln!("before Linux 5.14, or without free memory: {errno}");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to load pages into memory: {errno}")]
pub struct MemoryError {
    /// `EINVAL` before Linux 5.14; `ENOMEM` if there is no room.
    pub errno: Errno,
}

/// Page faults of a tick.
///
/// ```
/// use evenkeel_rt::memory::{Memory, MemoryConfig, TickMemory};
/// # let mut clock = evenkeel_rt::TickClock::start(evenkeel_rt::TickSettings::default())?;
/// # let mut memory = Memory::set_up(&MemoryConfig { lock: evenkeel_rt::memory::MemoryLock::Nothing, ..MemoryConfig::default() });
///
/// clock.wait();
/// let done = clock.done().expect("a tick has begun");
/// let TickMemory { faults, swapped_in } = memory.after(&done);
/// println!("{faults:?}, {swapped_in:?} pages from swap");
/// # Ok::<(), evenkeel_rt::TickError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickMemory {
    /// Page faults of the tick's thread since the previous tick ended.
    pub faults: Option<Faults>,
    /// Pages that the whole system read back from swap since the start; updated once a second.
    pub swapped_in: Option<u64>,
}

/// Applies [`MemoryConfig`], and counts page faults. Use it on the tick's thread.
///
/// ```
/// use evenkeel_rt::memory::{Memory, MemoryConfig};
/// use evenkeel_rt::{TickClock, TickSettings};
/// # use std::time::Duration;
///
/// let mut memory = Memory::set_up(&MemoryConfig::default());
/// for advice in memory.report().advice() {
///     eprintln!("{advice}");
/// }
/// let mut clock = TickClock::start(TickSettings { period: Duration::from_millis(2), ..TickSettings::default() })?;
/// clock.wait();
/// let done = clock.done().expect("it was waited for");
/// let tick = memory.after(&done);
/// println!("{:?}", tick.faults); // for `Telemetry::set_faults`
/// # Ok::<(), evenkeel_rt::TickError>(())
/// ```
#[derive(Debug)]
pub struct Memory {
    report: MemoryReport,
    last: Option<Usage>,
    swap: Option<SwapIns>,
    swapped_in_before: u64,
    swapped_in: Option<u64>,
    looked_ns: u64,
}

impl Memory {
    /// Applies the settings, to the process (locks, heap) and to the calling thread (stack).
    pub fn set_up(config: &MemoryConfig) -> Memory {
        let lock_limit_bytes = resident::lock_limit_bytes();
        let (present, future) = locked(config.lock, lock_limit_bytes);
        let stack = apply(config.stack_bytes, |bytes| {
            let left = resident::stack_left_bytes()?;
            if bytes > STACK_BYTES_MAX || bytes.saturating_add(STACK_SPARE_BYTES) > left {
                return Err(Errno::NOMEM);
            }
            touch_stack(bytes.div_ceil(PAGE_BYTES));
            Ok(true)
        });
        let heap = apply(config.heap_bytes, |bytes| {
            resident::keep_freed_memory()?;
            is_kept(bytes)
        });
        let swap = SwapIns::open().ok();
        let pages = swap.as_ref().and_then(|swap| swap.pages().ok());
        Memory {
            report: MemoryReport { present, future, stack, heap, lock_limit_bytes },
            last: Usage::of_this_thread().ok(),
            swap,
            swapped_in_before: pages.unwrap_or(0),
            swapped_in: pages.map(|_| 0),
            looked_ns: 0,
        }
    }

    /// Which settings of [`MemoryConfig`] are active. `Display` writes one line.
    pub fn report(&self) -> MemoryReport {
        self.report
    }

    /// Returns the faults of this thread since the previous tick ended. Takes one system call, about 0.3 us. Once a second it also reads a file.
    pub fn after(&mut self, done: &Done) -> TickMemory {
        let now = Usage::of_this_thread().ok();
        let made = now.zip(self.last).map(|(now, last)| now.since(&last));
        self.last = now;
        if done.done_ns.saturating_sub(self.looked_ns) >= LOOK_EVERY_NS {
            self.looked_ns = done.done_ns;
            let pages = self.swap.as_ref().and_then(|swap| swap.pages().ok());
            self.swapped_in = pages.map(|pages| pages.saturating_sub(self.swapped_in_before));
        }
        let faults = made.map(|made| Faults { minor: made.minor_faults, major: made.major_faults });
        TickMemory { faults, swapped_in: self.swapped_in }
    }
}

/// Loads the pages of memory that ticks will write to. The contents of the memory do not change.
///
/// ```
/// use evenkeel_rt::memory::{prefault, prefault_capacity};
///
/// let mut buffer = vec![0; 1 << 20];
/// if let Err(error) = prefault(&mut buffer) {
///     eprintln!("{error}"); // before Linux 5.14
/// }
/// let mut events: Vec<u64> = Vec::with_capacity(10_000);
/// let _ = prefault_capacity(&mut events);
/// ```
///
/// # Errors
/// If the kernel is older than Linux 5.14, or memory is full.
pub fn prefault(memory: &mut [u8]) -> Result<(), MemoryError> {
    resident::populate(memory).map_err(|errno| MemoryError { errno })
}

/// Loads the pages of a vector's free capacity, so that pushes in ticks cause no page faults.
///
/// # Errors
/// The same errors as [`prefault`].
pub fn prefault_capacity<T>(vector: &mut Vec<T>) -> Result<(), MemoryError> {
    resident::populate_capacity(vector).map_err(|errno| MemoryError { errno })
}

/// Locks the process's memory. With a limit, a later mapping beyond the limit would fail, and so would an allocation in a tick.
/// So if there is a limit on locked memory, we lock only the present pages.
fn locked(lock: MemoryLock, limit_bytes: Option<u64>) -> (ApplyStatus, ApplyStatus) {
    let which = match (lock, limit_bytes) {
        (MemoryLock::Nothing, _) => return (ApplyStatus::NotRequested, ApplyStatus::NotRequested),
        (MemoryLock::Present, _) | (MemoryLock::All, Some(_)) => Lock::Present,
        (MemoryLock::All, None) => Lock::PresentAndFuture,
        (MemoryLock::AllOnFault, Some(_)) => Lock::PresentOnFault,
        (MemoryLock::AllOnFault, None) => Lock::PresentAndFutureOnFault,
    };
    let present = apply(Some(which), |which| {
        resident::lock(which)?;
        Ok(resident::locked_kib()? > 0)
    });
    let future = match (lock, limit_bytes) {
        (MemoryLock::Present, _) => ApplyStatus::NotRequested,
        (_, Some(_)) => ApplyStatus::Refused(Errno::NOMEM),
        _ => present,
    };
    (present, future)
}

/// Writes to each page of the stack, downwards.
#[inline(never)]
fn touch_stack(pages: usize) {
    let mut page = [0_u8; PAGE_BYTES];
    black_box(&mut page);
    if pages > 1 {
        touch_stack(pages - 1);
    }
    // The page is used after the call, so that the compiler gives each call its own page.
    black_box(&mut page);
}

/// Allocates memory, loads its pages, frees it and allocates as much again. Returns whether the pages are still loaded.
fn is_kept(bytes: usize) -> Result<bool, Errno> {
    let take = || {
        let mut room: Vec<u8> = Vec::new();
        room.try_reserve_exact(bytes).map_err(|_| Errno::NOMEM)?;
        Ok::<_, Errno>(room)
    };
    let mut room = take()?;
    resident::populate_capacity(&mut room)?;
    drop(black_box(room));
    let before = Usage::of_this_thread()?;
    let mut room = take()?;
    // Writes ones instead of taking fresh zero pages, because an allocation in a tick writes too.
    room.resize(bytes, 1);
    black_box(&mut room);
    let faults = Usage::of_this_thread()?.since(&before).minor_faults;
    Ok(faults < (bytes / PAGE_BYTES / 4).max(8) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::Tick;

    #[cfg(target_os = "linux")]
    fn after(memory: &mut Memory, at_ns: u64) -> TickMemory {
        memory.after(&Done { tick: Tick { number: 0, due_ns: at_ns, began_ns: at_ns, missed: 0 }, done_ns: at_ns })
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_tick_knows_its_faults() {
        let config = MemoryConfig { lock: MemoryLock::Nothing, stack_bytes: None, heap_bytes: None };
        let mut memory = Memory::set_up(&config);
        after(&mut memory, 1);
        let mut room: Vec<u8> = Vec::with_capacity(8 << 20);
        room.resize(8 << 20, 1);
        black_box(&mut room);
        let with = after(&mut memory, 2).faults.unwrap();
        // With huge pages, two thousand faults may become four.
        assert!(with.minor >= 4, "{with:?}");
        let mut quiet = (0..20).map(|at| after(&mut memory, 3 + at).faults.unwrap());
        assert!(quiet.any(|faults| faults == Faults::default()), "a tick that touches nothing new has none");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_stack_is_loaded() {
        let body = |bytes: usize| {
            move || {
                let config = MemoryConfig { lock: MemoryLock::Nothing, stack_bytes: Some(bytes), heap_bytes: None };
                let mut memory = Memory::set_up(&config);
                after(&mut memory, 1);
                touch_stack(100);
                (memory.report(), after(&mut memory, 2).faults.unwrap())
            }
        };
        let on_a_thread =
            |bytes| std::thread::Builder::new().stack_size(2 << 20).spawn(body(bytes)).unwrap().join().unwrap();
        let (report, faults) = on_a_thread(1 << 20);
        assert_eq!(report.stack, ApplyStatus::Active);
        assert!(faults.minor < 10, "{faults:?}");
        let (report, faults) = on_a_thread(4 << 20);
        assert_eq!(report.stack, ApplyStatus::Refused(Errno::NOMEM));
        assert!(faults.minor > 20, "the counter is too low: {faults:?}");
        let advice = "the stack is not loaded, out of memory (ENOMEM): start the tick's thread with a larger one, or set a smaller stack_bytes";
        assert_eq!(report.advice(), [advice]);
    }

    #[test]
    fn advice_says_what_to_do() {
        let fine = MemoryReport {
            present: ApplyStatus::Active,
            future: ApplyStatus::Active,
            stack: ApplyStatus::NotRequested,
            heap: ApplyStatus::Active,
            lock_limit_bytes: None,
        };
        assert_eq!(fine.advice(), Vec::<String>::new());
        let line =
            "present pages active; later pages active; stack not requested; heap active; RLIMIT_MEMLOCK unlimited";
        assert_eq!(fine.to_string(), line);
        let limited =
            MemoryReport { future: ApplyStatus::Refused(Errno::NOMEM), lock_limit_bytes: Some(8 << 20), ..fine };
        assert_eq!(
            limited.advice(),
            [
                "memory that is mapped from now on can be swapped out, out of memory (ENOMEM): the limit on locked memory (RLIMIT_MEMLOCK) is \
             8192 KiB; raise it (LimitMEMLOCK=infinity in a systemd unit, memlock in /etc/security/limits.conf, --ulimit memlock=-1 for a \
             container) or give CAP_IPC_LOCK"
            ]
        );
        let forbidden =
            MemoryReport { present: ApplyStatus::Refused(Errno::PERM), lock_limit_bytes: Some(0), ..limited };
        let advice = forbidden.advice();
        assert!(
            advice.len() == 1 && advice[0].starts_with("memory can be swapped out, operation not permitted (EPERM): ")
        );
        assert_eq!(MemoryReport { heap: ApplyStatus::NoEffect, ..fine }.advice().len(), 1);
    }
}
