//! `Inbox`: receives up to 64 packets per system call (recvmmsg(2)).
//! The inbox allocates all memory at the start and prepares the headers once. After that a call costs only the kernel's work.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::os::fd::AsRawFd;

use super::address::Name;
use super::control::{CONTROL_WORDS, ControlData};
use super::last;
use crate::errno::Errno;

/// The maximum number of packets per call.
pub const BATCH: usize = 64;

const LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;

/// What to do while there is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Sleep until a packet arrives, or the socket's read timeout has passed. Returns that packet at once, even if more are queued.
    Sleep,
    /// Return at once, with all available packets.
    Not,
    /// Return at once, with at most one packet. This is faster if you expect no more packets.
    NotForOne,
}

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The payload. If `truncated` is set, only its beginning.
    pub bytes: &'a [u8],
    /// The packet's source address, which may be forged.
    pub from: Option<SocketAddr>,
    /// When the kernel first had the packet, on the wall clock in nanoseconds.
    /// `None` unless [`super::stamp_received`] or [`super::stamp_arrivals`] was called.
    pub stamp_ns: Option<u64>,
    /// The size of each packet of one sender that the kernel merged into this one: see [`super::merge_received`].
    /// The last packet may be shorter. `None` if the kernel merged no packets.
    pub segment_bytes: Option<NonZeroU16>,
    /// How many packets the socket had dropped when this packet arrived, if it ever dropped one: see [`super::report_dropped`].
    /// The number wraps at 2^32.
    pub dropped: Option<u32>,
    /// Whether the packet was longer than the buffer.
    pub truncated: bool,
}

/// The distance between buffers of this size: an odd number of cache lines.
/// At power-of-two distances, buffers would compete for the same few places in a cache.
pub(super) fn stride(bytes_each: usize) -> usize {
    (bytes_each.div_ceil(LINE_BYTES) | 1) * LINE_BYTES
}

/// Faults in the first page of each buffer before the first packet arrives. Every packet touches that page.
pub(super) fn touch(bytes: &mut [u8], stride: usize) {
    bytes.iter_mut().step_by(stride.max(PAGE_BYTES)).for_each(|byte| *byte = std::hint::black_box(0));
}

/// Receives packets.
pub struct Inbox {
    bytes: Vec<u8>,
    bytes_each: usize,
    stride: usize,
    names: Vec<Name>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    // The parts, which the kernel reads through the headers.
    _parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// The number of headers that contain results of the last call.
    received: usize,
}

// SAFETY: the pointers in the headers and parts lead to heap memory of this value's own vectors, which never grow.
// Nothing in them depends on the thread.
unsafe impl Send for Inbox {}

impl Inbox {
    /// Space for [`BATCH`] packets of up to this many bytes each.
    pub fn new(bytes_each: usize) -> Inbox {
        Inbox::with_room(BATCH, bytes_each)
    }

    /// Space for this many packets, 1 to [`BATCH`], of up to this many bytes each.
    pub fn with_room(packets: usize, bytes_each: usize) -> Inbox {
        let (packets, bytes_each) = (packets.clamp(1, BATCH), bytes_each.max(1));
        let stride = stride(bytes_each);
        let mut bytes = vec![0; stride * packets];
        touch(&mut bytes, stride);
        let mut names = vec![Name::none(); packets];
        let mut controls = vec![[0; CONTROL_WORDS]; packets];
        let start = bytes.as_mut_ptr();
        let mut parts: Vec<libc::iovec> = (0..packets)
            .map(|at| libc::iovec { iov_base: start.wrapping_add(at * stride).cast(), iov_len: bytes_each })
            .collect();
        let (name, control, part) = (names.as_mut_ptr(), controls.as_mut_ptr(), parts.as_mut_ptr());
        let headers = (0..packets).map(|at| {
            let mut header = NO_MESSAGE;
            header.msg_hdr.msg_name = name.wrapping_add(at).cast();
            header.msg_hdr.msg_control = control.wrapping_add(at).cast();
            header.msg_hdr.msg_iov = part.wrapping_add(at);
            header.msg_hdr.msg_iovlen = 1;
            header
        });
        let headers = headers.collect();
        // `new` prepares every header before the first call.
        Inbox { bytes, bytes_each, stride, names, controls, _parts: parts, headers, received: packets }
    }

