//! `RingInbox`: one request that the kernel answers with packet after packet, each in a buffer from a ring.
//! The inbox uses io_uring(7) with a multishot recvmsg (since Linux 6.0) and deferred task work (since 6.1).
//! The inbox avoids the headers that recvmmsg(2) copies for each packet, and needs no call when there is nothing to receive.

use std::net::UdpSocket;
use std::num::NonZeroU16;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode};

use super::address::Name;
use super::control::{ControlData, UDP_GRO};
use super::inbox::{Packet, stride};
use crate::errno::Errno;
use crate::mapping::{Mapping, Pages};

/// The number of the only buffer group.
const GROUP: u16 = 0;
/// The four numbers that the kernel writes before the name.
const HEAD_BYTES: usize = 16;
/// Space for an address, rounded up so that the following part is aligned.
const NAME_BYTES: usize = 32;
/// Space for a time, a drop count and a segment size. The packet then begins in its own cache line.
const CONTROL_BYTES: usize = 80;
const NAME_AT: usize = HEAD_BYTES;
const CONTROL_AT: usize = NAME_AT + NAME_BYTES;
const BEFORE_BYTES: usize = CONTROL_AT + CONTROL_BYTES;
const _: () = assert!(size_of::<Name>() <= NAME_BYTES);
/// The maximum number of buffers.
const BUFFERS_MAX: usize = 1024;
/// How often to renew a request at once, if it ended because there were no buffers.
const TRIES: usize = 3;

/// A number that is unique among living threads: the address of a thread-local variable.
/// The standard library's id would cost two atomic operations.
/// A later thread may reuse the number of an ended thread. In that case the kernel refuses the later thread with the same error.
#[inline]
fn this_thread() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

#[derive(Clone, Copy, Debug)]
struct Received {
    buffer: u16,
    length: u32,
}

/// Receives packets by one standing request. The request belongs to the thread that first receives.
pub struct RingInbox {
    // This field comes first, so the ring is dropped first. After that the kernel no longer writes to the memory below.
    ring: IoUring,
    socket: UdpSocket,
    // The address of this header must not change until the request is made, in the same call. Later, parsing answers needs the header.
    template: libc::msghdr,
    entries: Mapping,
    buffers: Mapping,
    stride: usize,
    bytes_each: usize,
    count: usize,
    tail: u16,
    /// Whether each place of the ring still holds the buffer with its number.
    /// Buffers come back in the order in which the kernel got them, so returning them usually writes nothing.
    is_in_order: bool,
    /// The current packet.
    got: Option<Received>,
    is_asked: bool,
    /// An answer that arrived after packets. The next call returns it.
    trouble: Option<Errno>,
    thread: Option<usize>,
}

// SAFETY: the template's pointers are null. Any one thread at a time may use all other fields.
// The kernel refuses all threads but the first with an error.
unsafe impl Send for RingInbox {}

