//! `Inbox` and `Outbox`: up to 64 packets a system call (recvmmsg(2), sendmmsg(2)). All memory is taken at the start.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use super::{last, stamp};
use crate::errno::Errno;

/// The most packets of one call.
pub const BATCH: usize = 64;

/// Room for one control message of three times, and some more: what does not fit is cut off by the kernel.
pub(super) const CONTROL_WORDS: usize = 24;

/// What to do while there is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Sleep until there is one, or the socket's read timeout has passed. Gives that one at once; more may wait behind it.
    Sleep,
    /// Come back at once, with all that there are.
    Not,
    /// Come back at once, with one at the most: quicker, where no more is expected.
    NotForOne,
}

/// A packet that was received.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// What it says; only the beginning if it was `truncated`.
    pub bytes: &'a [u8],
    /// Who says to have sent it.
    pub from: Option<SocketAddr>,
    /// When the kernel first had it, on the wall clock in nanoseconds; none unless [`super::stamp_received`] was asked for.
    pub stamp_ns: Option<u64>,
    /// It was longer than there was room for.
    pub truncated: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Got {
    length: usize,
    from: Option<SocketAddr>,
    stamp_ns: Option<u64>,
    truncated: bool,
}

/// Receives packets.
pub struct Inbox {
    bytes: Vec<u8>,
    bytes_each: usize,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    got: Vec<Got>,
}

impl Inbox {
    /// Room for [`BATCH`] packets of up to so many bytes each.
    pub fn new(bytes_each: usize) -> Inbox {
        let bytes_each = bytes_each.max(1);
        // SAFETY: a socket address of nothing but zeros is a value of it.
        let name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        Inbox {
            bytes: vec![0; bytes_each * BATCH],
            bytes_each,
            names: vec![name; BATCH],
            controls: vec![[0; CONTROL_WORDS]; BATCH],
            got: Vec::with_capacity(BATCH),
        }
    }

    /// Receives at least one packet, and says how many. The packets of the call before are gone.
    ///
    /// # Errors
    /// `EAGAIN` if there was none within the wait; `EINTR` after a signal; `ECONNREFUSED` if a packet of ours found nobody; what else the
    /// kernel said.
    pub fn receive(&mut self, socket: &UdpSocket, wait: Wait) -> Result<usize, Errno> {
        match wait {
            // A call for more looks for a second packet before it gives the first.
            Wait::Sleep => self.receive_up_to::<1>(socket, 0),
            Wait::Not => self.receive_up_to::<BATCH>(socket, libc::MSG_DONTWAIT),
            Wait::NotForOne => self.receive_up_to::<1>(socket, libc::MSG_DONTWAIT),
        }
    }

    fn receive_up_to<const N: usize>(&mut self, socket: &UdpSocket, flags: libc::c_int) -> Result<usize, Errno> {
        self.got.clear();
        let mut parts = [NO_PART; N];
        for (part, buffer) in parts.iter_mut().zip(self.bytes.chunks_exact_mut(self.bytes_each)) {
            *part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        }
        let mut headers = [NO_MESSAGE; N];
        let rooms = self.names.iter_mut().zip(&mut self.controls).zip(&mut parts);
        for (header, ((name, control), part)) in headers.iter_mut().zip(rooms) {
            header.msg_hdr.msg_name = (&raw mut *name).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control) as _;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header points to a name, a control buffer and a part of its own with their true lengths; all live and stay where
        // they are until the call returns, and nothing else reads them meanwhile.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                N as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| last())?;
        for (header, name) in headers.iter().zip(&self.names).take(count) {
            self.got.push(Got {
                length: (header.msg_len as usize).min(self.bytes_each),
                from: address(name, header.msg_hdr.msg_namelen),
                stamp_ns: stamp::received_ns(&header.msg_hdr),
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            });
        }
        Ok(count)
    }

    /// One packet of the last call.
    pub fn packet(&self, at: usize) -> Option<Packet<'_>> {
        let got = self.got.get(at)?;
        let bytes = self.bytes.get(at * self.bytes_each..)?.get(..got.length)?;
        Some(Packet { bytes, from: got.from, stamp_ns: got.stamp_ns, truncated: got.truncated })
    }

    /// All packets of the last call.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        (0..self.got.len()).filter_map(|at| self.packet(at))
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox")
            .field("bytes_each", &self.bytes_each)
            .field("packets", &self.got.len())
            .finish_non_exhaustive()
    }
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

/// Sends packets.
#[derive(Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    bytes_each: usize,
    packets: Vec<(usize, Option<SocketAddr>)>,
}

impl Outbox {
    /// Room for [`BATCH`] packets of up to so many bytes each.
    pub fn new(bytes_each: usize) -> Outbox {
        let bytes_each = bytes_each.max(1);
        Outbox { bytes: vec![0; bytes_each * BATCH], bytes_each, packets: Vec::with_capacity(BATCH) }
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
        // Headers for 64 are 7 KB to write, which a single packet would wait for.
        if self.packets.len() <= 1 { self.send_up_to::<1>(socket) } else { self.send_up_to::<BATCH>(socket) }
    }

    fn send_up_to<const N: usize>(&mut self, socket: &UdpSocket) -> Sent {
        let mut parts = [NO_PART; N];
        let mut names = [const { Name { none: () } }; N];
        let mut headers = [NO_MESSAGE; N];
        let buffers = self.bytes.chunks_exact_mut(self.bytes_each).zip(&self.packets);
        let rooms = parts.iter_mut().zip(&mut names).zip(&mut headers);
        for ((buffer, (length, to)), ((part, name), header)) in buffers.zip(rooms) {
            *part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: (*length).min(buffer.len()) };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            if let Some(to) = to {
                header.msg_hdr.msg_namelen = name.set(*to);
                header.msg_hdr.msg_name = (&raw mut *name).cast();
            }
        }
        let count = self.packets.len().min(N);
        let mut said = Sent::default();
        while said.sent + said.refused < count {
            let rest = &mut headers[said.sent + said.refused..count];
            // SAFETY: each header points to a part, and perhaps a name, of its own with their true lengths; all live and stay where they
            // are until the call returns.
            let done = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, 0) };
            match usize::try_from(done) {
                Ok(taken) if taken > 0 => said.sent += taken,
                _ if last() == Errno::INTR => {}
                _ => {
                    said.why = Some(last());
                    said.refused += 1;
                }
            }
        }
        self.packets.clear();
        said
    }
}

const NO_PART: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

const NO_MESSAGE: libc::mmsghdr = {
    // SAFETY: null pointers and lengths of nothing are a message header.
    unsafe { std::mem::zeroed() }
};

/// An address as the kernel takes it.
union Name {
    none: (),
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    /// Sets it, and gives its length.
    fn set(&mut self, to: SocketAddr) -> libc::socklen_t {
        match to {
            SocketAddr::V4(to) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: to.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.ip().octets()) },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(to) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: to.port().to_be(),
                    sin6_flowinfo: to.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: to.ip().octets() },
                    sin6_scope_id: to.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }
}

fn address(name: &libc::sockaddr_storage, length: libc::socklen_t) -> Option<SocketAddr> {
    let length = length as usize;
    match i32::from(name.ss_family) {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the storage is larger than this, aligned for it, and the kernel has filled in so much.
            let v4 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
