//! The kernel's counts of the calling thread: page faults, and time in user space and in the kernel.
//! Page faults are exact, and a read costs less than a microsecond.

use crate::errno::Errno;

/// Counts since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Time in user space, in nanoseconds (to the microsecond).
    pub user_ns: u64,
    /// Time in the kernel for this thread, in nanoseconds (to the microsecond).
    pub system_ns: u64,
}

impl Usage {
    /// The counts of the calling thread.
    ///
    /// # Errors
    /// The kernel's error; no case is known.
    pub fn of_this_thread() -> Result<Usage, Errno> {
        let mut counted = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel writes one `struct rusage` and keeps no pointer.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, counted.as_mut_ptr()) } != 0 {
            return Err(Errno::from(&std::io::Error::last_os_error()));
        }
        // SAFETY: the struct was zeroed, and every bit pattern of it is valid.
        let counted = unsafe { counted.assume_init() };
        let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
        let ns = |time: libc::timeval| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_usec).unwrap_or(0) * 1000
        };
        Ok(Usage {
            minor_faults: count(counted.ru_minflt),
            major_faults: count(counted.ru_majflt),
            user_ns: ns(counted.ru_utime),
            system_ns: ns(counted.ru_stime),
        })
    }

    /// The increase since `before`.
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Mapping, Pages};

    #[test]
    fn each_new_page_is_a_fault() {
        let page_bytes = rustix::param::page_size();
        let mut mapping = Mapping::new(1 << 20, Pages::Small).unwrap();
        let before = Usage::of_this_thread().unwrap();
        mapping.words_mut().iter_mut().step_by(page_bytes / 8).for_each(|word| *word = 1);
        let made = Usage::of_this_thread().unwrap().since(&before);
        let pages = ((1 << 20) / page_bytes) as u64;
        // A kernel with folios of several pages maps several pages at a time.
        assert!(made.minor_faults >= 1 && made.minor_faults <= pages + 2, "{made:?}");
    }
}
