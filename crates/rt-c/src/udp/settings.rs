//! The settings of a server's socket.

use std::ffi::c_char;
use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_rt::udp::{
    BackendChoice, BufferNeed, IoBackend, Stamps, Traffic, TrialSettings, UdpSettings, Undelivered,
};

use super::address;
use crate::failure::{EvenkeelStatus, Failure};
use crate::structs::structs;
use crate::text;

/// How packets go between the server and the kernel. EvenkeelUdpSettings.receive and send have this type, and so has EvenkeelUdpReport.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelIoBackend {
    /// The fastest backend in our measurements: Uring for receiving if the library was built with it, and Offloaded in all other cases.
    Auto = 0,
    /// The backend that takes the least CPU time per packet on this machine. The library measures the backends for up to 0.1 s on loopback.
    Measured = 1,
    /// A call for each packet.
    One = 2,
    /// Up to 64 packets per call.
    Batched = 3,
    /// Like Batched, but the kernel takes or returns several packets of one peer as one message (UDP_GRO, UDP_SEGMENT).
    Offloaded = 4,
    /// Receives with one standing request of io_uring. Sends as Offloaded does.
    /// Needs Linux 6.1 and a library that was built with `make install-rt FEATURES=io-uring`.
    /// The request belongs to the thread that first receives. If another thread receives, the socket continues as Offloaded.
    Uring = 5,
}

/// Settings of a socket. All zero (EVENKEEL_INIT) means any port of every interface, and a receive buffer of the system's default size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelUdpSettings {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The address to receive on, such as `0.0.0.0:7777` or `[::]:7777`. Null means any port of every IPv4 interface.
    pub address: *const c_char,
    /// The backend for receiving: one of EvenkeelIoBackend. If the kernel refuses the backend, the socket uses the next simpler one.
    pub receive: u32,
    /// The backend for sending: one of EvenkeelIoBackend.
    pub send: u32,
    /// The longest datagram, in bytes, up to 65,527. 0 means 1,500.
    pub bytes_max: u32,
    /// The maximum number of packets that wait to be sent, up to 65,536. 0 means 512.
    pub queue_packets: u32,
    /// How many players, or other peers, send to the socket. The receive buffer gets room for their packets. 0 means the system's default size.
    pub players: u32,
    /// How many packets each player sends per second. Required if players is not 0.
    pub packets_a_second: u32,
    /// The size of each packet, in bytes. Required if players is not 0.
    pub packet_bytes: u32,
    /// The longest time between two calls that receive, in milliseconds: the tick period plus its lateness. Required if players is not 0.
    pub drain_interval_ms: u32,
    /// If not 0, the kernel reports how long each packet waited.
    pub stamps: u32,
    /// If not 0, the socket counts packets that the network did not deliver.
    pub hears_undelivered: u32,
    /// How long a call that finds no packet polls the device, in microseconds. 0 means that it does not poll.
    pub busy_poll_us: u32,
    /// Always 0.
    pub reserved: u32,
    /// Packets of each player in a tick, up to 65,535, only for the backend Measured. 0 means 1.
    /// The number of players and the packet size are the fields above, or 64 players and 100 bytes if those are 0.
    pub packets_a_peer: u32,
    /// How long the library measures the backends, in milliseconds, up to 10,000, only for the backend Measured. 0 means 100.
    pub trial_ms: u32,
    /// The destination of the test packets, such as `192.0.2.1:9`, only for the backend Measured. At most 4,096 packets of zeros are sent.
    /// Null means that test packets go between two sockets on loopback, and pass no device.
    pub trial_toward: *const c_char,
}

structs! {
    EvenkeelUdpSettings {
        address: *const c_char, receive: u32, send: u32, bytes_max: u32, queue_packets: u32, players: u32, packets_a_second: u32,
        packet_bytes: u32, drain_interval_ms: u32, stamps: u32, hears_undelivered: u32, busy_poll_us: u32, reserved: u32,
        packets_a_peer: u32, trial_ms: u32, trial_toward: *const c_char,
    }
}

