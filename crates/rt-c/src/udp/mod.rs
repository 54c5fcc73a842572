//! The socket of a server, which sends or receives many packets with one call.

mod address;
mod report;
mod settings;

use std::ffi::c_void;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

use evenkeel_rt::Errno;
use evenkeel_rt::udp::{Incoming, Outgoing, SendError, Udp, UdpError, UdpReport};

use crate::failure::{EvenkeelStatus, Failure, caught, no_function};
use crate::handle::{self, handles};
use crate::structs::{self, structs};

pub use address::*;
pub use report::*;
pub use settings::{EvenkeelIoBackend, EvenkeelUdpSettings};

use address::{filled, meant};
use settings::settings;

/// A server's socket.
#[derive(Debug)]
pub struct EvenkeelUdp(());

/// The value behind an [`EvenkeelUdp`]. Each half is for one thread at a time.
/// So one thread may send while another thread receives. The callback `each` may answer the packet that it gets.
pub(crate) struct Socket {
    address: SocketAddr,
    /// `None` on systems where sockets have no file descriptor.
    descriptor: Option<i32>,
    report: UdpReport,
    incoming: Mutex<Incoming>,
    outgoing: Mutex<Outgoing>,
}

impl Socket {
    fn new(udp: Udp) -> Socket {
        let (address, descriptor, report) = (udp.local_address(), descriptor(&udp), udp.report().clone());
        let (incoming, outgoing) = udp.into_halves();
        Socket { address, descriptor, report, incoming: Mutex::new(incoming), outgoing: Mutex::new(outgoing) }
    }
}

#[cfg(unix)]
fn descriptor(udp: &Udp) -> Option<i32> {
    use std::os::fd::{AsFd, AsRawFd};

    Some(udp.as_fd().as_raw_fd())
}

#[cfg(not(unix))]
fn descriptor(_: &Udp) -> Option<i32> {
    None
}

handles! { EvenkeelUdp, 256 of Socket; }

/// The value of a field whose number the kernel does not report.
pub const EVENKEEL_UNKNOWN: u64 = 0x7fff_ffff_ffff_ffff;

/// The maximum number of sockets that share an address.
const SHARDS_MAX: usize = 64;

/// Locks a half of the socket. Fails if another call uses that half.
fn half<T>(half: &Mutex<T>) -> Result<MutexGuard<'_, T>, Failure> {
    half.try_lock().map_err(handle::refused)
}

/// A received packet. Its pointers are valid until the function that gets the packet returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelPacket {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The sender's address, which may be forged.
    pub from: EvenkeelAddress,
    /// The payload.
    pub bytes: *const u8,
    /// The length of the payload.
    pub bytes_count: usize,
    /// How long the packet waited in the kernel, in nanoseconds. EVENKEEL_UNKNOWN unless the settings request time stamps.
    pub waited_ns: u64,
    /// 1 if the packet was longer than bytes_max, and its rest is cut off. 0 otherwise.
    pub is_truncated: u32,
    /// Always 0.
    pub reserved: u32,
}

/// A function that the library calls with each received packet. It must return: no exception and no longjmp may leave it.
/// The function may answer with evenkeel_udp_send and evenkeel_udp_flush on the same socket.
/// Meanwhile, calls that receive, or report about receiving, return EVENKEEL_STATUS_BUSY.
pub type EvenkeelOnPacket = Option<unsafe extern "C" fn(packet: *const EvenkeelPacket, context: *mut c_void)>;

/// The counts of one call that received packets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelReceived {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The number of packets.
    pub packets: u64,
    /// The sum of the packets' payloads, in bytes.
    pub bytes: u64,
    /// How many of the packets were cut off, because they were too long.
    pub truncated: u64,
    /// Errors that the network or the kernel reported during the call.
    pub errors: u32,
    /// 1 if the call stopped at its limit, so that more packets may wait. 0 otherwise.
    pub is_bound_reached: u32,
}

/// The counts of one call that sent the queued packets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelFlushed {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// Packets that the kernel accepted.
    pub sent: u64,
    /// Packets that the kernel refused. They are dropped.
    pub refused: u64,
    /// Packets that stay queued, because the kernel had no room.
    pub waiting: u64,
}