impl RingInbox {
    /// Prepares space for this many packets of up to `bytes_each` bytes. The number is rounded up to a power of two of at most 1,024.
    /// The first call of [`receive`](RingInbox::receive) starts to receive.
    ///
    /// # Errors
    /// `EINVAL` or `ENOSYS` if the kernel is too old; `EPERM` if `kernel.io_uring_disabled` or a sandbox forbids io_uring; `ENOMEM`.
    pub fn new(socket: &UdpSocket, packets: usize, bytes_each: usize) -> Result<RingInbox, Errno> {
        let count = packets.clamp(1, BUFFERS_MAX).next_power_of_two();
        let bytes_each = bytes_each.max(1);
        let stride = stride(BEFORE_BYTES + bytes_each);
        let ring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(2 * count as u32)
            .build(2)
            .map_err(|error| Errno::from(&error))?;
        let entries = Mapping::new(count * size_of::<BufRingEntry>(), Pages::Unadvised)?;
        let mut buffers = Mapping::new(stride * count, Pages::Small)?;
        // Fault in the first page of each buffer before the first packet. Every packet touches that page.
        let step = stride.max(4096) / size_of::<u64>();
        buffers.words_mut().iter_mut().step_by(step).for_each(|word| *word = std::hint::black_box(0));
        let socket = socket.try_clone().map_err(|error| Errno::from(&error))?;
        // SAFETY: a message header may consist of zeros.
        let mut template: libc::msghdr = unsafe { std::mem::zeroed() };
        template.msg_namelen = NAME_BYTES as libc::socklen_t;
        template.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: the mapping is aligned to pages, holds this many entries, and lives until the ring is gone.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries.address() as u64, count as u16, GROUP, 0) }
            .map_err(|error| Errno::from(&error))?;
        let mut inbox = RingInbox {
            ring,
            socket,
            template,
            entries,
            buffers,
            stride,
            bytes_each,
            count,
            tail: 0,
            is_in_order: false,
            got: None,
            is_asked: false,
            trouble: None,
            thread: None,
        };
        (0..count as u16).for_each(|buffer| inbox.give(buffer));
        inbox.publish();
        inbox.is_in_order = true;
        Ok(inbox)
    }

    /// Receives without waiting. After the call, [`packet`](RingInbox::packet) returns the current packet.
    /// [`advance`](RingInbox::advance) moves to the next packet. Packets of the previous call come first.
    ///
    /// # Errors
    /// `EAGAIN` if there was no packet; `EEXIST` if another thread received before; `ECONNREFUSED` if a sent packet reached a closed port.
    /// Otherwise the kernel's error.
    pub fn receive(&mut self) -> Result<(), Errno> {
        self.publish();
        if let Err(errno) = self.begin_on_this_thread() {
            // Return the answers that arrived for the other thread, so that they are not lost.
            return self.reaped().unwrap_or(Err(errno));
        }
        for _ in 0..TRIES {
            if let Some(reaped) = self.reaped() {
                return reaped;
            }
            if self.is_asked && !self.ring.submission().taskrun() {
                return Err(Errno::AGAIN);
            }
            if !self.is_asked {
                self.ask()?;
            }
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => return Err(Errno::from(&error)),
            }
        }
        self.reaped().unwrap_or(Err(Errno::AGAIN))
    }

    fn begin_on_this_thread(&mut self) -> Result<(), Errno> {
        let this = this_thread();
        match self.thread {
            Some(thread) if thread == this => Ok(()),
            Some(_) => Err(Errno::EXIST),
            None => {
                self.ring.submitter().register_enable_rings().map_err(|error| Errno::from(&error))?;
                self.thread = Some(this);
                Ok(())
            }
        }
    }

    fn ask(&mut self) -> Result<(), Errno> {
        let request = opcode::RecvMsgMulti::new(Fd(self.socket.as_raw_fd()), &raw const self.template, GROUP);
        // SAFETY: the socket belongs to this value. The kernel reads the template when the request is submitted, before anything moves the template.
        // The buffers of the group live until the ring is gone.
        unsafe { self.ring.submission().push(&request.build()) }.map_err(|_| Errno::BUSY)?;
        self.is_asked = true;
        Ok(())
    }

    /// Takes the next packet from the kernel's answers, up to an error.
    #[inline]
    fn reap(&mut self) {
        while let Some(answer) = { self.ring.completion().next() } {
            if !cqueue::more(answer.flags()) {
                self.is_asked = false;
            }
            match (u32::try_from(answer.result()), cqueue::buffer_select(answer.flags())) {
                (Ok(length), Some(buffer)) => {
                    self.got = Some(Received { buffer, length });
                    return;
                }
                (Ok(_), None) => {}
                (Err(_), buffer) => {
                    if let Some(buffer) = buffer {
                        self.give(buffer);
                    }
                    let errno = Errno::from_raw(answer.result().saturating_neg());
                    // If the kernel has no more buffers, the caller has already read all of them, so renew the request.
                    if errno != Errno::NOBUFS {
                        self.trouble = Some(errno);
                        return;
                    }
                }
            }
        }
    }

    /// Returns the result: a packet, or an error without a packet before it.
    fn reaped(&mut self) -> Option<Result<(), Errno>> {
        if self.got.is_none() && self.trouble.is_none() {
            self.reap();
        }
        match self.got {
            None => self.trouble.take().map(Err),
            Some(_) => Some(Ok(())),
        }
    }

    /// Moves to the next packet, if there is one. Each packet goes from the kernel's answer to the caller and back in one step.
    #[inline]
    pub fn advance(&mut self) {
        if let Some(got) = self.got.take() {
            self.give(got.buffer);
        }
        if self.trouble.is_none() {
            self.reap();
        }
    }

    /// Whether there is a current packet.
    #[inline]
    pub fn has_packet(&self) -> bool {
        self.got.is_some()
    }

    /// Returns a buffer to the kernel, as the last in the order of use. The kernel sees the buffer after [`RingInbox::publish`].
    #[inline]
    fn give(&mut self, buffer: u16) {
        let at = usize::from(self.tail) & (self.count - 1);
        self.tail = self.tail.wrapping_add(1);
        if self.is_in_order && at == usize::from(buffer) {
            return;
        }
        self.give_out_of_order(at, buffer);
    }

    fn give_out_of_order(&mut self, at: usize, buffer: u16) {
        self.is_in_order = false;
        let address = self.buffers.address() + usize::from(buffer) * self.stride;
        let entries = self.entries.words_mut().as_mut_ptr().cast::<BufRingEntry>();
        // SAFETY: the mapping holds `count` entries of two words, including `at`. The kernel reads only entries before the tail.
        // This entry is behind the tail. The tail is in the last two bytes of the first entry, which this code does not touch.
        let entry = unsafe { &mut *entries.add(at) };
        entry.set_addr(address as u64);
        entry.set_len((BEFORE_BYTES + self.bytes_each) as u32);
        entry.set_bid(buffer);
    }

    fn publish(&mut self) {
        let entries = self.entries.words_mut().as_mut_ptr().cast::<BufRingEntry>();
        // SAFETY: the tail is within the first entry and aligned to two bytes. Only this code writes to it, and the kernel reads it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// The current packet.
    #[inline]
    pub fn packet(&self) -> Option<Packet<'_>> {
        let got = self.got?;
        let words = self.buffers.words();
        // SAFETY: this is the same memory as bytes. The kernel writes to it only within calls of this thread, because task work is deferred to them.
        // The kernel does not write to buffers that it has given to us.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
        let start = usize::from(got.buffer) * self.stride;
        let buffer = bytes.get(start..start + BEFORE_BYTES + self.bytes_each)?;
        // `struct io_uring_recvmsg_out`: lengths of the name, the control data and the packet, and flags.
        // Each part has a fixed place, so one check of the total length is enough.
        let (before, rest) = buffer.split_first_chunk::<BEFORE_BYTES>()?;
        let bytes = rest.get(..(got.length as usize).checked_sub(BEFORE_BYTES)?)?;
        let word = |at: usize| u32::from_ne_bytes([before[at], before[at + 1], before[at + 2], before[at + 3]]);
        let control = match word(4) as usize {
            0 => ControlData::default(),
            length => self.control_data(&before[CONTROL_AT..], length)?,
        };
        // SAFETY: a name is shorter than its place, and this read needs no alignment. Any bytes are a valid name.
        let from = unsafe { before[NAME_AT..].as_ptr().cast::<Name>().read_unaligned() }.get(word(0) as usize);
        Some(Packet {
            bytes,
            from,
            stamp_ns: control.stamp_ns,
            segment_bytes: control.segment_bytes,
            dropped: control.dropped,
            truncated: word(12) & libc::MSG_TRUNC.cast_unsigned() != 0,
        })
    }

    /// Parses the control messages in the first `length` of these bytes.
    #[inline]
    fn control_data(&self, control: &[u8], length: usize) -> Option<ControlData> {
        let control = control.get(..length)?;
        // Most merged packets have only the control message with their size.
        match merged(control) {
            Some(segment_bytes) => {
                Some(ControlData { segment_bytes: NonZeroU16::new(segment_bytes), ..ControlData::default() })
            }
            None => Some(self.control_at_length(control)),
        }
    }

    fn control_at_length(&self, control: &[u8]) -> ControlData {
        let mut header = self.template;
        header.msg_control = control.as_ptr().cast_mut().cast();
        header.msg_controllen = control.len() as _;
        ControlData::from_header(&header)
    }
}

