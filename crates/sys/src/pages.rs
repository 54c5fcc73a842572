//! `Pages`: memory directly from the kernel. Dropping it returns the memory to the kernel, while an allocator would keep it.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::errno::Errno;

/// Zeroed pages. They use no memory before they are written.
#[derive(Debug)]
pub struct Pages {
    start: *mut u8,
    length: usize,
}

// SAFETY: the pages belong to this value alone, like those of a `Box<[u8]>`.
unsafe impl Send for Pages {}

impl Pages {
    /// Maps this many bytes. The kernel rounds the length up to whole pages.
    ///
    /// # Errors
    /// `ENOMEM` if there is not enough memory; `EINVAL` for 0.
    pub fn new(length: usize) -> Result<Pages, Errno> {
        // SAFETY: the kernel chooses an unused address for the new private mapping.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        Ok(Pages { start: start.cast(), length })
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `length` bytes long, readable and writable. It contains zeros or what the caller wrote.
        // No other code uses the mapping while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_ours_until_they_are_dropped() {
        let mut pages = Pages::new(10_000).unwrap();
        assert!(pages.bytes().iter().all(|byte| *byte == 0));
        pages.bytes()[9_999] = 7;
        let moved = std::thread::spawn(move || pages.bytes()[9_999]);
        assert_eq!(moved.join().unwrap(), 7);
        assert_eq!(Pages::new(0).unwrap_err(), Errno::INVAL);
        assert_eq!(Pages::new(1 << 60).unwrap_err(), Errno::NOMEM);
    }
}
