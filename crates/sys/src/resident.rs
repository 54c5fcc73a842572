//! Memory that is there when it is wanted: pages brought in before they are touched, kept from being swapped out, and what the system reads
//! back from swap all the same.

use std::ffi::c_void;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::ptr;

use rustix::mm::{Advice, MapFlags, MlockAllFlags, MlockFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use crate::errno::Errno;

/// /proc/vmstat has some 5 KiB.
const VMSTAT_BYTES_MAX: usize = 16 << 10;

/// Which of the process' pages stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// All that it has mapped now: each page is brought in.
    Present,
    /// And all that it maps later: each mapping is brought in as a whole, thread stacks too.
    PresentAndFuture,
    /// What it has mapped now, each page from its first touch on.
    PresentOnFault,
    /// And what it maps later, likewise.
    PresentAndFutureOnFault,
}

/// Locks the process' memory (`mlockall`).
///
/// # Errors
/// `EPERM` where this user may lock none; `ENOMEM` where it may not lock so much; `EINVAL` before Linux 4.4.
pub fn lock(which: Lock) -> Result<(), Errno> {
    let flags = match which {
        Lock::Present => MlockAllFlags::CURRENT,
        Lock::PresentAndFuture => MlockAllFlags::CURRENT | MlockAllFlags::FUTURE,
        Lock::PresentOnFault => MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT,
        Lock::PresentAndFutureOnFault => MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT,
    };
    Ok(rustix::mm::mlockall(flags)?)
}

/// Lets all of it be swapped again.
///
/// # Errors
/// What the kernel said; none is known.
pub fn unlock() -> Result<(), Errno> {
    Ok(rustix::mm::munlockall()?)
}

/// How many bytes this process may lock; none where nothing limits it, by its limit (`RLIMIT_MEMLOCK`) or by a right over it
/// (`CAP_IPC_LOCK`, which a container may show and not have: it is tried).
pub fn lock_limit_bytes() -> Option<u64> {
    let limit_bytes = getrlimit(Resource::Memlock).current?;
    (!is_lockable(limit_bytes)).then_some(limit_bytes)
}

/// Tries to lock more than the limit: addresses without a page behind them.
fn is_lockable(limit_bytes: u64) -> bool {
    let Some(more) = usize::try_from(limit_bytes).ok().and_then(|bytes| bytes.checked_add(64 << 10)) else {
        return false;
    };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses an address where nothing is mapped; nobody else knows of it, and it goes away again here.
    unsafe {
        let Ok(start) = rustix::mm::mmap_anonymous(ptr::null_mut(), more, ProtFlags::READ, flags) else { return false };
        let is_locked = rustix::mm::mlock_with(start, more, MlockFlags::ONFAULT).is_ok();
        let _ = rustix::mm::munmap(start, more);
        is_locked
    }
}

/// How much of the process' memory is locked, in KiB.
///
/// # Errors
/// The kernel's error; `EINVAL` if it does not report the value.
pub fn locked_kib() -> Result<u64, Errno> {
    let text = std::fs::read_to_string("/proc/self/status").map_err(|error| Errno::from(&error))?;
    parse_locked_kib(&text).ok_or(Errno::INVAL)
}

/// The line `VmLck: 123 kB` of /proc/PID/status.
/// `VmLck:`, white space, `123 kB`: a line of /proc/PID/status.
pub fn parse_locked_kib(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmLck:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Brings in the pages of some memory, writable, and changes nothing in it.
///
/// # Errors
/// `EINVAL` before Linux 5.14; `ENOMEM` if there is no room.
pub fn populate(memory: &mut [u8]) -> Result<(), Errno> {
    populate_range(memory.as_mut_ptr().addr(), memory.len())
}

/// Brings in the pages that a vector has room in.
///
/// # Errors
/// As [`populate`].
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
    // SAFETY: the range is of pages that hold memory which the caller has for itself. The kernel brings pages in as a write would and
    // changes nothing in them; what else lies in the first and the last one is as it was, too.
    Ok(unsafe { rustix::mm::madvise(address, end - first, Advice::LinuxPopulateWrite) }?)
}