structs! {
    EvenkeelPacket {
        from: EvenkeelAddress, bytes: *const u8, bytes_count: usize, waited_ns: u64, is_truncated: u32, reserved: u32,
    }
    EvenkeelReceived { packets: u64, bytes: u64, truncated: u64, errors: u32, is_bound_reached: u32 }
    EvenkeelFlushed { sent: u64, refused: u64, waiting: u64 }
}

impl From<UdpError> for Failure {
    fn from(error: UdpError) -> Failure {
        let status = match error.why {
            Errno::OPNOTSUPP => EvenkeelStatus::Unsupported,
            _ => EvenkeelStatus::Refused,
        };
        Failure::new(status, error)
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        let status = match error {
            SendError::TooLong => EvenkeelStatus::OutOfRange,
            SendError::Full => EvenkeelStatus::NoRoom,
        };
        Failure::new(status, error)
    }
}

/// Opens a socket. Returns EVENKEEL_STATUS_REFUSED if the kernel refuses the address.
///
/// Threads: any. Free the handle with evenkeel_udp_free.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init, whose text is null or ends with a zero; `udp` may be written. A null `udp` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_new(
    asked: *const EvenkeelUdpSettings,
    udp: *mut *mut EvenkeelUdp,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let settings = unsafe { settings(structs::get(asked)?) }?;
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(udp, || Ok(Socket::new(Udp::open(settings)?))) }
    })
}

/// Opens `cpus_count` sockets on the same address, one for each CPU (1 to 64, numbered from 0), and writes them to `udps`.
/// The kernel puts a packet into the socket of the CPU that handles it. A thread that stays on that CPU finds the packet in the CPU's cache.
/// The device (RSS) or the system (RPS) chooses which CPU handles a packet. Packets of other CPUs are spread over all sockets.
/// Other sockets of the same user can join the address. Either all sockets are opened, or none.
/// Returns EVENKEEL_STATUS_REFUSED if the kernel refuses the address. EvenkeelUdpReport.shard says whether the kernel sorts packets by CPU.
///
/// Threads: any. Free each handle with evenkeel_udp_free.
///
/// # Safety
/// `asked` as for evenkeel_udp_new; `cpus` is null or points to `cpus_count` numbers.
/// `udps` is null or points to `cpus_count` places that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_new_sharded(
    asked: *const EvenkeelUdpSettings,
    cpus: *const u32,
    cpus_count: usize,
    udps: *mut *mut EvenkeelUdp,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let settings = unsafe { settings(structs::get(asked)?) }?;
        structs::puttable(cpus)?;
        structs::puttable(udps)?;
        if !(1..=SHARDS_MAX).contains(&cpus_count) {
            return Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("sockets for {cpus_count} CPUs")));
        }
        // SAFETY: as this function's caller promises; the pointer is neither null nor misaligned.
        let cpus = unsafe { std::slice::from_raw_parts(cpus, cpus_count) };
        if let Some(twice) = cpus.iter().enumerate().find(|(at, cpu)| cpus[..*at].contains(cpu)) {
            return Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("CPU {} twice", twice.1)));
        }
        let cpus: Vec<usize> = cpus.iter().map(|cpu| *cpu as usize).collect();
        let mut given: Vec<*mut EvenkeelUdp> = Vec::with_capacity(cpus.len());
        for udp in Udp::open_sharded(settings, &cpus)? {
            match handle::put_away(Socket::new(udp)) {
                Ok(handle) => given.push(handle),
                Err(failure) => {
                    given.iter().for_each(|handle| drop(handle::take(*handle)));
                    return Err(failure);
                }
            }
        }
        for (at, handle) in given.into_iter().enumerate() {
            // SAFETY: as this function's caller promises: there is a place for each CPU.
            unsafe { structs::put(udps.add(at), handle) }?;
        }
        Ok(())
    })
}

