//! Memory that is present when needed: its pages are faulted in beforehand and locked against swapping.
//! The module also counts pages that the system still reads back from swap.

use std::ffi::c_void;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::ptr;

use rustix::mm::{Advice, MapFlags, MlockAllFlags, MlockFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use crate::errno::Errno;

/// The maximum number of bytes of /proc/vmstat to read. The file has some 5 KiB.
const VMSTAT_BYTES_MAX: usize = 16 << 10;

/// The pages of the process that stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// All current mappings. Each page is faulted in.
    Present,
    /// Current and future mappings, including thread stacks. Each mapping is faulted in completely.
    PresentAndFuture,
    /// Current mappings, each page after its first use.
    PresentOnFault,
    /// Current and future mappings, each page after its first use.
    PresentAndFutureOnFault,
}

/// Locks the process's memory (`mlockall`).
///
/// # Errors
/// `EPERM` if this user may not lock memory; `ENOMEM` if the user may not lock that much; `EINVAL` before Linux 4.4.
pub fn lock(which: Lock) -> Result<(), Errno> {
    let flags = match which {
        Lock::Present => MlockAllFlags::CURRENT,
        Lock::PresentAndFuture => MlockAllFlags::CURRENT | MlockAllFlags::FUTURE,
        Lock::PresentOnFault => MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT,
        Lock::PresentAndFutureOnFault => MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT,
    };
    Ok(rustix::mm::mlockall(flags)?)
}

/// Allows the system to swap all memory of the process again.
///
/// # Errors
/// The kernel's error; no case is known.
pub fn unlock() -> Result<(), Errno> {
    Ok(rustix::mm::munlockall()?)
}

/// How many bytes this process may lock (`RLIMIT_MEMLOCK`).
/// `None` if there is no limit, or if a capability overrides the limit (`CAP_IPC_LOCK`).
/// A container may show that capability without having it, so this function tries to lock more than the limit.
pub fn lock_limit_bytes() -> Option<u64> {
    let limit_bytes = getrlimit(Resource::Memlock).current?;
    (!is_lockable(limit_bytes)).then_some(limit_bytes)
}

/// Tries to lock more than the limit, at addresses that have no pages.
fn is_lockable(limit_bytes: u64) -> bool {
    let Some(more) = usize::try_from(limit_bytes).ok().and_then(|bytes| bytes.checked_add(64 << 10)) else {
        return false;
    };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses an unused address. No other code knows the mapping, and this function removes it.
    unsafe {
        let Ok(start) = rustix::mm::mmap_anonymous(ptr::null_mut(), more, ProtFlags::READ, flags) else { return false };
        let is_locked = rustix::mm::mlock_with(start, more, MlockFlags::ONFAULT).is_ok();
        let _ = rustix::mm::munmap(start, more);
        is_locked
    }
}

/// How much of the process's memory is locked, in KiB.
///
/// # Errors
/// The kernel's error; `EINVAL` if the kernel does not report the value.
pub fn locked_kib() -> Result<u64, Errno> {
    let text = std::fs::read_to_string("/proc/self/status").map_err(|error| Errno::from(&error))?;
    parse_locked_kib(&text).ok_or(Errno::INVAL)
}

/// Parses the line `VmLck: 123 kB` of /proc/PID/status.
pub fn parse_locked_kib(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmLck:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Faults in the pages of some memory for writing, without changing its contents.
///
/// # Errors
/// `EINVAL` before Linux 5.14; `ENOMEM` if there is not enough memory.
pub fn populate(memory: &mut [u8]) -> Result<(), Errno> {
    populate_range(memory.as_mut_ptr().addr(), memory.len())
}

/// Faults in the pages of a vector's capacity.
///
/// # Errors
/// The same errors as [`populate`].
pub fn populate_capacity<T>(vector: &mut Vec<T>) -> Result<(), Errno> {
    populate_range(vector.as_mut_ptr().addr(), vector.capacity().saturating_mul(size_of::<T>()))
}

fn populate_range(start: usize, bytes: usize) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    let page = rustix::param::page_size();
    let first = start / page * page;
    let end = start.saturating_add(bytes).next_multiple_of(page);
    let address = ptr::without_provenance_mut::<c_void>(first);
    // SAFETY: the range consists of pages of memory that the caller has exclusively.
    // The kernel faults pages in as a write would, and changes nothing in them. This also holds for other data in the first and the last page.
    Ok(unsafe { rustix::mm::madvise(address, end - first, Advice::LinuxPopulateWrite) }?)
}

/// How many bytes the calling thread's stack may still grow. The main thread's stack may grow up to its limit.
///
/// # Errors
/// The C library's error for the thread.
pub fn stack_left_bytes() -> Result<usize, Errno> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::zeroed();
    // SAFETY: the C library fills in the attributes of the calling thread, and returns an error number.
    let failed = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
    if failed != 0 {
        return Err(Errno::from_raw(failed));
    }
    let (mut lowest, mut size) = (ptr::null_mut::<c_void>(), 0);
    // SAFETY: the call above filled in the attributes. This block reads them, and destroys them once.
    let failed = unsafe {
        let failed = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        failed
    };
    if failed != 0 {
        return Err(Errno::from_raw(failed));
    }
    let here = 0_u8;
    Ok((&raw const here).addr().saturating_sub(lowest.addr()))
}

