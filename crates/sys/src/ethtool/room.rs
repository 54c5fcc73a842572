//! Memory for answers whose length only the kernel knows. It writes as much as the driver has at that moment, whatever it
//! was told of the room there is: a change of queues between two calls makes that more than was asked for. So the room ends at
//! a page that nobody may write, and an answer that does not fit is an error (`EFAULT`), never a write beyond.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::ioctl;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::{EthtoolCall, request, socket};
use crate::errno::Errno;

/// Bytes of the longest answer: 32,768 names. Only pages that are touched take memory.
const ROOM_BYTES: usize = 1 << 20;
/// As large as the largest page of any kernel that we run on, so that it holds at least one.
const GUARD_BYTES: usize = 64 << 10;

/// Zeroed memory with a wall behind it.
#[derive(Debug)]
pub(super) struct Room {
    start: NonNull<u8>,
}

impl Room {
    pub(super) fn new() -> Result<Room, Errno> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that is in use.
        let start =
            unsafe { mmap_anonymous(null_mut(), ROOM_BYTES + GUARD_BYTES, ProtFlags::empty(), MapFlags::PRIVATE)? };
        let room = Room { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)? };
        // SAFETY: the first ROOM_BYTES of the mapping made above, to which nothing refers yet.
        unsafe { mprotect(start, ROOM_BYTES, MprotectFlags::READ | MprotectFlags::WRITE)? };
        Ok(room)
    }

    /// Asks the driver with `header` at the start of the room, which the answer overwrites.
    pub(super) fn ask(&mut self, interface: &str, header: &[u32]) -> Result<(), Errno> {
        for (to, from) in self.bytes().chunks_exact_mut(4).zip(header) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        let mut request = request(interface, self.start.as_ptr().cast())?;
        let socket = socket()?;
        // SAFETY: the request points to the room, which outlives the call and to which no reference is held; the kernel writes
        // upwards from its start, and can't pass the wall behind it.
        unsafe { ioctl::ioctl(&socket, EthtoolCall(&mut request))? };
        Ok(())
    }

    /// The 32-bit word with this index; `None` beyond the room.
    pub(super) fn word(&mut self, index: usize) -> Option<u32> {
        let at = index.checked_mul(4)?;
        let bytes = self.bytes().get(at..)?.first_chunk::<4>()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// The whole room.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is at least so long, readable and writable, zeroed by the kernel, and lives as long as `self`,
        // whose exclusive borrow keeps `ask` away meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), ROOM_BYTES) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let start: *mut c_void = self.start.as_ptr().cast();
        // SAFETY: exactly the mapping that `new` made; nothing refers to it any more.
        let _ = unsafe { munmap(start, ROOM_BYTES + GUARD_BYTES) };
    }
}
