//! Sending: up to 64 messages per system call (sendmmsg(2)).
//! A message may be several packets of one size that the kernel or the device splits (`UDP_SEGMENT`).
//! A [`Load`] is the messages of such a call, filled in place. [`Outbox`] is the simple interface on top: packets with their bytes.

use std::marker::PhantomData;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;

use super::address::Name;
use super::control::UDP_SEGMENT;
use super::inbox::{BATCH, NO_MESSAGE};
use super::last;
use crate::errno::Errno;

/// The size of one control message of two bytes: a header of 16 bytes and the number, rounded up.
const CONTROL_WORDS: usize = 3;

/// The memory that calls to send use.
pub struct Sender {
    names: Vec<Name>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: each call writes the pointers before it uses them. The kernel follows a pointer only while the data behind it is borrowed.
unsafe impl Send for Sender {}

impl Sender {
    /// Space for [`BATCH`] messages with this many parts in all.
    pub fn new(parts: usize) -> Sender {
        Sender {
            names: vec![Name::none(); BATCH],
            controls: vec![[0; CONTROL_WORDS]; BATCH],
            parts: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; parts.max(BATCH)],
            headers: vec![NO_MESSAGE; BATCH],
        }
    }

    /// An empty set of messages.
    pub fn load<'a>(&'a mut self) -> Load<'a> {
        Load { sender: self, messages: 0, parts: 0, bytes: PhantomData }
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

/// Messages to send in one or more calls. They borrow their bytes.
pub struct Load<'a> {
    sender: &'a mut Sender,
    messages: usize,
    parts: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> Load<'a> {
    /// The number of messages.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Adds a message to this address, or to the connected address. Returns false, without adding anything, if the message does not fit.
    /// Its parts are sent one after another, split into packets of `segment_bytes`. The last packet may be shorter. 0 does not split.
    /// `None` uses the setting of [`super::split_sent`], which is less work for the kernel.
    pub fn add(
        &mut self,
        to: Option<SocketAddr>,
        segment_bytes: Option<u16>,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> bool {
        let at = self.messages;
        let first = self.parts;
        if at >= self.sender.headers.len() {
            return false;
        }
        let mut next = first;
        for part in parts {
            let Some(room) = self.sender.parts.get_mut(next) else { return false };
            // The kernel only reads the data, so the cast to a mutable pointer is sound.
            *room = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
            next += 1;
        }
        self.parts = next;
        let mut header = NO_MESSAGE;
        if let Some(to) = to {
            header.msg_hdr.msg_namelen = self.sender.names[at].set(to);
            header.msg_hdr.msg_name = self.sender.names.as_mut_ptr().wrapping_add(at).cast();
        }
        header.msg_hdr.msg_iov = self.sender.parts.as_mut_ptr().wrapping_add(first);
        header.msg_hdr.msg_iovlen = (next - first) as _;
        if let Some(bytes) = segment_bytes {
            self.sender.controls[at] = segment_control(bytes);
            header.msg_hdr.msg_control = self.sender.controls.as_mut_ptr().wrapping_add(at).cast();
            header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
        }
        self.sender.headers[at] = header;
        self.messages += 1;
        true
    }

    /// Sends the messages of this range in one non-blocking call. Returns how many the kernel accepted: at least one.
    ///
    /// # Errors
    /// The kernel's error for the first message; in that case it accepted no message. `EINVAL` for a range that is empty or out of bounds.
    pub fn send(&mut self, socket: &UdpSocket, range: Range<usize>) -> Result<usize, Errno> {
        self.call(socket, range, libc::MSG_DONTWAIT)
    }

    /// Like [`Load::send`] for one message, by the call for a single message (sendmsg(2)), for sandboxes that forbid sendmmsg(2).
    ///
    /// # Errors
    /// The same.
    pub fn send_one(&mut self, socket: &UdpSocket, at: usize) -> Result<(), Errno> {
        let header = self.sender.headers[..self.messages].get(at).ok_or(Errno::INVAL)?;
        // SAFETY: the header points to parts that are borrowed while this value lives, and to a name and a control buffer of the sender.
        // Parts, name and buffer stay in place, and have their true lengths.
        let done = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header.msg_hdr, libc::MSG_DONTWAIT) };
        if done < 0 { Err(last()) } else { Ok(()) }
    }

    fn call(&mut self, socket: &UdpSocket, range: Range<usize>, flags: libc::c_int) -> Result<usize, Errno> {
        let headers = self.sender.headers[..self.messages].get_mut(range).filter(|some| !some.is_empty());
        let headers = headers.ok_or(Errno::INVAL)?;
        // SAFETY: each header points to parts that are borrowed while this value lives, and to a name and a control buffer of the sender.
        // Parts, name and buffer stay in place, and have their true lengths. The kernel writes only to the headers.
        let done = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), headers.len() as libc::c_uint, flags as _)
        };
        usize::try_from(done).ok().filter(|taken| *taken > 0).ok_or_else(last)
    }
}

