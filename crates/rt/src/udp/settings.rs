//! The settings of a UDP socket, and its backends.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::buffer::BufferNeed;

/// The maximum number of bytes of a datagram: 65,507 in IPv4, 20 more in IPv6.
pub const DATAGRAM_BYTES_MAX: usize = 65_527;

/// How the socket passes packets to and from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoBackend {
    /// A call for each packet (`recvmsg`, `sendmsg`). This backend is always available.
    One,
    /// Up to 64 packets a call (`recvmmsg`, `sendmmsg`).
    Batched,
    /// Like `Batched`, but several packets of one peer are one message (`UDP_GRO`, `UDP_SEGMENT`).
    Offloaded,
    /// Receives with one standing io_uring request and `UDP_GRO`. Sends as [`IoBackend::Offloaded`] does, because io_uring sends no faster.
    /// Needs the crate's feature `io-uring`, Linux 6.1, and permission to use io_uring.
    Uring,
}

impl IoBackend {
    /// All backends. The simplest backend comes first.
    pub const ALL: [IoBackend; 4] = [IoBackend::One, IoBackend::Batched, IoBackend::Offloaded, IoBackend::Uring];

    /// The next simpler backend, to use if the kernel refuses this one. `None` for the simplest backend.
    pub(crate) fn plainer(self) -> Option<IoBackend> {
        match self {
            IoBackend::One => None,
            IoBackend::Batched => Some(IoBackend::One),
            IoBackend::Offloaded => Some(IoBackend::Batched),
            IoBackend::Uring => Some(IoBackend::Offloaded),
        }
    }
}

impl fmt::Display for IoBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            IoBackend::One => "one",
            IoBackend::Batched => "batched",
            IoBackend::Offloaded => "offloaded",
            IoBackend::Uring => "uring",
        })
    }
}

/// Which backend to use. If the kernel refuses the backend, the socket uses the next simpler one, and the report says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The fastest backend in measurements on loopback.
    /// The fastest is [`IoBackend::Uring`] for receiving with the feature `io-uring`, and [`IoBackend::Offloaded`] in all other cases.
    #[default]
    Auto,
    /// The backend that takes the least CPU time per packet on this machine, for the expected traffic: see [`TrialSettings`].
    Measured,
    /// Use this backend.
    Is(IoBackend),
}

/// The expected packets of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Peers that send or get packets in a tick.
    pub peers: u16,
    /// Packets of each peer in a tick.
    pub packets_a_peer: u16,
    /// Bytes of a packet.
    pub bytes: u16,
}

impl Default for Traffic {
    /// 64 peers with one packet of 100 bytes each.
    fn default() -> Traffic {
        Traffic { peers: 64, packets_a_peer: 1, bytes: 100 }
    }
}

/// How the socket measures the backends for [`BackendChoice::Measured`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialSettings {
    /// The time limit. The trial measures 3 to 200 rounds. Opening the sockets takes some milliseconds more.
    pub at_most: Duration,
    /// The address to measure sending with. It gets at most 4,096 datagrams of the expected length, all zeros.
    /// `None` sends over loopback, which does not show the cost of a device driver. Receiving is always measured on loopback.
    pub toward: Option<SocketAddr>,
}

impl Default for TrialSettings {
    fn default() -> TrialSettings {
        TrialSettings { at_most: Duration::from_millis(100), toward: None }
    }
}

/// Whether the kernel reports how long packets waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamps {
    /// The kernel reports no times.
    #[default]
    Off,
    /// The kernel stamps each packet on arrival (`SO_TIMESTAMPNS`), for [`Received::waited_ns`](super::Received::waited_ns).
    EachPacket,
}

/// Whether the socket reports packets that the network did not deliver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undelivered {
    /// Ignores such packets: absent peers, and forged reports about peers, do not affect the socket.
    #[default]
    Ignored,
    /// Reports such packets (`IP_RECVERR`). [`Udp::failures`](super::Udp::failures) lists unreachable hosts and ports, as routers and peers report them.
    /// Nothing authenticates these reports.
    Reported,
}

/// Settings of a socket.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::udp::{
///     BackendChoice, BufferNeed, IoBackend, Stamps, Traffic, TrialSettings, Udp, UdpSettings, Undelivered,
/// };
///
/// let tick = Duration::from_millis(20);
/// let udp = Udp::open(UdpSettings {
///     address: "127.0.0.1:0".parse()?,
///     receive: BackendChoice::Measured,
///     send: BackendChoice::Is(IoBackend::Batched),
///     traffic: Traffic { peers: 64, packets_a_peer: 2, bytes: 120 },
///     trial: TrialSettings { at_most: Duration::from_millis(20), toward: None },
///     buffer: Some(BufferNeed { players: 64, packets_a_second: 60, bytes: 120, drain_interval: 2 * tick }),
///     stamps: Stamps::EachPacket,
///     undelivered: Undelivered::Reported,
///     ..UdpSettings::default()
/// })?;
/// print!("{}", udp.report()); // what is active, and what is missing
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UdpSettings {
    /// The local address on which the socket receives.
    pub address: SocketAddr,
    /// The backend for receiving.
    pub receive: BackendChoice,
    /// The backend for sending.
    pub send: BackendChoice,
    /// The expected packets of a tick.
    pub traffic: Traffic,
    /// How to measure the backends.
    pub trial: TrialSettings,
    /// The longest datagram to receive or send, in bytes, 1 to 65,527. A longer received datagram is truncated, and counted.
    pub bytes_max: usize,
    /// Maximum number of packets that wait to be sent, 1 to 65,536.
    pub queue_packets: usize,
    /// Maximum number of packets that one call of [`Udp::receive`](super::Udp::receive) returns.
    pub receive_packets_max: usize,
    /// The traffic that the receive buffer must hold. `None` keeps the system's buffer size.
    pub buffer: Option<BufferNeed>,
    /// Whether the kernel reports how long packets waited.
    pub stamps: Stamps,
    /// Whether the socket reports packets that the network did not deliver.
    pub undelivered: Undelivered,
    /// How long a call that finds no packet polls the device, in microseconds (`SO_BUSY_POLL`). Each such call uses that much CPU time.
    /// A longer time than the system's needs CAP_NET_ADMIN.
    pub busy_poll_us: Option<u32>,
}

impl Default for UdpSettings {
    /// Any port on every interface, and sizes for 64 players.
    fn default() -> UdpSettings {
        UdpSettings {
            address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            receive: BackendChoice::default(),
            send: BackendChoice::default(),
            traffic: Traffic::default(),
            trial: TrialSettings::default(),
            bytes_max: 1500,
            queue_packets: 512,
            receive_packets_max: 4096,
            buffer: None,
            stamps: Stamps::default(),
            undelivered: Undelivered::default(),
            busy_poll_us: None,
        }
    }
}

/// The backend that was the fastest in most measurements on loopback.
pub(super) fn fastest() -> IoBackend {
    if cfg!(feature = "io-uring") { IoBackend::Uring } else { IoBackend::Offloaded }
}
