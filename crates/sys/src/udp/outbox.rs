//! Sending: up to 64 messages a system call (sendmmsg(2)), each of which may be several packets of one length that the kernel or the device
//! takes apart (`UDP_SEGMENT`). [`Load`] is one such call, filled in place; [`Outbox`] is the simple thing on top: packets with their bytes.

use std::marker::PhantomData;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::ops::Range;
use std::os::fd::AsRawFd;

use super::address::Name;
use super::control::UDP_SEGMENT;
use super::inbox::{BATCH, NO_MESSAGE};
use super::last;
use crate::errno::Errno;

/// One control message of two bytes: a header of 16 and the number, rounded up.
const CONTROL_WORDS: usize = 3;

/// The memory that calls are filled into.
pub struct Sender {
    names: Vec<Name>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in it are written before each call and followed only while what they lead to is borrowed.
unsafe impl Send for Sender {}

impl Sender {
    /// Room for [`BATCH`] messages of so many parts together.
    pub fn new(parts: usize) -> Sender {
        Sender {
            names: vec![Name::none(); BATCH],
            controls: vec![[0; CONTROL_WORDS]; BATCH],
            parts: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; parts.max(BATCH)],
            headers: vec![NO_MESSAGE; BATCH],
        }
    }

    /// A call that holds nothing yet.
    pub fn load<'a>(&'a mut self) -> Load<'a> {
        Load { sender: self, messages: 0, parts: 0, bytes: PhantomData }
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

/// Messages that one or more calls are to send. They borrow their bytes.
pub struct Load<'a> {
    sender: &'a mut Sender,
    messages: usize,
    parts: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> Load<'a> {
    /// How many messages it holds.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Adds a message: to this address, or to the one that the socket is connected to; all parts one after another; taken apart into
    /// packets of `segment_bytes`, the last perhaps shorter, if that is given. False, and nothing is added, if there is no room for it.
    pub fn add(
        &mut self,
        to: Option<SocketAddr>,
        segment_bytes: Option<NonZeroU16>,
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
            // The kernel only reads what is to be sent.
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

    /// Sends the messages of this range in one call that never waits, as far as the kernel takes them, and says how many it took: at least
    /// one.
    ///
    /// # Errors
    /// What the kernel said to the first of them; it has taken none. `EINVAL` for a range that is empty or out of bounds.
    pub fn send(&mut self, socket: &UdpSocket, range: Range<usize>) -> Result<usize, Errno> {
        self.call(socket, range, libc::MSG_DONTWAIT)
    }

    /// As [`Load::send`] of this one, by the call that is for one (sendmsg(2)): where a sandbox forbids the other.
    ///
    /// # Errors
    /// As there.
    pub fn send_one(&mut self, socket: &UdpSocket, at: usize) -> Result<(), Errno> {
        let header = self.sender.headers[..self.messages].get(at).ok_or(Errno::INVAL)?;
        // SAFETY: the header leads to parts that are borrowed for as long as this lives, and to a name and a control buffer of the
        // sender's, which stay where they are; all with their true lengths.
        let done = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header.msg_hdr, libc::MSG_DONTWAIT) };
        if done < 0 { Err(last()) } else { Ok(()) }
    }

    fn call(&mut self, socket: &UdpSocket, range: Range<usize>, flags: libc::c_int) -> Result<usize, Errno> {
        let headers = self.sender.headers[..self.messages].get_mut(range).filter(|some| !some.is_empty());
        let headers = headers.ok_or(Errno::INVAL)?;
        // SAFETY: each header leads to parts that are borrowed for as long as this lives, and to a name and a control buffer of the
        // sender's, which stay where they are; all with their true lengths. The kernel writes to nothing but the headers.
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

/// `struct cmsghdr` and the length of a segment, as the kernel takes it.
fn segment_control(bytes: NonZeroU16) -> [u64; CONTROL_WORDS] {
    // SAFETY: the macro only adds up.
    let length = unsafe { libc::CMSG_LEN(size_of::<u16>() as libc::c_uint) };
    let mut words = [0_u64; CONTROL_WORDS];
    // SAFETY: the words are aligned for a message's header, and 24 bytes: room for the header of 16 and the number of two.
    unsafe {
        let header = words.as_mut_ptr().cast::<libc::cmsghdr>();
        (*header).cmsg_len = length as _;
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = UDP_SEGMENT;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(bytes.get());
    }
    words
}

/// What became of the packets of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The kernel took so many.
    pub sent: usize,
    /// It did not take so many others.
    pub refused: usize,
    /// What it said to the last of those.
    pub why: Option<Errno>,
}

/// Sends packets, and waits where the socket has no room for them.
#[derive(Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    bytes_each: usize,
    packets: Vec<(usize, Option<SocketAddr>)>,
    sender: Sender,
}

impl Outbox {
    /// Room for [`BATCH`] packets of up to so many bytes each.
    pub fn new(bytes_each: usize) -> Outbox {
        let bytes_each = bytes_each.max(1);
        Outbox {
            bytes: vec![0; bytes_each * BATCH],
            bytes_each,
            packets: Vec::with_capacity(BATCH),
            sender: Sender::new(BATCH),
        }
    }

    /// How many packets wait to be sent.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The bytes of one more packet of this length, to be written: they hold what was written there last, or zeros. No address is the one
    /// that the socket is connected to. None when it is full, or the packet too long for it.
    pub fn push(&mut self, to: Option<SocketAddr>, length: usize) -> Option<&mut [u8]> {
        let at = self.packets.len();
        if at >= BATCH || length > self.bytes_each {
            return None;
        }
        let bytes = self.bytes.get_mut(at * self.bytes_each..)?.get_mut(..length)?;
        self.packets.push((length, to));
        Some(bytes)
    }

    /// Sends all, one after another. What the kernel refuses is counted, and the next is tried.
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
