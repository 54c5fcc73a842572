//! What became of the wishes that a socket was opened with.

use std::fmt;
use std::net::UdpSocket;

use evenkeel_sys::{Errno, udp};

use super::buffer::BufferNeed;
use super::settings::IoBackend;
use super::tried::BackendTrial;
use crate::thread::ApplyStatus;

/// Which half of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The one that receives.
    Receive,
    /// The one that sends.
    Send,
}

/// A way that is not to be had here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendRefusal {
    /// Of which half.
    pub half: Half,
    /// The way.
    pub way: IoBackend,
    /// What the kernel said; `ENOSYS` also where the crate was built without the feature.
    pub why: Errno,
}

/// What became of the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferReport {
    /// What the formula says, in bytes as the kernel counts them.
    pub needed_bytes: u64,
    /// What there is now, read back; none if it could not be read.
    pub got_bytes: Option<u64>,
    /// Whether more than the system allows could be asked for (`SO_RCVBUFFORCE`).
    pub forced: ApplyStatus,
    /// What the system allows an ordinary process to ask for (`net.core.rmem_max`), which the kernel doubles; none if it could not be read.
    pub rmem_max_bytes: Option<u64>,
}

impl BufferReport {
    /// How much is missing, in bytes as the kernel counts them; none if that is not known.
    pub fn missing_bytes(&self) -> Option<u64> {
        Some(self.needed_bytes.saturating_sub(self.got_bytes?))
    }
}

/// What became of each wish.
#[derive(Clone, Debug, PartialEq)]
pub struct UdpReport {
    /// The way that packets come.
    pub receive_backend: IoBackend,
    /// The way that packets go. A device that can't take messages apart is seen later: [`Outgoing::way`](super::Outgoing::way) tells.
    pub send_backend: IoBackend,
    /// Ways that were to be taken and are not to be had.
    pub refused: Vec<BackendRefusal>,
    /// [`UdpSettings::buffer`](super::UdpSettings::buffer), if asked for.
    pub buffer: Option<BufferReport>,
    /// Whether drops are told: by the kernel when it is asked (`SO_MEMINFO`, since Linux 4.12), and where it can't be, with each packet
    /// (`SO_RXQ_OVFL`).
    pub drops: ApplyStatus,
    /// [`UdpSettings::stamps`](super::UdpSettings::stamps).
    pub stamps: ApplyStatus,
    /// [`UdpSettings::undelivered`](super::UdpSettings::undelivered).
    pub undelivered: ApplyStatus,
    /// [`UdpSettings::busy_poll_us`](super::UdpSettings::busy_poll_us).
    pub busy_poll: ApplyStatus,
    /// Whether packets go to the socket of the CPU that handles them.
    pub shard: ApplyStatus,
    /// How the ways were tried, if they were.
    pub trial: Option<BackendTrial>,
}

impl fmt::Display for UdpReport {
    /// A line for each thing that somebody may want to know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "receives {}, sends {}", self.receive_backend, self.send_backend)?;
        for BackendRefusal { half, way, why } in &self.refused {
            let verb = if *half == Half::Receive { "receiving" } else { "sending" };
            writeln!(f, "{verb} {way} is not to be had: {why}")?;
        }
        if let Some(buffer) = self.buffer {
            write!(f, "receive buffer: {} bytes needed, ", buffer.needed_bytes)?;
            match buffer.got_bytes {
                Some(got) => write!(f, "{got} there")?,
                None => write!(f, "unknown how many there")?,
            }
            match (buffer.missing_bytes(), buffer.rmem_max_bytes) {
                (Some(1..), Some(max)) => writeln!(
                    f,
                    ": net.core.rmem_max of {max} stands in the way; set it to {}, or give the server CAP_NET_ADMIN",
                    buffer.needed_bytes.div_ceil(2)
                )?,
                _ => writeln!(f)?,
            }
        }
        let options = [
            ("dropped packets told", self.drops),
            ("stamps", self.stamps),
            ("undelivered packets told", self.undelivered),
            ("busy polling", self.busy_poll),
            ("a socket for each CPU", self.shard),
        ];
        for (name, got) in options {
            match got {
                ApplyStatus::Refused(errno) => writeln!(f, "{name}: refused: {errno}")?,
                ApplyStatus::NoEffect => writeln!(f, "{name}: the kernel took it and does not do it")?,
                ApplyStatus::NotRequested | ApplyStatus::Active | ApplyStatus::Suspended => {}
            }
        }
        self.trial.as_ref().map_or(Ok(()), |trial| write!(f, "{trial}"))
    }
}

pub(super) fn got<T>(wish: Option<T>, ask: impl FnOnce(T) -> Result<bool, Errno>) -> ApplyStatus {
    match wish.map(ask) {
        None => ApplyStatus::NotRequested,
        Some(Ok(true)) => ApplyStatus::Active,
        Some(Ok(false)) => ApplyStatus::NoEffect,
        Some(Err(errno)) => ApplyStatus::Refused(errno),
    }
}

/// Asks for a buffer, beyond what the system allows where that may be; never for less than there is.
pub(super) fn ask_buffer(socket: &UdpSocket, need: BufferNeed) -> BufferReport {
    let needed_bytes = need.buffer_bytes();
    let read = || udp::receive_buffer_bytes(socket).ok();
    let mut forced = ApplyStatus::NotRequested;
    if read().is_none_or(|there| there < needed_bytes) {
        // What the system allows needs no right; it takes what it can get.
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

/// `net.core.rmem_max`: what an ordinary process may ask for; the kernel doubles it.
fn rmem_max_bytes() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok()?.trim().parse().ok()
}
