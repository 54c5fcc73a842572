//! `Room`: queries to a network interface's driver by the `SIOCETHTOOL` ioctl, with memory for answers whose length only the kernel knows.
//! The kernel writes as much as the driver has at that moment, regardless of the announced size.
//! If the number of queues changes between two calls, the kernel may write more than expected.
//! So the memory ends at a page without write access. An answer that does not fit is an error (`EFAULT`), never an overflow.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};

use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::net::{AddressFamily, SocketType};

use crate::errno::Errno;

const SIOCETHTOOL: Opcode = 0x8946;
/// `IFNAMSIZ`: the longest interface name, with its NUL.
const NAME_BYTES: usize = 16;

/// The size of the longest answer in bytes: 32,768 names. Only touched pages use memory.
const ROOM_BYTES: usize = 1 << 20;
/// The guard area is at least as large as the largest page of any supported kernel, so that it contains a whole page.
const GUARD_BYTES: usize = 64 << 10;

/// A query that changes nothing. Its value is the number of its command in `include/uapi/linux/ethtool.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Question {
    /// `ETHTOOL_GDRVINFO`
    Driver = 0x0000_0003,
    /// `ETHTOOL_GCOALESCE`
    Coalesce = 0x0000_000e,
    /// `ETHTOOL_GRINGPARAM`
    Rings = 0x0000_0010,
    /// `ETHTOOL_GSTRINGS`
    Strings = 0x0000_001b,
    /// `ETHTOOL_GSTATS`
    Counters = 0x0000_001d,
    /// `ETHTOOL_GRXFH`
    HashedFields = 0x0000_0029,
    /// `ETHTOOL_GRXFHINDIR`
    Table = 0x0000_0038,
    /// `ETHTOOL_GFEATURES`
    Features = 0x0000_003a,
    /// `ETHTOOL_GCHANNELS`
    Channels = 0x0000_003c,
    /// `ETHTOOL_GRSSH`
    Hashing = 0x0000_0046,
}

/// `struct ifreq` of `include/uapi/linux/if.h`, as far as this call reads it.
/// The union after the name has 24 bytes on 64-bit machines. Its first member is a pointer.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    data: *mut c_void,
    rest_of_union: [u8; 24 - size_of::<*mut c_void>()],
}

/// Zeroed memory with a guard page behind it.
#[derive(Debug)]
pub struct Room {
    start: NonNull<u8>,
}

impl Room {
    /// Fresh memory.
    ///
    /// # Errors
    /// The kernel's error when memory is exhausted.
    pub fn new() -> Result<Room, Errno> {
        // SAFETY: the kernel chooses an unused address for the new mapping.
        let start =
            unsafe { mmap_anonymous(null_mut(), ROOM_BYTES + GUARD_BYTES, ProtFlags::empty(), MapFlags::PRIVATE)? };
        let room = Room { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)? };
        // SAFETY: these are the first ROOM_BYTES of the mapping made above. No reference to them exists yet.
        unsafe { mprotect(start, ROOM_BYTES, MprotectFlags::READ | MprotectFlags::WRITE)? };
        Ok(room)
    }

    /// Queries the driver. The question and its `arguments` are at the start of the memory, and the answer overwrites them.
    ///
    /// # Errors
    /// The kernel's error; `ENODEV` for a name that no interface can have.
    pub fn ask(&mut self, interface: &str, question: Question, arguments: &[u32]) -> Result<(), Errno> {
        let header = std::iter::once(question as u32).chain(arguments.iter().copied());
        for (to, from) in self.bytes().chunks_exact_mut(4).zip(header) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        let mut request = request(interface, self.start.as_ptr().cast())?;
        let socket = socket()?;
        // SAFETY: the request points to the room, which outlives the call. No code holds a reference to the room.
        // The kernel writes upwards from the start of the room, and cannot pass the guard page behind it.
        unsafe { ioctl::ioctl(&socket, EthtoolCall(&mut request))? };
        Ok(())
    }

    /// The 32-bit word with this index. `None` beyond the end of the room.
    pub fn word(&mut self, index: usize) -> Option<u32> {
        let at = index.checked_mul(4)?;
        let bytes = self.bytes().get(at..)?.first_chunk::<4>()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// The whole memory.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is at least this long, readable, writable, and zeroed by the kernel. It lives as long as `self`.
        // The exclusive borrow of `self` prevents `ask` meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), ROOM_BYTES) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let start: *mut c_void = self.start.as_ptr().cast();
        // SAFETY: this is exactly the mapping that `new` made. No reference to it exists any more.
        let _ = unsafe { munmap(start, ROOM_BYTES + GUARD_BYTES) };
    }
}

fn request(interface: &str, data: *mut c_void) -> Result<Request, Errno> {
    if interface.is_empty() || interface.len() >= NAME_BYTES || interface.contains('\0') {
        return Err(Errno::NODEV);
    }
    let mut request = Request { name: [0; NAME_BYTES], data, rest_of_union: [0; 24 - size_of::<*mut c_void>()] };
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    Ok(request)
}

fn socket() -> Result<OwnedFd, Errno> {
    Ok(rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?)
}

struct EthtoolCall<'a>(&'a mut Request);

// SAFETY: SIOCETHTOOL takes a pointer to `struct ifreq`, and `Request` has the same layout. The output is only the status.
unsafe impl Ioctl for EthtoolCall<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        SIOCETHTOOL
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut *self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_the_kernels_size() {
        assert_eq!(size_of::<Request>(), 40);
    }

    #[test]
    fn a_room_is_as_long_as_it_says_and_no_longer() {
        let mut room = Room::new().unwrap();
        let length = room.bytes().len();
        room.bytes().fill(0xff);
        assert_eq!(
            (room.word(length / 4 - 1), room.word(length / 4), room.word(usize::MAX)),
            (Some(u32::MAX), None, None)
        );
    }
}
