//! Which settings of a socket are active, its counters, and the measurements of the backends.

use std::ffi::c_char;

use evenkeel_rt::udp::{BackendRefusal, Half, IoBackend};

use super::address::{EvenkeelAddress, filled};
use super::settings::number;
use super::{EVENKEEL_UNKNOWN, EvenkeelUdp, half};
use crate::clock::{EvenkeelSummary, summary};
use crate::failure::{EvenkeelStatus, caught};
use crate::handle;
use crate::structs::{self, structs};
use crate::thread::apply_status;

/// Which settings of a socket are active, and its counters since the start.
/// Each setting has an EvenkeelApplyStatus. If the kernel refused it, its error number (errno) follows, else 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelUdpReport {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The port that the socket receives on.
    pub port: u32,
    /// The backend for receiving now: One, Batched, Offloaded or Uring of EvenkeelIoBackend.
    pub receive_backend: u32,
    /// The backend for sending now: One, Batched or Offloaded of EvenkeelIoBackend.
    pub send_backend: u32,
    /// Always 0.
    pub reserved: u32,
    /// The size that the receive buffer needs for EvenkeelUdpSettings.players, in bytes. EVENKEEL_UNKNOWN if that field is 0.
    pub buffer_needed_bytes: u64,
    /// The size of the receive buffer, in bytes. EVENKEEL_UNKNOWN if it could not be read, or EvenkeelUdpSettings.players is 0.
    pub buffer_got_bytes: u64,
    /// Packets received.
    pub packets_in: u64,
    /// Packets that the kernel accepted for sending.
    pub packets_out: u64,
    /// Packets that the socket had no room for. EVENKEEL_UNKNOWN if the kernel does not report them.
    pub dropped: u64,
    /// Packets that the kernel refused to send.
    pub refused: u64,
    /// Why the socket does not use the requested or best backend for receiving: an errno. 0 if the socket uses it.
    /// ENOSYS can also mean that the library was built without this backend.
    pub receive_backend_errno: i32,
    /// Why the socket does not use the requested or best backend for sending: an errno. 0 if the socket uses it.
    pub send_backend_errno: i32,
    /// Whether packets go to the socket of the CPU that handles them: see evenkeel_udp_new_sharded.
    pub shard: u32,
    /// The errno of the field above.
    pub shard_errno: i32,
    /// Whether the kernel reports dropped packets.
    pub drops: u32,
    /// The errno of the field above.
    pub drops_errno: i32,
    /// The status of EvenkeelUdpSettings.stamps.
    pub stamps: u32,
    /// The errno of the field above.
    pub stamps_errno: i32,
    /// The status of EvenkeelUdpSettings.hears_undelivered.
    pub undelivered: u32,
    /// The errno of the field above.
    pub undelivered_errno: i32,
    /// The status of EvenkeelUdpSettings.busy_poll_us.
    pub busy_poll: u32,
    /// The errno of the field above.
    pub busy_poll_errno: i32,
    /// Whether the kernel accepted a receive buffer above the system's limit (SO_RCVBUFFORCE).
    pub buffer_forced: u32,
    /// The errno of the field above.
    pub buffer_forced_errno: i32,
    /// The largest receive buffer that an ordinary process may request (net.core.rmem_max), in bytes. The kernel doubles this value.
    /// EVENKEEL_UNKNOWN if it could not be read, or EvenkeelUdpSettings.players is 0.
    pub rmem_max_bytes: u64,
    /// Bytes of the received packets, without headers.
    pub bytes_in: u64,
    /// Bytes of the packets that the kernel accepted for sending.
    pub bytes_out: u64,
    /// Received packets that were cut off, because they were too long.
    pub truncated: u64,
    /// Errors of the network or the kernel while receiving.
    pub errors: u64,
    /// System calls that received packets.
    pub calls_in: u64,
    /// System calls that sent packets.
    pub calls_out: u64,
    /// Packets that were not queued, because the queue was full or the packet was too long.
    pub not_queued: u64,
    /// How often the kernel had no room for a packet.
    pub stalls: u64,
    /// Packets that are queued now.
    pub waiting: u64,
    /// Undelivered packets of all peers that evenkeel_udp_failure does not list.
    pub failures_of_others: u64,
}