/// How many bytes the calling thread's stack may still grow by. The main thread's as far as its limit goes.
///
/// # Errors
/// What the C library said of the thread.
pub fn stack_left_bytes() -> Result<usize, Errno> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::zeroed();
    // SAFETY: the C library fills in what it is given, of the calling thread, and gives an error number.
    let failed = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
    if failed != 0 {
        return Err(Errno::from_raw(failed));
    }
    let (mut lowest, mut size) = (ptr::null_mut::<c_void>(), 0);
    // SAFETY: the attributes were filled in above, are read here, and destroyed once.
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

/// Tells glibc's allocator to keep what is freed rather than give it back to the kernel, and to take large pieces from what it keeps. It holds
/// for the whole process. Another C library does nothing of it: `EOPNOTSUPP`.
///
/// # Errors
/// `EINVAL` if the allocator refused.
pub fn keep_freed_memory() -> Result<(), Errno> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: both settings are taken under the allocator's own lock; -1 is the largest threshold there is.
        let taken =
            unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, -1) == 1 && libc::mallopt(libc::M_MMAP_MAX, 0) == 1 };
        if taken { Ok(()) } else { Err(Errno::INVAL) }
    }
    #[cfg(not(target_env = "gnu"))]
    Err(Errno::OPNOTSUPP)
}

/// Counts pages that the whole system reads back from swap, from a file that is kept open.
#[derive(Debug)]
pub struct SwapIns {
    file: File,
}

impl SwapIns {
    /// Opens the count.
    ///
    /// # Errors
    /// What the kernel said; `EINVAL` where it has no swap built in.
    pub fn open() -> Result<SwapIns, Errno> {
        let counts = SwapIns { file: File::open("/proc/vmstat").map_err(|error| Errno::from(&error))? };
        counts.pages()?;
        Ok(counts)
    }

    /// Pages since boot. It takes some tens of microseconds: once a second is often enough.
    ///
    /// # Errors
    /// As [`SwapIns::open`].
    pub fn pages(&self) -> Result<u64, Errno> {
        let mut bytes = [0; VMSTAT_BYTES_MAX];
        let length = self.file.read_at(&mut bytes, 0).map_err(|error| Errno::from(&error))?;
        let text = std::str::from_utf8(&bytes[..length]).map_err(|_| Errno::ILSEQ)?;
        parse_swapped_in(text).ok_or(Errno::INVAL)
    }
}

/// The line `pswpin 123` of /proc/vmstat.
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
    fn pages_that_were_brought_in_are_no_faults() {
        let mut room: Vec<u64> = Vec::with_capacity(1 << 20);
        if populate_capacity(&mut room) == Err(Errno::INVAL) {
            evenkeel_testkit::skipped("MADV_POPULATE_WRITE takes Linux 5.14");
            return;
        }
        let before = Usage::of_this_thread().unwrap();
        room.resize(1 << 20, 7);
        let faults = Usage::of_this_thread().unwrap().since(&before).minor_faults;
        assert!(faults < 100, "{faults} of 2,048 pages");
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
        // The C library may hand out a larger stack that another thread has left.
        assert!(left > 900_000 && left < 64 << 20, "{left}");
        assert!((100_000..140_000).contains(&(left - less)), "{left} {less}");
    }

    #[test]
    fn what_this_machine_tells_is_read() {
        assert!(locked_kib().is_ok());
        let limit = lock_limit_bytes();
        assert!(limit.is_none() || limit == getrlimit(Resource::Memlock).current, "{limit:?}");
        match SwapIns::open() {
            Ok(counts) => assert!(counts.pages().unwrap() <= counts.pages().unwrap()),
            Err(errno) => evenkeel_testkit::skipped(format_args!("this kernel counts no pages from swap: {errno}")),
        }
    }
}