/// Makes glibc's allocator keep freed memory rather than return it to the kernel, and serve large allocations from it.
/// The setting applies to the whole process. With another C library this function returns `EOPNOTSUPP`.
///
/// # Errors
/// `EINVAL` if the allocator refused.
pub fn keep_freed_memory() -> Result<(), Errno> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the allocator applies both settings under its own lock. -1 is the largest threshold.
        let taken =
            unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, -1) == 1 && libc::mallopt(libc::M_MMAP_MAX, 0) == 1 };
        if taken { Ok(()) } else { Err(Errno::INVAL) }
    }
    #[cfg(not(target_env = "gnu"))]
    Err(Errno::OPNOTSUPP)
}

/// Counts pages that the whole system reads back from swap, from a file that stays open.
#[derive(Debug)]
pub struct SwapIns {
    file: File,
}

impl SwapIns {
    /// Opens the count.
    ///
    /// # Errors
    /// The kernel's error; `EINVAL` if the kernel was built without swap.
    pub fn open() -> Result<SwapIns, Errno> {
        let counts = SwapIns { file: File::open("/proc/vmstat").map_err(|error| Errno::from(&error))? };
        counts.pages()?;
        Ok(counts)
    }

    /// The number of pages since boot. A call takes some tens of microseconds, so call it about once a second.
    ///
    /// # Errors
    /// The same errors as [`SwapIns::open`].
    pub fn pages(&self) -> Result<u64, Errno> {
        let mut bytes = [0; VMSTAT_BYTES_MAX];
        let length = self.file.read_at(&mut bytes, 0).map_err(|error| Errno::from(&error))?;
        let text = std::str::from_utf8(&bytes[..length]).map_err(|_| Errno::ILSEQ)?;
        parse_swapped_in(text).ok_or(Errno::INVAL)
    }
}

/// Parses the line `pswpin 123` of /proc/vmstat.
pub fn parse_swapped_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("pswpin "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Usage;

    #[test]
    fn counts_are_read() {
        let status = "Name:\tVmLck: 5 kB\nVmPin:\t       0 kB\nVmLck:\t     1234 kB\n";
        assert_eq!(parse_locked_kib(status), Some(1234));
        for odd in ["", "VmLck:", "VmLck:\t12", "VmLck:\t-1 kB", "VmLck:\t99999999999999999999 kB"] {
            assert_eq!(parse_locked_kib(odd), None, "{odd}");
        }
        assert_eq!(parse_swapped_in("pswpout 3\npswpin 77\n"), Some(77));
        for odd in ["", "pswpin", "pswpin x", "pswpins 4"] {
            assert_eq!(parse_swapped_in(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(VmLck:|pswpin |kB|[0-9 \n\t-]|\\PC){0,40}") {
            let _ = (parse_locked_kib(&text), parse_swapped_in(&text));
        }
    }

    #[test]
    fn populated_pages_cause_no_faults() {
        const TRIES: usize = 20;
        let faults = || {
            let mut room: Vec<u64> = Vec::with_capacity(1 << 20);
            if populate_capacity(&mut room) == Err(Errno::INVAL) {
                return None;
            }
            let before = Usage::of_this_thread().unwrap();
            room.resize(1 << 20, 7);
            Some(Usage::of_this_thread().unwrap().since(&before).minor_faults)
        };
        // If another test forks the process in between, the kernel shares every page, and the first write to each page is a fault again.
        let Some(fewest) = (0..TRIES).map_while(|_| faults()).min() else {
            return evenkeel_testkit::skipped("MADV_POPULATE_WRITE takes Linux 5.14");
        };
        assert!(fewest < 100, "{fewest} of 2,048 pages");
        let mut odd = vec![1_u8; 10_001];
        populate(&mut odd[3..9_000]).unwrap();
        assert!(odd.iter().all(|byte| *byte == 1), "nothing is changed");
        assert_eq!((populate(&mut []), populate_capacity(&mut Vec::<u64>::new())), (Ok(()), Ok(())));
    }

    #[test]
    fn a_stack_has_an_end() {
        #[inline(never)]
        fn deeper() -> usize {
            let used = std::hint::black_box([0_u8; 100_000]);
            stack_left_bytes().unwrap() + usize::from(std::hint::black_box(&used)[0])
        }
        let body = || (stack_left_bytes().unwrap(), deeper());
        let (left, less) = std::thread::Builder::new().stack_size(1 << 20).spawn(body).unwrap().join().unwrap();
        // The C library may reuse a larger stack of an ended thread.
        assert!(left > 900_000 && left < 64 << 20, "{left}");
        assert!((100_000..140_000).contains(&(left - less)), "{left} {less}");
    }

    #[test]
    fn this_machines_values_are_read() {
        assert!(locked_kib().is_ok());
        let limit = lock_limit_bytes();
        assert!(limit.is_none() || limit == getrlimit(Resource::Memlock).current, "{limit:?}");
        match SwapIns::open() {
            Ok(counts) => assert!(counts.pages().unwrap() <= counts.pages().unwrap()),
            Err(errno) => evenkeel_testkit::skipped(format_args!("this kernel counts no pages from swap: {errno}")),
        }
    }
}