/// The measurements of the backends. They exist only for the backend Measured.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelUdpTrial {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The number of rounds.
    pub rounds: u64,
    /// How long the measurement took, in nanoseconds.
    pub took_ns: u64,
    /// CPU time per received packet, in nanoseconds, the median of the rounds. The order is One, Batched, Offloaded and Uring.
    /// Below 0 for a backend that is not available or was not measured.
    pub receive_ns: [f64; 4],
    /// CPU time per sent packet, in the same order. On loopback this time includes the kernel's work for the receiver.
    pub send_ns: [f64; 4],
}

/// A peer that some packets did not reach.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelUdpFailure {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The peer.
    pub to: EvenkeelAddress,
    /// Why the last of these packets did not reach the peer: an errno.
    pub why_errno: i32,
    /// Always 0.
    pub reserved: u32,
    /// How many packets did not reach the peer.
    pub packets: u64,
}

structs! {
    EvenkeelUdpReport {
        port: u32, receive_backend: u32, send_backend: u32, reserved: u32, buffer_needed_bytes: u64, buffer_got_bytes: u64,
        packets_in: u64, packets_out: u64, dropped: u64, refused: u64, receive_backend_errno: i32, send_backend_errno: i32, shard: u32,
        shard_errno: i32, drops: u32, drops_errno: i32, stamps: u32, stamps_errno: i32, undelivered: u32, undelivered_errno: i32,
        busy_poll: u32, busy_poll_errno: i32, buffer_forced: u32, buffer_forced_errno: i32, rmem_max_bytes: u64, bytes_in: u64,
        bytes_out: u64, truncated: u64, errors: u64, calls_in: u64, calls_out: u64, not_queued: u64, stalls: u64, waiting: u64,
        failures_of_others: u64,
    }
    EvenkeelUdpTrial { rounds: u64, took_ns: u64, receive_ns: [f64; 4], send_ns: [f64; 4] }
    EvenkeelUdpFailure { to: EvenkeelAddress, why_errno: i32, reserved: u32, packets: u64 }
}

/// The errno of the first backend that was refused for this half. Later refusals belong to the backends that were tried next.
fn first_refused(refused: &[BackendRefusal], of: Half) -> i32 {
    refused.iter().find(|refused| refused.half == of).map_or(0, |refused| refused.why.raw())
}

/// Writes to `report` which settings of the socket are active, and its counters.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread receives or sends.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_report(udp: *mut EvenkeelUdp, report: *mut EvenkeelUdpReport) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(udp, |udp| {
            let (mut incoming, outgoing) = (half(&udp.incoming)?, half(&udp.outgoing)?);
            let (received, sent) = (incoming.counters(), outgoing.counters());
            let (known, buffer) = (&udp.report, udp.report.buffer);
            let [(shard, shard_errno), (drops, drops_errno), (stamps, stamps_errno)]: [(u32, i32); 3] =
                [known.shard, known.drops, known.stamps].map(apply_status);
            let [(undelivered, undelivered_errno), (busy_poll, busy_poll_errno)]: [(u32, i32); 2] =
                [known.undelivered, known.busy_poll].map(apply_status);
            let (buffer_forced, buffer_forced_errno) = buffer.map_or((0, 0), |buffer| apply_status(buffer.forced));
            Ok(EvenkeelUdpReport {
                size: 0,
                version: 0,
                port: udp.address.port().into(),
                receive_backend: number(incoming.backend()),
                send_backend: number(outgoing.backend()),
                reserved: 0,
                buffer_needed_bytes: buffer.map_or(EVENKEEL_UNKNOWN, |buffer| buffer.needed_bytes),
                buffer_got_bytes: buffer.and_then(|buffer| buffer.got_bytes).unwrap_or(EVENKEEL_UNKNOWN),
                packets_in: received.packets,
                packets_out: sent.packets,
                dropped: received.dropped.unwrap_or(EVENKEEL_UNKNOWN),
                refused: sent.refused,
                receive_backend_errno: first_refused(&known.refused, Half::Receive),
                send_backend_errno: first_refused(&known.refused, Half::Send),
                shard,
                shard_errno,
                drops,
                drops_errno,
                stamps,
                stamps_errno,
                undelivered,
                undelivered_errno,
                busy_poll,
                busy_poll_errno,
                buffer_forced,
                buffer_forced_errno,
                rmem_max_bytes: buffer.and_then(|buffer| buffer.rmem_max_bytes).unwrap_or(EVENKEEL_UNKNOWN),
                bytes_in: received.bytes,
                bytes_out: sent.bytes,
                truncated: received.truncated,
                errors: received.errors,
                calls_in: received.calls,
                calls_out: sent.calls,
                not_queued: sent.not_queued,
                stalls: sent.stalls,
                waiting: outgoing.waiting() as u64,
                failures_of_others: incoming.failures_of_others().saturating_add(outgoing.failures_of_others()),
            })
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, found) }
    })
}