impl std::fmt::Debug for Load<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("messages", &self.messages).finish_non_exhaustive()
    }
}

/// `struct cmsghdr` and the segment size, in the form that the kernel expects.
fn segment_control(bytes: u16) -> [u64; CONTROL_WORDS] {
    // SAFETY: the macro only adds numbers.
    let length = unsafe { libc::CMSG_LEN(size_of::<u16>() as libc::c_uint) };
    let mut words = [0_u64; CONTROL_WORDS];
    // SAFETY: the words are aligned for a message's header. Their 24 bytes have space for the header of 16 bytes and the number of two.
    unsafe {
        let header = words.as_mut_ptr().cast::<libc::cmsghdr>();
        (*header).cmsg_len = length as _;
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = UDP_SEGMENT;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(bytes);
    }
    words
}

/// The result of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The number of accepted packets.
    pub sent: usize,
    /// The number of refused packets.
    pub refused: usize,
    /// The kernel's error for the last refused packet. `None` if no packet was refused.
    pub why: Option<Errno>,
}

/// Sends packets, and waits while the socket is full.
#[derive(Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    bytes_each: usize,
    packets: Vec<(usize, Option<SocketAddr>)>,
    sender: Sender,
}

impl Outbox {
    /// Space for [`BATCH`] packets of up to this many bytes each.
    pub fn new(bytes_each: usize) -> Outbox {
        let bytes_each = bytes_each.max(1);
        Outbox {
            bytes: vec![0; bytes_each * BATCH],
            bytes_each,
            packets: Vec::with_capacity(BATCH),
            sender: Sender::new(BATCH),
        }
    }

    /// The number of packets to send.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are no packets to send.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the bytes of one more packet of this size, for the caller to write. They contain earlier data or zeros.
    /// Without an address, the packet goes to the connected address. `None` if the outbox is full, or the packet is too long for it.
    pub fn push(&mut self, to: Option<SocketAddr>, length: usize) -> Option<&mut [u8]> {
        let at = self.packets.len();
        if at >= BATCH || length > self.bytes_each {
            return None;
        }
        let bytes = self.bytes.get_mut(at * self.bytes_each..)?.get_mut(..length)?;
        self.packets.push((length, to));
        Some(bytes)
    }

    /// Sends all packets, one after another. If the kernel refuses a packet, counts it and tries the next packet.
    pub fn send(&mut self, socket: &UdpSocket) -> Sent {
        let mut load = self.sender.load();
        for (bytes, (length, to)) in self.bytes.chunks_exact(self.bytes_each).zip(&self.packets) {
            load.add(*to, None, bytes.get(..*length).into_iter());
        }
        let count = load.len();
        let mut said = Sent::default();
        while said.sent + said.refused < count {
            match load.call(socket, said.sent + said.refused..count, 0) {
                Ok(taken) => said.sent += taken,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    said.why = Some(errno);
                    said.refused += 1;
                }
            }
        }
        self.packets.clear();
        said
    }
}
