//! UDP with the fastest known use of io_uring, for comparison in `make bench`: one multishot receive request that fills a ring of buffers,
//! and one submission per batch of messages. The ring has a single issuer with deferred task work, and a registered socket.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, bail};
use io_uring::types::{BufRingEntry, Fixed, RecvMsgOut};
use io_uring::{IoUring, cqueue, opcode, squeue};

const GROUP: u16 = 0;
const BUFFERS: u16 = 256;
const CONTROL_BYTES: usize = 32;
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

fn ring(entries: u32, socket: &UdpSocket) -> anyhow::Result<IoUring> {
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_cqsize(1024)
        .build(entries)
        .context("set up io_uring")?;
    ring.submitter().register_files(&[socket.as_raw_fd()])?;
    Ok(ring)
}

/// Page-aligned memory.
struct Pages {
    start: *mut u8,
    bytes: usize,
}

impl Pages {
    fn new(bytes: usize) -> anyhow::Result<Pages> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses an unused address.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            bail!("map {bytes} bytes");
        }
        Ok(Pages { start: start.cast(), bytes })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and nothing writes to it any more.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Receives packets.
pub struct Receiver {
    ring: IoUring,
    template: Box<libc::msghdr>,
    entries: Pages,
    buffers: Pages,
    bytes_each: usize,
    tail: u16,
    is_asked: bool,
}

impl Receiver {
    /// A receiver with buffers for packets of this many bytes.
    ///
    /// # Errors
    /// If the kernel does not support this.
    pub fn new(socket: &UdpSocket, bytes: usize) -> anyhow::Result<Receiver> {
        let ring = ring(8, socket)?;
        // SAFETY: a message header may consist of zeros.
        let mut template: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        template.msg_namelen = size_of::<libc::sockaddr_in>() as _;
        template.msg_controllen = CONTROL_BYTES as _;
        // Add one cache line, so that the starts of buffers do not compete for the same cache sets.
        let bytes_each = (16 + 16 + CONTROL_BYTES + bytes).next_multiple_of(128) + 64;
        let entries = Pages::new(usize::from(BUFFERS) * size_of::<BufRingEntry>())?;
        let buffers = Pages::new(usize::from(BUFFERS) * bytes_each)?;
        // SAFETY: the entries are mapped while the ring lives.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries.start as u64, BUFFERS, GROUP, 0) }?;
        let mut receiver = Receiver { ring, template, entries, buffers, bytes_each, tail: 0, is_asked: false };
        (0..BUFFERS).for_each(|buffer| receiver.give(buffer));
        receiver.publish();
        Ok(receiver)
    }

    fn give(&mut self, buffer: u16) {
        let entries = self.entries.start.cast::<BufRingEntry>();
        // SAFETY: the entry is within the mapping. The kernel does not see it before the tail moves.
        let entry = unsafe { &mut *entries.add(usize::from(self.tail & (BUFFERS - 1))) };
        entry.set_addr(self.buffers.start as u64 + (usize::from(buffer) * self.bytes_each) as u64);
        entry.set_len(self.bytes_each as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: the tail is within the first entry.
        let tail =
            unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.start.cast::<BufRingEntry>()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// Passes on all queued packets: the sender, the bytes, and the size of each packet if several were merged.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn drain(&mut self, mut each: impl FnMut(SocketAddr, &[u8], usize)) -> anyhow::Result<()> {
        loop {
            let mut seen = 0;
            while let Some(answer) = { self.ring.completion().next() } {
                if !cqueue::more(answer.flags()) {
                    self.is_asked = false;
                }
                let Some(buffer) = cqueue::buffer_select(answer.flags()) else { continue };
                if answer.result() >= 0 {
                    // SAFETY: the kernel has given this buffer to us.
                    let bytes = unsafe {
                        std::slice::from_raw_parts(
                            self.buffers.start.add(usize::from(buffer) * self.bytes_each),
                            self.bytes_each,
                        )
                    };
                    if let Ok(out) = RecvMsgOut::parse(bytes, &self.template) {
                        each(address(out.name_data()), out.payload_data(), segment(out.control_data()));
                    }
                }
                self.give(buffer);
                seen += 1;
            }
            if seen > 0 {
                self.publish();
            }
            let is_pending = self.ring.submission().taskrun();
            if self.is_asked && !is_pending {
                return Ok(());
            }
            if !self.is_asked {
                let request = opcode::RecvMsgMulti::new(Fixed(0), &raw const *self.template, GROUP).build();
                // SAFETY: the template and the buffers live as long as the ring.
                unsafe { self.ring.submission().push(&request) }?;
                self.is_asked = true;
            }
            self.ring.submit()?;
        }
    }
}

fn address(name: &[u8]) -> SocketAddr {
    let port = u16::from_be_bytes([name[2], name[3]]);
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(name[4], name[5], name[6], name[7])), port)
}

