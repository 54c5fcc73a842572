//! Memory from the kernel, page by page: an anonymous mapping with advice on huge pages and a choice of NUMA node.
//! A heap would hide these choices behind the memory that it caches.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::errno::Errno;

/// The alignment of a mapping: the size of a huge page on x86-64, and on 64-bit ARM with 4 KiB pages.
pub const ALIGNED_BYTES: usize = 2 << 20;

/// The highest NUMA node that can be requested.
pub const MAX_NODES: usize = 1024;

/// The page size that a mapping requests. A request changes no system setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The system's default.
    Unadvised,
    /// Huge pages if available (`MADV_HUGEPAGE`). If the system is set to `never`, it accepts the advice and gives small pages.
    Huge,
    /// Only small pages (`MADV_NOHUGEPAGE`).
    Small,
}

/// Anonymous memory of this process, initially zero, freed when dropped. A page does not exist before it is touched.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u64>,
    len_bytes: usize,
}

// SAFETY: the memory belongs to this value alone, like that of a `Vec`. Nothing in it depends on the thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps this many bytes. A length of [`ALIGNED_BYTES`] or more is rounded up to a multiple of that size, and the mapping is aligned to it.
    /// A smaller length is rounded up to 64 KiB and costs one system call.
    ///
    /// # Errors
    /// `ENOMEM` if the process may not have that much; `EINVAL` for 0. The advice also causes `EINVAL` if the kernel has no huge pages.
    pub fn new(len_bytes: usize, pages: Pages) -> Result<Mapping, Errno> {
        let unit = if len_bytes >= ALIGNED_BYTES { ALIGNED_BYTES } else { 64 << 10 };
        let len_bytes = len_bytes.checked_next_multiple_of(unit).filter(|len| *len > 0).ok_or(Errno::INVAL)?;
        let start = if unit == ALIGNED_BYTES { map_aligned(len_bytes)? } else { map(len_bytes)? };
        let mapping = Mapping { start: NonNull::new(start.cast()).ok_or(Errno::INVAL)?, len_bytes };
        match pages {
            Pages::Unadvised => {}
            Pages::Huge => mapping.advise(Advice::LinuxHugepage)?,
            Pages::Small => match mapping.advise(Advice::LinuxNoHugepage) {
                // A kernel without huge pages also rejects advice against huge pages.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            },
        }
        Ok(mapping)
    }

    /// Makes the kernel take the mapping's pages from one NUMA node only (`mbind`, `MPOL_BIND`). Call it before the pages are touched.
    ///
    /// # Errors
    /// `EINVAL` if the node does not exist or has no memory; `EPERM` or `ENOSYS` if a container forbids the call.
    pub fn bind(&self, node: usize) -> Result<(), Errno> {
        if node >= MAX_NODES {
            return Err(Errno::INVAL);
        }
        let mut mask = [0_u64; MAX_NODES / 64];
        mask[node / 64] = 1 << (node % 64);
        // SAFETY: the range is our own mapping. The kernel reads MAX_NODES bits of the mask and keeps no pointer.
        // The kernel expects a count that is one more than the bits that it reads.
        let done = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.len_bytes,
                libc::MPOL_BIND,
                mask.as_ptr(),
                MAX_NODES + 1,
                0,
            )
        };
        if done == 0 { Ok(()) } else { Err(Errno::from(&std::io::Error::last_os_error())) }
    }

    /// The start of the mapping, as in `/proc/self/smaps`.
    pub fn address(&self) -> usize {
        self.start.addr().get()
    }

    /// The length of the mapping in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The mapped memory, in words of eight bytes.
    pub fn words(&self) -> &[u64] {
        // SAFETY: the range is mapped readable and aligned for as long as this value lives, and every bit pattern is a word.
        // A writer needs exclusive access to this value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_bytes / size_of::<u64>()) }
    }

    /// The mapped memory, for writing.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above. `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes / size_of::<u64>()) }
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: advice on huge pages changes the pages behind the memory, never its contents.
        Ok(unsafe { rustix::mm::madvise(self.start.as_ptr().cast::<c_void>(), self.len_bytes, advice) }?)
    }
}

fn map(len_bytes: usize) -> Result<*mut c_void, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses an unused address.
    Ok(unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len_bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }?)
}

/// Maps memory that is aligned to a huge page. Older kernels align only to small pages, so this maps more, and unmaps the excess on both sides.
fn map_aligned(len_bytes: usize) -> Result<*mut c_void, Errno> {
    let asked = map(len_bytes.checked_add(ALIGNED_BYTES).ok_or(Errno::INVAL)?)?;
    let before_bytes = asked.addr().wrapping_neg() % ALIGNED_BYTES;
    let start = asked.wrapping_byte_add(before_bytes);
    // SAFETY: both ends are parts of the mapping that was just made, and no reference to them exists.
    unsafe {
        if before_bytes > 0 {
            rustix::mm::munmap(asked, before_bytes)?;
        }
        rustix::mm::munmap(start.wrapping_byte_add(len_bytes), ALIGNED_BYTES - before_bytes)?;
    }
    Ok(start)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and no reference into it outlives this value. If the call failed, the range would only stay mapped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.len_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_ours() {
        for (asked, given) in [(1, 64 << 10), (1 << 20, 1 << 20), (2 << 20, 2 << 20), (5 << 20, 6 << 20)] {
            for pages in [Pages::Unadvised, Pages::Small] {
                let mut mapping = Mapping::new(asked, pages).unwrap();
                assert_eq!(mapping.len_bytes(), given);
                assert!(given < ALIGNED_BYTES || mapping.address().is_multiple_of(ALIGNED_BYTES));
                assert!(mapping.words().iter().all(|word| *word == 0));
                mapping.words_mut().fill(7);
                assert_eq!(mapping.words().last(), Some(&7));
            }
        }
        assert_eq!(Mapping::new(0, Pages::Unadvised).unwrap_err(), Errno::INVAL);
        assert_eq!(Mapping::new(usize::MAX - 5, Pages::Unadvised).unwrap_err(), Errno::INVAL);
        assert_eq!(Mapping::new(1 << 62, Pages::Unadvised).unwrap_err(), Errno::NOMEM);
    }

    #[test]
    fn memory_comes_from_a_node_that_is_there() {
        let mut mapping = Mapping::new(1 << 20, Pages::Unadvised).unwrap();
        match mapping.bind(0) {
            Ok(()) => mapping.words_mut().fill(1),
            Err(errno) => evenkeel_testkit::skipped(format_args!("memory can't be bound to node 0 here: {errno}")),
        }
        assert!(mapping.bind(MAX_NODES - 1).is_err());
        assert_eq!(mapping.bind(MAX_NODES), Err(Errno::INVAL));
    }
}
