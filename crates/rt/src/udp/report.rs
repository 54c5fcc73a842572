//! `UdpReport`: which settings of a socket are active.

use std::fmt;
use std::net::UdpSocket;

use evenkeel_sys::{Errno, udp};

use super::buffer::BufferNeed;
use super::settings::IoBackend;
use super::tried::BackendTrial;
use crate::thread::ApplyStatus;

/// A half of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The half that receives.
    Receive,
    /// The half that sends.
    Send,
}

/// A backend that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendRefusal {
    /// The half of the socket that requested the backend.
    pub half: Half,
    /// The backend.
    pub backend: IoBackend,
    /// The kernel's error. It is also `ENOSYS` if the crate was built without the feature.
    pub why: Errno,
}

/// The size of the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferReport {
    /// The required size by the formula, in bytes as the kernel counts them.
    pub needed_bytes: u64,
    /// The actual size, read back from the kernel. `None` if it could not be read.
    pub got_bytes: Option<u64>,
    /// Whether the socket could exceed the system's limit (`SO_RCVBUFFORCE`).
    pub forced: ApplyStatus,
    /// The limit for ordinary processes (`net.core.rmem_max`), which the kernel doubles. `None` if it could not be read.
    pub rmem_max_bytes: Option<u64>,
}

impl BufferReport {
    /// How many bytes are missing, as the kernel counts them. `None` if that is not known.
    pub fn missing_bytes(&self) -> Option<u64> {
        Some(self.needed_bytes.saturating_sub(self.got_bytes?))
    }
}

/// Which settings of a socket are active. `Display` writes a line for each problem and each figure.
///
/// ```
/// use evenkeel_rt::udp::{BackendRefusal, BufferReport, Half, Udp, UdpReport, UdpSettings};
///
/// let settings = UdpSettings { address: "127.0.0.1:0".parse()?, ..UdpSettings::default() };
/// let udp = Udp::open(settings)?;
/// let UdpReport { refused, buffer, .. } = udp.report();
/// for BackendRefusal { half, backend, why } in refused {
///     println!("no {backend} for {}: {why}", if *half == Half::Send { "sending" } else { "receiving" });
/// }
/// if let Some(missing) = buffer.as_ref().and_then(BufferReport::missing_bytes) {
///     println!("the receive buffer lacks {missing} bytes");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct UdpReport {
    /// The backend for receiving.
    pub receive_backend: IoBackend,
    /// The backend for sending. If the device cannot split messages, the backend may change later: see [`Outgoing::backend`](super::Outgoing::backend).
    pub send_backend: IoBackend,
    /// Requested backends that the kernel refused.
    pub refused: Vec<BackendRefusal>,
    /// The result of [`UdpSettings::buffer`](super::UdpSettings::buffer). `None` if no buffer was requested.
    pub buffer: Option<BufferReport>,
    /// Whether the kernel reports drops: on request (`SO_MEMINFO`, since Linux 4.12), else with each packet (`SO_RXQ_OVFL`).
    pub drops: ApplyStatus,
    /// The status of [`UdpSettings::stamps`](super::UdpSettings::stamps).
    pub stamps: ApplyStatus,
    /// The status of [`UdpSettings::undelivered`](super::UdpSettings::undelivered).
    pub undelivered: ApplyStatus,
    /// The status of [`UdpSettings::busy_poll_us`](super::UdpSettings::busy_poll_us).
    pub busy_poll: ApplyStatus,
    /// Whether packets go to the socket of the CPU that handles them.
    pub shard: ApplyStatus,
    /// The measurements of the backends. `None` unless a half uses [`BackendChoice::Measured`](super::BackendChoice::Measured).
    pub trial: Option<BackendTrial>,
}

impl fmt::Display for UdpReport {
    /// Writes one line for each fact that an administrator may need.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "receives {}, sends {}", self.receive_backend, self.send_backend)?;
        for BackendRefusal { half, backend, why } in &self.refused {
            let verb = if *half == Half::Receive { "receiving" } else { "sending" };
            writeln!(f, "{verb} {backend} is not available: {why}")?;
        }
        if let Some(buffer) = self.buffer {
            write!(f, "receive buffer: {} bytes needed, ", buffer.needed_bytes)?;
            match buffer.got_bytes {
                Some(got) => write!(f, "{got} there")?,
                None => write!(f, "an unknown number there")?,
            }
            match (buffer.missing_bytes(), buffer.rmem_max_bytes) {
                (Some(1..), Some(max)) => writeln!(
                    f,
                    ": net.core.rmem_max is {max}; set it to {}, or give the server CAP_NET_ADMIN",
                    buffer.needed_bytes.div_ceil(2)
                )?,
                _ => writeln!(f)?,
            }
        }
        let options = [
            ("reports of dropped packets", self.drops),
            ("stamps", self.stamps),
            ("reports of undelivered packets", self.undelivered),
            ("busy polling", self.busy_poll),
            ("a socket for each CPU", self.shard),
        ];
        for (name, got) in options {
            match got {
                ApplyStatus::Refused(errno) => writeln!(f, "{name}: refused: {errno}")?,
                ApplyStatus::NoEffect => writeln!(f, "{name}: the kernel accepted it without effect")?,
                ApplyStatus::NotRequested | ApplyStatus::Active | ApplyStatus::Suspended => {}
            }
        }
        self.trial.as_ref().map_or(Ok(()), |trial| write!(f, "{trial}"))
    }
}

pub(super) fn apply_status<T>(wanted: Option<T>, ask: impl FnOnce(T) -> Result<bool, Errno>) -> ApplyStatus {
    match wanted.map(ask) {
        None => ApplyStatus::NotRequested,
        Some(Ok(true)) => ApplyStatus::Active,
        Some(Ok(false)) => ApplyStatus::NoEffect,
        Some(Err(errno)) => ApplyStatus::Refused(errno),
    }
}

/// Requests a buffer. If permitted, the size exceeds the system's limit. Never requests a smaller buffer than the present one.
pub(super) fn ask_buffer(socket: &UdpSocket, need: BufferNeed) -> BufferReport {
    let needed_bytes = need.buffer_bytes();
    let read = || udp::receive_buffer_bytes(socket).ok();
    let mut forced = ApplyStatus::NotRequested;
    if read().is_none_or(|there| there < needed_bytes) {
        // A size within the system's limit needs no privilege. The kernel cuts a larger size to the limit.
        let plain = udp::set_receive_buffer_bytes(socket, need.option_bytes());
        if plain.is_err() || read().is_none_or(|there| there < needed_bytes) {
            forced = match udp::force_receive_buffer_bytes(socket, need.option_bytes()) {
                Ok(()) => ApplyStatus::Active,
                Err(errno) => ApplyStatus::Refused(errno),
            };
        }
    }
    BufferReport { needed_bytes, got_bytes: read(), forced, rmem_max_bytes: rmem_max_bytes() }
}

/// Reads `net.core.rmem_max`, the limit for ordinary processes. The kernel doubles this value.
fn rmem_max_bytes() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok()?.trim().parse().ok()
}
