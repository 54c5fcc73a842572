//! `Memory`: pages are there before a tick touches them, and stay. A fault that a disk is needed for holds a tick up for milliseconds, and
//! the interval between ticks shows nothing but a hole: so faults are counted by tick.

use std::hint::black_box;

use evenkeel_sys::resident::{self, Lock, SwapIns};
use evenkeel_sys::{Errno, Usage};

use crate::telemetry::Faults;
use crate::thread::{ApplyStatus, asked};
use crate::tick::Done;

/// The most stack that is brought in.
pub const STACK_BYTES_MAX: usize = 64 << 20;
/// So much of the stack stays free below what is brought in: for what is called until then.
const STACK_SPARE_BYTES: usize = 64 << 10;
const PAGE_BYTES: usize = 4096;
/// From one look at the system's swap to the next, in nanoseconds.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// What stays in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryLock {
    /// What the kernel likes.
    Nothing,
    /// All that is mapped now, brought in at once.
    Present,
    /// All that is mapped now or later, brought in at once: every thread's whole stack, too.
    All,
    /// All that is mapped now or later, each page from its first touch on: costs no memory that is not used.
    #[default]
    AllOnFault,
}

/// What to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// What may not be swapped out.
    pub lock: MemoryLock,
    /// Brings in so many bytes of the calling thread's stack, up to 64 MiB.
    pub stack_bytes: Option<usize>,
    /// Brings in so many bytes for the heap, and has glibc keep what is freed, which holds for the whole process: for servers that allocate
    /// later on.
    pub heap_bytes: Option<usize>,
}

impl Default for MemoryConfig {
    fn default() -> MemoryConfig {
        MemoryConfig { lock: MemoryLock::default(), stack_bytes: Some(256 << 10), heap_bytes: None }
    }
}

/// What became of each wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// What is mapped now stays.
    pub present: ApplyStatus,
    /// What is mapped later stays. Not asked of the kernel where a limit would make later allocations fail.
    pub future: ApplyStatus,
    /// [`MemoryConfig::stack_bytes`].
    pub stack: ApplyStatus,
    /// [`MemoryConfig::heap_bytes`].
    pub heap: ApplyStatus,
    /// How many bytes this process may lock; none where nothing limits it.
    pub lock_limit_bytes: Option<u64>,
}

impl MemoryReport {
    /// For each wish that did not come true what that was, and what to do about it; empty where all is well.
    pub fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let limit = self.lock_limit_bytes.map_or_else(String::new, |bytes| {
            format!(
                ": the limit on locked memory (RLIMIT_MEMLOCK) is {} KiB; raise it (LimitMEMLOCK=infinity in a systemd unit, memlock in \
                 /etc/security/limits.conf, --ulimit memlock=-1 for a container) or give CAP_IPC_LOCK",
                bytes / 1024
            )
        });
        if let Some(why) = missed(self.present) {
            advice.push(format!("memory can be swapped out, {why}{limit}"));
        } else if let Some(why) = missed(self.future) {
            advice.push(format!("memory that is mapped from now on can be swapped out, {why}{limit}"));
        }
        if let Some(why) = missed(self.stack) {
            advice.push(format!(
                "the stack is not brought in, {why}: start the tick's thread with a larger one, or wish for less"
            ));
        }
        match self.heap {
            ApplyStatus::NoEffect => advice.push(
                "memory for the heap is brought in and given back: the program's allocator is not glibc's; bring in what it allocates by \
                 `prefault`"
                    .to_owned(),
            ),
            other => advice.extend(missed(other).map(|why| {
                format!("memory for the heap is not brought in, {why}: it takes Linux 5.14, and as much free memory")
            })),
        }
        advice
    }
}

fn missed(got: ApplyStatus) -> Option<String> {
    match got {
        ApplyStatus::Refused(errno) => Some(errno.to_string()),
        ApplyStatus::NoEffect => Some("though the kernel took the call".to_owned()),
        ApplyStatus::NotRequested | ApplyStatus::Active | ApplyStatus::Suspended => None,
    }
}

/// What a tick cost in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickMemory {
    /// Page faults of the tick's thread since the tick before was done.
    pub faults: Option<Faults>,
    /// Pages that the whole system read back from swap since the start; brought up to date once a second.
    pub swapped_in: Option<u64>,
}