    /// Receives at least one packet, and returns how many. The packets of the previous call are no longer available.
    ///
    /// # Errors
    /// `EAGAIN` if no packet arrived in time; `EINTR` after a signal; `ECONNREFUSED` if a sent packet reached a closed port.
    /// Otherwise the kernel's error.
    pub fn receive(&mut self, socket: &UdpSocket, wait: Wait) -> Result<usize, Errno> {
        match wait {
            // A call for several packets checks for a second packet before it returns the first. So ask for one packet.
            Wait::Sleep => self.call(socket, 1, 0),
            Wait::Not => self.call(socket, BATCH, libc::MSG_DONTWAIT),
            Wait::NotForOne => self.call(socket, 1, libc::MSG_DONTWAIT),
        }
    }

    /// Like [`Inbox::receive`] without waiting, but takes at most this many packets.
    ///
    /// # Errors
    /// The same.
    pub fn receive_at_most(&mut self, socket: &UdpSocket, packets: usize) -> Result<usize, Errno> {
        self.call(socket, packets.max(1), libc::MSG_DONTWAIT)
    }

    /// Like [`Inbox::receive_at_most`] for one packet, by the call for a single packet (recvmsg(2)), for sandboxes that forbid recvmmsg(2).
    ///
    /// # Errors
    /// The same.
    pub fn receive_one(&mut self, socket: &UdpSocket) -> Result<usize, Errno> {
        self.make_ready();
        let Some(header) = self.headers.first_mut() else { return Err(Errno::INVAL) };
        // SAFETY: the header points to a name, a control buffer and a part with their true lengths.
        // Name, buffer and part live as long as this value, and no other code accesses them meanwhile.
        let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header.msg_hdr, libc::MSG_DONTWAIT) };
        header.msg_len = libc::c_uint::try_from(length).map_err(|_| last())?;
        self.received = 1;
        Ok(1)
    }

    /// Restores the header fields that the last call has overwritten.
    fn make_ready(&mut self) {
        for header in self.headers.iter_mut().take(self.received) {
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
        }
        self.received = 0;
    }

    fn call(&mut self, socket: &UdpSocket, packets: usize, flags: libc::c_int) -> Result<usize, Errno> {
        self.make_ready();
        let packets = packets.min(self.headers.len());
        // SAFETY: each header points to its own name, control buffer and part, with their true lengths.
        // All live as long as this value and stay in place. No other code accesses them meanwhile.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                packets as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| last())?;
        self.received = count;
        Ok(count)
    }

    /// One packet of the last call.
    #[inline]
    pub fn packet(&self, at: usize) -> Option<Packet<'_>> {
        let header = self.headers.get(at).filter(|_| at < self.received)?;
        let length = (header.msg_len as usize).min(self.bytes_each);
        let control = ControlData::from_header(&header.msg_hdr);
        Some(Packet {
            bytes: self.bytes.get(at * self.stride..)?.get(..length)?,
            from: self.names.get(at)?.get(header.msg_hdr.msg_namelen as usize),
            stamp_ns: control.stamp_ns,
            segment_bytes: control.segment_bytes,
            dropped: control.dropped,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }

    /// All packets of the last call.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        (0..self.received).filter_map(|at| self.packet(at))
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inbox { bytes_each, controls, received, .. } = self;
        f.debug_struct("Inbox")
            .field("bytes_each", bytes_each)
            .field("room", &controls.len())
            .field("packets", received)
            .finish_non_exhaustive()
    }
}

pub(super) const NO_MESSAGE: libc::mmsghdr = {
    // SAFETY: a message header may consist of null pointers and zero lengths.
    unsafe { std::mem::zeroed() }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_do_not_compete_for_the_same_places_of_a_cache() {
        for (bytes, apart) in [(1, 64), (64, 64), (65, 192), (2048, 2112), (65_536, 65_600)] {
            assert_eq!(stride(bytes), apart, "{bytes}");
        }
    }
}
