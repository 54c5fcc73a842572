//! What a server asks of its UDP socket, and the ways that packets can go.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::buffer::BufferNeed;

/// The most bytes that a datagram can have: 65,507 by version 4 of the protocol, 20 more by version 6.
pub const DATAGRAM_BYTES_MAX: usize = 65_527;

/// How packets go between the server and the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoBackend {
    /// A call for each packet (`recvmsg`, `sendmsg`). What there always is.
    One,
    /// Up to 64 packets a call (`recvmmsg`, `sendmmsg`).
    Batched,
    /// As batched, and several packets of one peer as one (`UDP_GRO`, `UDP_SEGMENT`).
    Offloaded,
    /// Receiving by one standing request of io_uring, with `UDP_GRO`; sending as [`IoBackend::Offloaded`], since io_uring does not send faster.
    /// Needs the crate's feature `io-uring`, Linux 6.1, and the right to use it.
    Uring,
}

impl IoBackend {
    /// Each way, the plainest first.
    pub const ALL: [IoBackend; 4] = [IoBackend::One, IoBackend::Batched, IoBackend::Offloaded, IoBackend::Uring];

    /// What is tried where this one is refused.
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

/// Which way to take. One that is refused here gives way to the next plainer one, and the report says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The one that was the quickest on loopback: [`IoBackend::Uring`] to receive with the feature `io-uring`, and [`IoBackend::Offloaded`]
    /// for all else.
    #[default]
    Auto,
    /// The one that takes the least CPU time a packet here and now, for the expected traffic: see [`TrialSettings`].
    Measured,
    /// This one.
    Is(IoBackend),
}

/// What a tick's packets are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Peers that packets come from and go to in a tick.
    pub peers: u16,
    /// Packets of each of them in a tick.
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

/// How the ways are tried before one is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialSettings {
    /// How long to go on, at most 200 rounds. Three rounds there always are, and opening the sockets takes some milliseconds.
    pub at_most: Duration,
    /// Where packets go that are sent to see what sending takes: at most 4,096 datagrams of the expected length, all zeros. None, and they
    /// go between two sockets of this process on loopback, which passes no device: what a device's driver saves or costs is not seen then.
    /// Receiving is always tried on loopback.
    pub toward: Option<SocketAddr>,
}

impl Default for TrialSettings {
    fn default() -> TrialSettings {
        TrialSettings { at_most: Duration::from_millis(100), toward: None }
    }
}

/// Whether the kernel tells how long packets waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamps {
    /// No.
    #[default]
    Off,
    /// It stamps each packet when it first has it (`SO_TIMESTAMPNS`), and [`Received::waited_ns`](super::Received::waited_ns) tells.
    EachPacket,
}

/// Whether to hear of packets that the network did not deliver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undelivered {
    /// No: the socket is not disturbed by what peers that are gone, or whoever makes up their answers, cause.
    #[default]
    Unheard,
    /// Yes (`IP_RECVERR`), as [`Udp::failures`](super::Udp::failures): what routers and peers say of unreachable hosts and ports. Nothing
    /// vouches for who says it.
    Told,
}

/// What a server asks of its socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UdpSettings {
    /// The address to receive on.
    pub address: SocketAddr,
    /// The way to receive.
    pub receive: BackendChoice,
    /// The way to send.
    pub send: BackendChoice,
    /// What a tick's packets are like.
    pub traffic: Traffic,
    /// How the ways are tried, where one is to be measured.
    pub trial: TrialSettings,
    /// The longest datagram to receive or send, in bytes, 1 to 65,527. The rest of a longer one is cut off, and told.
    pub bytes_max: usize,
    /// The most packets that wait to be sent, 1 to 65,536.
    pub queue_packets: usize,
    /// The most packets that one call of [`Udp::receive`](super::Udp::receive) gives.
    pub receive_packets_max: usize,
    /// What the receive buffer has to hold; none leaves it as the system has it.
    pub buffer: Option<BufferNeed>,
    /// Whether the kernel tells how long packets waited.
    pub stamps: Stamps,
    /// Whether to hear of packets that the network did not deliver.
    pub undelivered: Undelivered,
    /// How long a call that finds nothing asks the device for packets, in microseconds (`SO_BUSY_POLL`): burns that much at each such call.
    /// More than the system has needs CAP_NET_ADMIN.
    pub busy_poll_us: Option<u32>,
}

impl Default for UdpSettings {
    /// Any port of every interface, and what suits 64 players.
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

/// What was the quickest in most of what was measured, on loopback.
pub(super) fn usual() -> IoBackend {
    if cfg!(feature = "io-uring") { IoBackend::Uring } else { IoBackend::Offloaded }
}