/// Memory that was set up, and the count of its faults. Use it on the tick's thread.
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
/// let mut clock = TickClock::start(TickSettings { period: Duration::from_millis(2), ..TickSettings::default() });
/// clock.wait();
/// let done = clock.done().expect("it was waited for");
/// let tick = memory.after(&done);
/// println!("{:?}", tick.faults); // for `Telemetry::set_faults`
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
    /// Does what can be done of the wishes, for the process (locks, heap) and for the calling thread (stack).
    pub fn set_up(wishes: &MemoryConfig) -> Memory {
        let lock_limit_bytes = resident::lock_limit_bytes();
        let (present, future) = locked(wishes.lock, lock_limit_bytes);
        let stack = asked(wishes.stack_bytes, |bytes| {
            let left = resident::stack_left_bytes()?;
            if bytes > STACK_BYTES_MAX || bytes.saturating_add(STACK_SPARE_BYTES) > left {
                return Err(Errno::NOMEM);
            }
            touch_stack(bytes.div_ceil(PAGE_BYTES));
            Ok(true)
        });
        let heap = asked(wishes.heap_bytes, |bytes| {
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

    /// What became of each wish.
    pub fn report(&self) -> MemoryReport {
        self.report
    }

    /// What this thread's faults came to since the last tick was done: one system call, about 0.3 us, and once a second one file more.
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

/// Brings in the pages of some memory that a tick will write to, and changes nothing in it.
///
/// # Errors
/// `EINVAL` before Linux 5.14; `ENOMEM` if there is no room.
pub fn prefault(memory: &mut [u8]) -> Result<(), Errno> {
    resident::populate(memory)
}

/// Brings in the pages that a vector has room in: for what ticks will push into it.
///
/// # Errors
/// As [`prefault`].
pub fn prefault_capacity<T>(vector: &mut Vec<T>) -> Result<(), Errno> {
    resident::populate_capacity(vector)
}

/// With a limit, later mappings beyond it would not be unlocked but fail: allocations, in the middle of a tick. So only what is there is
/// locked then.
fn locked(wish: MemoryLock, limit_bytes: Option<u64>) -> (ApplyStatus, ApplyStatus) {
    let which = match (wish, limit_bytes) {
        (MemoryLock::Nothing, _) => return (ApplyStatus::NotRequested, ApplyStatus::NotRequested),
        (MemoryLock::Present, _) | (MemoryLock::All, Some(_)) => Lock::Present,
        (MemoryLock::All, None) => Lock::PresentAndFuture,
        (MemoryLock::AllOnFault, Some(_)) => Lock::PresentOnFault,
        (MemoryLock::AllOnFault, None) => Lock::PresentAndFutureOnFault,
    };
    let present = asked(Some(which), |which| {
        resident::lock(which)?;
        Ok(resident::locked_kib()? > 0)
    });
    let future = match (wish, limit_bytes) {
        (MemoryLock::Present, _) => ApplyStatus::NotRequested,
        (_, Some(_)) => ApplyStatus::Refused(Errno::NOMEM),
        _ => present,
    };
    (present, future)
}

/// Goes down the stack a page at a time, and writes to each.
#[inline(never)]
fn touch_stack(pages: usize) {
    let mut page = [0_u8; PAGE_BYTES];
    black_box(&mut page);
    if pages > 1 {
        touch_stack(pages - 1);
    }
    // Used after the call, so that each call has a page of its own.
    black_box(&mut page);
}

/// Takes memory, brings it in, frees it and takes it again: whether it is still there then.
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
    // Zeros are written, not asked of the kernel: this is what an allocation in a tick does.
    room.resize(bytes, 1);
    black_box(&mut room);
    let faults = Usage::of_this_thread()?.since(&before).minor_faults;
    Ok(faults < (bytes / PAGE_BYTES / 4).max(8) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tick;

    fn after(memory: &mut Memory, at_ns: u64) -> TickMemory {
        memory.after(&Done { tick: Tick { number: 0, due_ns: at_ns, began_ns: at_ns, missed: 0 }, done_ns: at_ns })
    }

    #[test]
    fn a_tick_knows_its_faults() {
        let wishes = MemoryConfig { lock: MemoryLock::Nothing, stack_bytes: None, heap_bytes: None };
        let mut memory = Memory::set_up(&wishes);
        after(&mut memory, 1);
        let mut room: Vec<u8> = Vec::with_capacity(8 << 20);
        room.resize(8 << 20, 1);
        black_box(&mut room);
        let with = after(&mut memory, 2).faults.unwrap();
        // Huge pages may make four faults of two thousand.
        assert!(with.minor >= 4, "{with:?}");
        let mut quiet = (0..20).map(|at| after(&mut memory, 3 + at).faults.unwrap());
        assert!(quiet.any(|faults| faults == Faults::default()), "a tick that touches nothing new has none");
    }

    #[test]
    fn a_stack_is_brought_in() {
        let body = |bytes: usize| {
            move || {
                let wishes = MemoryConfig { lock: MemoryLock::Nothing, stack_bytes: Some(bytes), heap_bytes: None };
                let mut memory = Memory::set_up(&wishes);
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
        assert!(faults.minor > 20, "so the count counts: {faults:?}");
        let advice = "the stack is not brought in, out of memory (ENOMEM): start the tick's thread with a larger one, or wish for less";
        assert_eq!(report.advice(), [advice]);
    }

    #[test]
    fn what_is_missing_is_told_with_what_to_do() {
        let fine = MemoryReport {
            present: ApplyStatus::Active,
            future: ApplyStatus::Active,
            stack: ApplyStatus::NotRequested,
            heap: ApplyStatus::Active,
            lock_limit_bytes: None,
        };
        assert_eq!(fine.advice(), Vec::<String>::new());
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
