//! `Udp`: a server's socket. It receives and sends many packets a call, and lets the kernel merge and split the packets of one peer.
//! `Udp` counts refused, dropped and truncated packets, and measures how long packets waited.
//!
//! ```
//! use evenkeel_rt::udp::{Udp, UdpSettings};
//!
//! let settings = UdpSettings { address: "127.0.0.1:0".parse()?, ..UdpSettings::default() };
//! let (mut server, mut client) = (Udp::open(settings)?, Udp::open(settings)?);
//! client.send(server.local_address(), b"move left")?;
//! client.flush();
//! // In each tick: drain, move the world, send, flush.
//! let (incoming, outgoing) = server.halves();
//! let counts = incoming.receive(|packet| {
//!     let _ = outgoing.send(packet.from, b"moved"); // the counters include packets that find the queue full
//! });
//! outgoing.flush();
//! assert_eq!(counts.packets, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When it helps
//!
//! For one session of 64 players, `Udp` gains little.
//! 3,840 packets a second each way take under 1 % of a core with a plain loop of `recv_from` and `send_to`.
//! `Udp` helps if many sessions share a machine, for proxies and bots, and if a peer gets several packets a tick.
//! In the last case, a packet costs a half to a quarter.
//! Every user gets the counters of drops and waits, and the size of the receive buffer.

mod batch;
mod buffer;
mod failures;
mod receive;
mod report;
mod send;
mod settings;
mod socket;
mod trial;
mod tried;

use std::net::UdpSocket;

use evenkeel_sys::Errno;
use evenkeel_sys::udp::{self, Sharing};

pub use buffer::{BufferNeed, kernel_bytes};
pub use failures::PeerFailure;
pub use receive::{Counts, Incoming, ReceiveCounters, Received};
pub use report::{BackendRefusal, BufferReport, Half, UdpReport};
pub use send::{Flushed, Outgoing, SendCounters, SendError};
pub use settings::{
    BackendChoice, DATAGRAM_BYTES_MAX, IoBackend, Stamps, Traffic, TrialSettings, UdpSettings, Undelivered,
};

pub use socket::{Udp, UdpError};
pub use tried::{BackendTrial, BackendTrialRow};

use crate::thread::ApplyStatus;
use socket::bind;

impl Udp {
    /// Opens the socket, and allocates all memory. It reserves about 5 MB of address space; only used pages take up memory.
    /// If the kernel refuses a setting, the socket works without that setting, and the report says so.
    ///
    /// # Errors
    /// If the address is not available, or the process may open no more files.
    pub fn open(settings: UdpSettings) -> Result<Udp, UdpError> {
        let trial = trial::needed(&settings).then(|| trial::run(&settings));
        let socket = bind(settings.address, Sharing::Alone)?;
        Udp::from_socket(socket, settings, trial, ApplyStatus::NotRequested)
    }

    /// Opens a socket for each of 1 to 64 CPUs on the same address. The kernel delivers a packet to the socket of the CPU that handles it.
    /// A thread pinned to that CPU then finds the packet in its cache. The device (RSS) or the system (RPS) chooses the CPU.
    /// Other sockets of the same user can join the address.
    ///
    /// ```
    /// use evenkeel_rt::udp::{Udp, UdpSettings};
    ///
    /// let settings = UdpSettings { address: "127.0.0.1:0".parse()?, ..UdpSettings::default() };
    /// let cpus = [0];
    /// let sockets = Udp::open_sharded(settings, &cpus)?;
    /// for (mut udp, cpu) in sockets.into_iter().zip(cpus) {
    ///     // Run a thread for each, pinned to this CPU (`ThreadConfig::cpus`).
    ///     println!("CPU {cpu}: {} packets", udp.receive(|_| {}).packets);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the address is not available, or `cpus` names no CPU or more than 64.
    pub fn open_sharded(settings: UdpSettings, cpus: &[usize]) -> Result<Vec<Udp>, UdpError> {
        let refuse = |why| UdpError { address: settings.address, doing: "share the address among CPUs", why };
        if cpus.is_empty() || cpus.len() > udp::SHARDS_MAX {
            return Err(refuse(Errno::INVAL));
        }
        let trial = trial::needed(&settings).then(|| trial::run(&settings));
        let mut sockets: Vec<UdpSocket> = Vec::with_capacity(cpus.len());
        let mut address = settings.address;
        for _ in cpus {
            let socket = bind(address, Sharing::SameUser)?;
            address = socket.local_addr().map_err(|error| refuse(Errno::from(&error)))?;
            sockets.push(socket);
        }
        let shard = match sockets.first().map(|first| udp::shard_by_cpu(first, cpus)) {
            Some(Err(errno)) => ApplyStatus::Refused(errno),
            _ => ApplyStatus::Active,
        };
        sockets.into_iter().map(|socket| Udp::from_socket(socket, settings, trial.clone(), shard)).collect()
    }
}