/// Writes to `buffer` a line for each setting: its status when the socket was opened, and what to do about it.
/// `needed` is the number of bytes, with the zero at the end. Returns EVENKEEL_STATUS_TOO_SMALL if the text does not fit.
///
/// Threads: any, at any time. Allocates memory: do not call it in a tick.
///
/// # Safety
/// `buffer` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_report_text(
    udp: *const EvenkeelUdp,
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(needed)?;
        let text = handle::shared(udp, |udp| Ok(udp.report.to_string()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(buffer, size, &text, needed) }
    })
}

/// Writes the measurements of the backends to `trial`. Returns EVENKEEL_STATUS_NO_DATA if neither half requested the backend Measured.
///
/// Threads: any, at any time.
///
/// # Safety
/// `trial` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_trial(udp: *const EvenkeelUdp, trial: *mut EvenkeelUdpTrial) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(udp, |udp| {
            let trial = udp.report.trial.as_ref().ok_or(EvenkeelStatus::NoData)?;
            let of = |backend: IoBackend| trial.rows.iter().find(|row| row.backend == backend);
            Ok(EvenkeelUdpTrial {
                size: 0,
                version: 0,
                rounds: trial.rounds as u64,
                took_ns: trial.took_ns,
                receive_ns: IoBackend::ALL.map(|backend| of(backend).and_then(|row| row.receive_ns).unwrap_or(-1.0)),
                send_ns: IoBackend::ALL.map(|backend| of(backend).and_then(|row| row.send_ns).unwrap_or(-1.0)),
            })
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(trial, found) }
    })
}

/// Writes to `waited` how long packets waited in the kernel.
/// Returns EVENKEEL_STATUS_NO_DATA unless the settings request time stamps and the socket has received packets.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread receives.
///
/// # Safety
/// `waited` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_waited(udp: *const EvenkeelUdp, waited: *mut EvenkeelSummary) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(udp, |udp| Ok(half(&udp.incoming)?.waited_ns()))?.ok_or(EvenkeelStatus::NoData)?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(waited, summary(found)) }
    })
}

/// Writes to `failure` one of the peers that packets did not reach, by its number from 0 on.
/// The first peers are at most 64 for which the kernel refused to send.
/// After these come at most 64 peers that the network reported, if the settings request these reports.
/// Returns EVENKEEL_STATUS_NO_DATA if no peer has this number.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread receives or sends.
///
/// # Safety
/// `failure` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_udp_failure(
    udp: *const EvenkeelUdp,
    number: usize,
    failure: *mut EvenkeelUdpFailure,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(udp, |udp| {
            let (incoming, outgoing) = (half(&udp.incoming)?, half(&udp.outgoing)?);
            let found = outgoing.failures().iter().chain(incoming.failures()).nth(number).copied();
            found.ok_or_else(|| EvenkeelStatus::NoData.into())
        })?;
        let filled = EvenkeelUdpFailure {
            size: 0,
            version: 0,
            to: filled(found.to),
            why_errno: found.why.raw(),
            reserved: 0,
            packets: found.packets,
        };
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(failure, filled) }
    })
}

/// Forgets the peers that packets did not reach, and starts to count again.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread receives or sends.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_udp_forget_failures(udp: *mut EvenkeelUdp) -> EvenkeelStatus {
    caught(|| {
        handle::shared(udp, |udp| {
            let (mut incoming, mut outgoing) = (half(&udp.incoming)?, half(&udp.outgoing)?);
            incoming.forget_failures();
            outgoing.forget_failures();
            Ok(())
        })
    })
}