fn choice(backend: u32) -> Result<BackendChoice, Failure> {
    Ok(match backend {
        0 => BackendChoice::Auto,
        1 => BackendChoice::Measured,
        2 => BackendChoice::Is(IoBackend::One),
        3 => BackendChoice::Is(IoBackend::Batched),
        4 => BackendChoice::Is(IoBackend::Offloaded),
        5 => BackendChoice::Is(IoBackend::Uring),
        other => return Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("no EvenkeelIoBackend: {other}"))),
    })
}

pub(super) fn number(backend: IoBackend) -> u32 {
    match backend {
        IoBackend::One => EvenkeelIoBackend::One as u32,
        IoBackend::Batched => EvenkeelIoBackend::Batched as u32,
        IoBackend::Offloaded => EvenkeelIoBackend::Offloaded as u32,
        IoBackend::Uring => EvenkeelIoBackend::Uring as u32,
    }
}

/// Reads an address from a text. `None` if the text is null.
///
/// # Safety
/// `text` is null or a text that ends with a zero.
unsafe fn optional_address(text: *const c_char) -> Result<Option<SocketAddr>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { text::text(text) }.and_then(address::parsed).map(Some)
}

/// Converts the settings to the type of the Rust library.
///
/// # Safety
/// The texts are null or end with a zero.
pub(super) unsafe fn settings(asked: EvenkeelUdpSettings) -> Result<UdpSettings, Failure> {
    // SAFETY: as the caller promises.
    let (address, toward) = unsafe { (optional_address(asked.address)?, optional_address(asked.trial_toward)?) };
    let within = |what: &str, number: u32, most: u32, default: usize| match number {
        0 => Ok(default),
        number if number <= most => Ok(number as usize),
        number => Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("{what} {number}"))),
    };
    if asked.reserved != 0 {
        return Err(EvenkeelStatus::UnknownField.into());
    }
    let defaults = UdpSettings::default();
    let needed = [asked.packets_a_second, asked.packet_bytes, asked.drain_interval_ms];
    let buffer = match asked.players {
        0 => None,
        _ if needed.contains(&0) => {
            let what = "players without packets_a_second, packet_bytes or drain_interval_ms";
            return Err(Failure::new(EvenkeelStatus::OutOfRange, what));
        }
        players => Some(BufferNeed {
            players,
            packets_a_second: asked.packets_a_second,
            bytes: asked.packet_bytes,
            drain_interval: Duration::from_millis(asked.drain_interval_ms.into()),
        }),
    };
    let short = |number: u32, default: u16| match number {
        0 => default,
        number => u16::try_from(number).unwrap_or(u16::MAX),
    };
    let trial_ms = within("trial_ms", asked.trial_ms, 10_000, defaults.trial.at_most.as_millis() as usize)?;
    let packets_a_peer = within("packets_a_peer", asked.packets_a_peer, u16::MAX.into(), 1)?;
    let usual = Traffic::default();
    Ok(UdpSettings {
        address: address.unwrap_or(defaults.address),
        receive: choice(asked.receive)?,
        send: choice(asked.send)?,
        traffic: Traffic {
            peers: short(asked.players, usual.peers),
            bytes: short(asked.packet_bytes, usual.bytes),
            packets_a_peer: packets_a_peer as u16,
        },
        trial: TrialSettings { at_most: Duration::from_millis(trial_ms as u64), toward },
        bytes_max: within("bytes_max", asked.bytes_max, 65_527, defaults.bytes_max)?,
        queue_packets: within("queue_packets", asked.queue_packets, 65_536, defaults.queue_packets)?,
        buffer,
        stamps: if asked.stamps == 0 { Stamps::Off } else { Stamps::EachPacket },
        undelivered: if asked.hears_undelivered == 0 { Undelivered::Ignored } else { Undelivered::Reported },
        busy_poll_us: (asked.busy_poll_us != 0).then_some(asked.busy_poll_us),
        ..defaults
    })
}