/// The single requested control message: a header of 16 bytes and a number.
fn segment(control: &[u8]) -> usize {
    let word = |at: usize| Some(i32::from_ne_bytes(control.get(at..at + 4)?.try_into().ok()?));
    if (word(8), word(12)) == (Some(libc::SOL_UDP), Some(UDP_GRO)) { word(16).unwrap_or(0) as usize } else { 0 }
}

const MESSAGES: usize = 64;

/// Sends packets.
pub struct Sender {
    ring: IoUring,
    names: Vec<libc::sockaddr_in>,
    parts: Vec<libc::iovec>,
    controls: Vec<[u64; 3]>,
    headers: Vec<libc::msghdr>,
}

impl Sender {
    /// # Errors
    /// If the kernel does not support this.
    pub fn new(socket: &UdpSocket) -> anyhow::Result<Sender> {
        // SAFETY: both structs may consist of zeros.
        let (name, header) = unsafe { (std::mem::zeroed::<libc::sockaddr_in>(), std::mem::zeroed::<libc::msghdr>()) };
        Ok(Sender {
            ring: ring(MESSAGES as u32, socket)?,
            names: vec![name; MESSAGES],
            parts: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MESSAGES],
            controls: vec![[0; 3]; MESSAGES],
            headers: vec![header; MESSAGES],
        })
    }

    /// Sends these messages, at most 64, in one submission, and waits until the kernel has accepted them. Each is split into packets of
    /// this many bytes, unless that is 0.
    ///
    /// # Errors
    /// The kernel's last error.
    pub fn send(&mut self, messages: &[(SocketAddr, &[u8])], segment_bytes: u16) -> anyhow::Result<()> {
        for (at, (to, bytes)) in messages.iter().enumerate().take(MESSAGES) {
            let SocketAddr::V4(to) = to else { bail!("{to} is not of version 4") };
            self.names[at].sin_family = libc::AF_INET as _;
            self.names[at].sin_port = to.port().to_be();
            self.names[at].sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
            self.parts[at] = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let header = &mut self.headers[at];
            header.msg_name = (&raw mut self.names[at]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as _;
            header.msg_iov = &raw mut self.parts[at];
            header.msg_iovlen = 1;
            if segment_bytes > 0 {
                // A header of 16 bytes (length, level and type), and the number.
                let kind = (libc::SOL_UDP as u64) | ((UDP_SEGMENT as u64) << 32);
                self.controls[at] = [18, kind, u64::from(segment_bytes)];
                header.msg_control = (&raw mut self.controls[at]).cast();
                header.msg_controllen = 24;
            }
            let request = opcode::SendMsg::new(Fixed(0), &raw const *header).build().flags(squeue::Flags::empty());
            // SAFETY: everything that the request points to stays until the kernel has answered. The wait is below.
            unsafe { self.ring.submission().push(&request) }?;
        }
        let count = messages.len().min(MESSAGES);
        self.ring.submit_and_wait(count)?;
        let mut refused = 0;
        for _ in 0..count {
            let answer = self.ring.completion().next().context("an answer is missing")?;
            if answer.result() < 0 {
                refused = answer.result();
            }
        }
        if refused < 0 {
            return Err(std::io::Error::from_raw_os_error(-refused)).context("send by io_uring");
        }
        Ok(())
    }
}