/// Calls `each` with every waiting packet, up to `at_most`. Never waits for packets.
///
/// Threads: one at a time. Another thread may send meanwhile.
///
/// # Safety
/// `each` is null or a function that takes this context; `received` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_receive(
    udp: *mut EvenkeelUdp,
    at_most: usize,
    each: EvenkeelOnPacket,
    context: *mut c_void,
    received: *mut EvenkeelReceived,
) -> EvenkeelStatus {
    caught(|| {
        let each = each.ok_or_else(no_function)?;
        // SAFETY: as this function's caller promises. The check comes first, because received packets cannot be put back.
        unsafe { structs::fillable(received) }?;
        let counts = handle::shared(udp, |udp| {
            Ok(half(&udp.incoming)?.receive_at_most(at_most, |packet| {
                let packet = EvenkeelPacket {
                    size: size_of::<EvenkeelPacket>() as u32,
                    version: crate::EVENKEEL_ABI_VERSION,
                    from: filled(packet.from),
                    bytes: packet.bytes.as_ptr(),
                    bytes_count: packet.bytes.len(),
                    waited_ns: packet.waited_ns.unwrap_or(EVENKEEL_UNKNOWN),
                    is_truncated: packet.is_truncated.into(),
                    reserved: 0,
                };
                // SAFETY: as this function's caller promises; the packet stays valid until the function returns.
                unsafe { each(&raw const packet, context) };
            }))
        })?;
        let found = EvenkeelReceived {
            size: 0,
            version: 0,
            packets: counts.packets as u64,
            bytes: counts.bytes,
            truncated: counts.truncated as u64,
            errors: counts.errors,
            is_bound_reached: counts.is_bound_reached.into(),
        };
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(received, found) }
    })
}

/// Queues a packet. Returns EVENKEEL_STATUS_OUT_OF_RANGE if the packet is longer than bytes_max.
/// Returns EVENKEEL_STATUS_NO_ROOM if the queue is full and the kernel accepts no more now. In that case the packet is lost.
///
/// Threads: one at a time. Another thread may receive meanwhile. The function that evenkeel_udp_receive calls may send.
///
/// # Safety
/// `to` is null or points to a struct prepared by evenkeel_init; `bytes` is null or points to `bytes_count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_send(
    udp: *mut EvenkeelUdp,
    to: *const EvenkeelAddress,
    bytes: *const u8,
    bytes_count: usize,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let to = meant(unsafe { structs::get(to) }?)?;
        structs::puttable(bytes)?;
        if bytes_count > evenkeel_rt::udp::DATAGRAM_BYTES_MAX {
            return Err(SendError::TooLong.into());
        }
        // SAFETY: as this function's caller promises; the pointer is not null.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, bytes_count) };
        handle::shared(udp, |udp| Ok(half(&udp.outgoing)?.send(to, bytes)?))
    })
}

/// Sends the queued packets, as many as the kernel accepts. Never waits.
///
/// Threads: one at a time. Another thread may receive meanwhile.
///
/// # Safety
/// `flushed` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_flush(udp: *mut EvenkeelUdp, flushed: *mut EvenkeelFlushed) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises. Check first, because a sent packet cannot be called back.
        unsafe { structs::fillable(flushed) }?;
        let done = handle::shared(udp, |udp| Ok(half(&udp.outgoing)?.flush()))?;
        let (sent, refused, waiting) = (done.sent as u64, done.refused as u64, done.waiting as u64);
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(flushed, EvenkeelFlushed { size: 0, version: 0, sent, refused, waiting }) }
    })
}

/// Writes to `address` the address that the socket receives on.
///
/// Threads: any, at any time.
///
/// # Safety
/// `address` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_local_address(
    udp: *const EvenkeelUdp,
    address: *mut EvenkeelAddress,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(udp, |udp| Ok(udp.address))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(address, filled(found)) }
    })
}

/// Writes to `descriptor` the socket's file descriptor, to wait for packets and other events (poll, epoll).
/// The descriptor is readable while packets wait in the kernel. Packets that remain from the last call because of a limit do not make it readable.
/// The descriptor belongs to the library: do not close it, and do not read from it.
/// Returns EVENKEEL_STATUS_UNSUPPORTED on systems without file descriptors.
///
/// Threads: any, at any time.
///
/// # Safety
/// `descriptor` may be written. A null `descriptor` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_descriptor(udp: *const EvenkeelUdp, descriptor: *mut i32) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(udp, |udp| Ok(udp.descriptor))?.ok_or(EvenkeelStatus::Unsupported)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(descriptor, found) }
    })
}

/// Closes the socket.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_udp_free(udp: *mut EvenkeelUdp) -> EvenkeelStatus {
    caught(|| handle::take(udp).map(drop))
}
