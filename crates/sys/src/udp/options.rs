//! What a server asks of its UDP socket. Each is refused on some machine or other, so that each is a call of its own with an answer.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::address::Name;
use super::control::{CONTROL_WORDS, UDP_GRO, UDP_SEGMENT, each_control, word};
use super::{last, set_option, set_option_of};
use crate::errno::Errno;

/// What opcodes of the kernel's first packet filter are made of (`linux/filter.h`).
const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const MODULO: u16 = 0x94;
const RETURN_NUMBER: u16 = 0x06;
const RETURN_RESULT: u16 = 0x16;
/// The CPU that runs the filter, which is the one that handles the packet (`SKF_AD_OFF + SKF_AD_CPU`).
const THIS_CPU: u32 = 0xFFFF_F000 + 36;

/// The most sockets that share an address.
pub const SHARDS_MAX: usize = 64;

/// Who else may have the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody.
    Alone,
    /// Sockets of the same user that ask for the same (`SO_REUSEPORT`).
    SameUser,
}

/// A socket of this address that never waits. An address of the sixth version takes packets of the fourth, too, if it is that of every
/// interface and the system does not say otherwise (`net.ipv6.bindv6only`).
///
/// # Errors
/// `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES` for a port below 1024 without a right to it, `EAFNOSUPPORT`; what else the kernel said.
pub fn open(address: SocketAddr, sharing: Sharing) -> Result<UdpSocket, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if sharing == Sharing::SameUser {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(UdpSocket::from(socket))
}

/// Has the kernel give packets of one sender and one length that came together as one (`UDP_GRO`, since Linux 5.0).
///
/// # Errors
/// `ENOPROTOOPT` where the kernel is too old.
pub fn merge_received(socket: &UdpSocket) -> Result<(), Errno> {
    set_option_of(socket, libc::SOL_UDP, UDP_GRO, 1)
}

/// Has the kernel take every message apart into packets of so many bytes that does not say otherwise itself; 0 for none (`UDP_SEGMENT`,
/// since Linux 4.18). That the device can't is seen with the first one that is sent.
///
/// # Errors
/// `ENOPROTOOPT` where the kernel is too old.
pub fn split_sent(socket: &UdpSocket, segment_bytes: u16) -> Result<(), Errno> {
    set_option_of(socket, libc::SOL_UDP, UDP_SEGMENT, u32::from(segment_bytes))
}

/// Makes the kernel report with each packet how many the socket has dropped, once it has dropped any (`SO_RXQ_OVFL`).
///
/// # Errors
/// What the kernel said.
pub fn tell_dropped(socket: &UdpSocket) -> Result<(), Errno> {
    set_option(socket, libc::SO_RXQ_OVFL, 1)
}

/// Has the kernel ask the device for packets, for so many microseconds, when there are none to receive (`SO_BUSY_POLL`). Reads it back.
///
/// # Errors
/// `EPERM` for more than `net.core.busy_read` without CAP_NET_ADMIN; `ENOPROTOOPT` where the kernel can't.
pub fn set_busy_poll_us(socket: &UdpSocket, us: u32) -> Result<u32, Errno> {
    set_option(socket, libc::SO_BUSY_POLL, us)?;
    let mut now = 0_u32;
    let mut length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most four bytes to `now`, and the length that it wrote.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BUSY_POLL,
            (&raw mut now).cast(),
            &raw mut length,
        )
    };
    if done == 0 { Ok(now) } else { Err(last()) }
}

/// Asks for a receive buffer beyond `net.core.rmem_max` (`SO_RCVBUFFORCE`); the kernel doubles the number.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN in the network namespace's own user namespace.
pub fn force_receive_buffer_bytes(socket: &UdpSocket, bytes: u32) -> Result<(), Errno> {
    set_option(socket, libc::SO_RCVBUFFORCE, bytes)
}

/// Has the kernel keep what the network said of packets that did not arrive, for [`undelivered`] (`IP_RECVERR`). A call to send or receive
/// fails once for each.
///
/// # Errors
/// What the kernel said.
pub fn keep_undelivered(socket: &UdpSocket) -> Result<(), Errno> {
    let is_v4 = socket.local_addr().map_err(|error| Errno::from(&error))?.is_ipv4();
    if !is_v4 {
        set_option_of(socket, libc::SOL_IPV6, libc::IPV6_RECVERR, 1)?;
    }
    // A socket of both versions has packets of the fourth, too, and one of the sixth alone does not mind.
    match set_option_of(socket, libc::SOL_IP, libc::IP_RECVERR, 1) {
        Err(errno) if is_v4 => Err(errno),
        _ => Ok(()),
    }
}

/// A packet of which the network, or the machine itself, said that it did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// Where it was to go.
    pub to: Option<SocketAddr>,
    /// Why it did not get there: `ECONNREFUSED` if nobody has the port, `EHOSTUNREACH`, `EMSGSIZE`, and so on.
    pub why: Errno,
}

/// The next packet that did not arrive; none if there are no more.
///
/// # Errors
/// What the kernel said.
pub fn undelivered(socket: &UdpSocket) -> Result<Option<Undelivered>, Errno> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut name = Name::none();
    // SAFETY: a message header of nothing is one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of::<Name>() as libc::socklen_t;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header points to a name and a control buffer with their true lengths, which outlive the call.
    let done = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    if done < 0 {
        return match last() {
            Errno::AGAIN => Ok(None),
            errno => Err(errno),
        };
    }
    let mut why = None;
    each_control(&header, |level, kind, data| {
        if let (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) = (level, kind) {
            why = word(data, 0).and_then(|errno| i32::try_from(errno).ok()).map(Errno::from_raw);
        }
    });
    Ok(Some(Undelivered { to: name.get(header.msg_namelen as usize), why: why.unwrap_or(Errno::IO) }))
}

/// Has a packet go to the socket of the CPU that handles it, among those that share the address: the first of them for packets of the
/// first of `cpus`, and so on; packets of other CPUs go by their number, so that all sockets get some (`SO_ATTACH_REUSEPORT_CBPF`, since
/// Linux 4.5). To be called once, on any of them, when all are there.
///
/// # Errors
/// `EINVAL` for no CPUs, more than [`SHARDS_MAX`], or a socket that does not share; what else the kernel said.
pub fn shard_by_cpu(socket: &UdpSocket, cpus: &[usize]) -> Result<(), Errno> {
    let shards = u32::try_from(cpus.len()).map_err(|_| Errno::INVAL)?;
    if cpus.is_empty() || cpus.len() > SHARDS_MAX {
        return Err(Errno::INVAL);
    }
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = vec![step(LOAD_WORD, 0, 0, THIS_CPU)];
    for (shard, cpu) in (0..shards).zip(cpus) {
        let cpu = u32::try_from(*cpu).map_err(|_| Errno::INVAL)?;
        steps.push(step(JUMP_IF_EQUAL, 0, 1, cpu));
        steps.push(step(RETURN_NUMBER, 0, 0, shard));
    }
    steps.push(step(MODULO, 0, 0, shards));
    steps.push(step(RETURN_RESULT, 0, 0, 0));
    let program = libc::sock_fprog { len: steps.len() as libc::c_ushort, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel reads the program and the steps that it leads to, of which it has the true number, checks and copies them.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(last()) }
}
