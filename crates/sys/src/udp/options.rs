//! Options of a server's UDP socket. Each option fails on some machine, so each is a separate call with a result.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::address::Name;
use super::control::{CONTROL_WORDS, UDP_GRO, UDP_SEGMENT, each_control, word};
use super::{last, set_option, set_option_of};
use crate::errno::Errno;

/// The parts of classic BPF opcodes (`linux/filter.h`).
const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const MODULO: u16 = 0x94;
const RETURN_NUMBER: u16 = 0x06;
const RETURN_RESULT: u16 = 0x16;
/// The CPU that runs the filter, which also handles the packet (`SKF_AD_OFF + SKF_AD_CPU`).
const THIS_CPU: u32 = 0xFFFF_F000 + 36;

/// The maximum number of sockets that share an address.
pub const SHARDS_MAX: usize = 64;

/// Whether other sockets may use the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only this socket may use the address.
    Alone,
    /// Sockets of the same user with the same option (`SO_REUSEPORT`) may use the address too.
    SameUser,
}

/// A non-blocking socket with this address.
/// If it is the IPv6 wildcard address, the socket also receives IPv4 packets, unless the system forbids that (`net.ipv6.bindv6only`).
///
/// # Errors
/// `EADDRINUSE`, `EADDRNOTAVAIL`, `EAFNOSUPPORT`, or `EACCES` for a port below 1024 without the privilege; otherwise the kernel's error.
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

/// Merges received packets of one sender and one size that arrive together (`UDP_GRO`, since Linux 5.0).
///
/// # Errors
/// `ENOPROTOOPT` if the kernel is too old.
pub fn merge_received(socket: &UdpSocket) -> Result<(), Errno> {
    set_option_of(socket, libc::SOL_UDP, UDP_GRO, 1)
}

/// Splits every sent message into packets of this many bytes, unless the message sets its own size (`UDP_SEGMENT`, since Linux 4.18).
/// 0 disables the setting. If the device cannot split messages, the first send fails.
///
/// # Errors
/// `ENOPROTOOPT` if the kernel is too old.
pub fn split_sent(socket: &UdpSocket, segment_bytes: u16) -> Result<(), Errno> {
    set_option_of(socket, libc::SOL_UDP, UDP_SEGMENT, u32::from(segment_bytes))
}

/// Makes the kernel report with each packet how many packets the socket has dropped, once it has dropped any (`SO_RXQ_OVFL`).
///
/// # Errors
/// The kernel's error.
pub fn report_dropped(socket: &UdpSocket) -> Result<(), Errno> {
    set_option(socket, libc::SO_RXQ_OVFL, 1)
}

/// When no packet waits, polls the device for packets for this many microseconds (`SO_BUSY_POLL`). Reads the value back.
///
/// # Errors
/// `EPERM` for more than `net.core.busy_read` without CAP_NET_ADMIN; `ENOPROTOOPT` if the kernel cannot poll.
pub fn set_busy_poll_us(socket: &UdpSocket, us: u32) -> Result<u32, Errno> {
    set_option(socket, libc::SO_BUSY_POLL, us)?;
    let mut now = 0_u32;
    let mut length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most four bytes to `now`, and the written length.
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

/// Requests a receive buffer above `net.core.rmem_max` (`SO_RCVBUFFORCE`). The kernel doubles the number.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN in the network namespace's own user namespace.
pub fn force_receive_buffer_bytes(socket: &UdpSocket, bytes: u32) -> Result<(), Errno> {
    set_option(socket, libc::SO_RCVBUFFORCE, bytes)
}

/// Collects network errors about undelivered packets for [`undelivered`] (`IP_RECVERR`). Each error also makes one call to send or receive fail.
///
/// # Errors
/// The kernel's error.
pub fn keep_undelivered(socket: &UdpSocket) -> Result<(), Errno> {
    let is_v4 = socket.local_addr().map_err(|error| Errno::from(&error))?.is_ipv4();
    if !is_v4 {
        set_option_of(socket, libc::SOL_IPV6, libc::IPV6_RECVERR, 1)?;
    }
    // A dual-stack socket has IPv4 packets too. An IPv6-only socket also accepts this option.
    match set_option_of(socket, libc::SOL_IP, libc::IP_RECVERR, 1) {
        Err(errno) if is_v4 => Err(errno),
        _ => Ok(()),
    }
}

/// A packet that the network, or this machine, reported as undelivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The packet's destination.
    pub to: Option<SocketAddr>,
    /// Why the packet did not arrive: `ECONNREFUSED` for a closed port, `EHOSTUNREACH`, `EMSGSIZE`, and so on.
    pub why: Errno,
}

/// The next undelivered packet. `None` if no undelivered packet is left.
///
/// # Errors
/// The kernel's error.
pub fn undelivered(socket: &UdpSocket) -> Result<Option<Undelivered>, Errno> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut name = Name::none();
    // SAFETY: a message header may consist of zeros.
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

/// Delivers each packet to the socket of the CPU that handles it, among sockets that share an address.
/// The first socket gets the packets of the first of `cpus`, and so on. Packets of other CPUs are spread by CPU number, so that all sockets get some.
/// Call it once, on any of the sockets, when all sockets exist (`SO_ATTACH_REUSEPORT_CBPF`, since Linux 4.5).
///
/// # Errors
/// `EINVAL` for no CPUs, more than [`SHARDS_MAX`], or a socket that does not share its address; otherwise the kernel's error.
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
    // SAFETY: the kernel reads the program and its steps, whose number is true. The kernel checks and copies them.
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