/// Reads the number of a control buffer that contains only the size of merged packets.
#[inline]
fn merged(control: &[u8]) -> Option<u16> {
    const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    let (message, more) = control.split_first_chunk::<{ HEADER_BYTES + 4 }>()?;
    // SAFETY: there are enough bytes, and any bytes are a valid header.
    let header = unsafe { message.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
    let is_it = (header.cmsg_level, header.cmsg_type) == (libc::SOL_UDP, UDP_GRO);
    #[allow(clippy::unnecessary_cast, reason = "musl has fewer bits for it than glibc")]
    let is_alone = header.cmsg_len as usize == HEADER_BYTES + 4 && more.len() < HEADER_BYTES;
    let number = u32::from_ne_bytes(*message.last_chunk::<4>()?);
    if is_it && is_alone { u16::try_from(number).ok() } else { None }
}

impl Drop for RingInbox {
    fn drop(&mut self) {
        // End the request before its buffers are freed. If another thread made the request, the kernel ends it together with the ring.
        if self.thread == Some(this_thread()) {
            let _ = self.ring.submitter().register_sync_cancel(None, io_uring::types::CancelBuilder::any());
        }
    }
}

impl std::fmt::Debug for RingInbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RingInbox { bytes_each, count, got, is_asked, .. } = self;
        f.debug_struct("RingInbox")
            .field("bytes_each", bytes_each)
            .field("room", count)
            .field("packet", got)
            .field("is_asked", is_asked)
            .finish_non_exhaustive()
    }
}
