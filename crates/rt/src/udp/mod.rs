//! `Udp`: a server's socket. It receives and sends many packets a call, lets the kernel merge and take apart what goes to and comes from
//! one peer, and says what was refused, dropped, cut off, and how long packets waited.
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
//!     let _ = outgoing.send(packet.from, b"moved"); // full: the counters tell
//! });
//! outgoing.flush();
//! assert_eq!(counts.packets, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it is worth
//!
//! For one session of 64 players little: 60 packets a second from and to each are 3,840 each way, which take under 1 % of a core with a plain
//! loop of `recv_from` and `send_to`, and somewhat less with this. It pays when many sessions share a machine, for proxies, and for whoever
//! drives many bots; and where a peer gets or sends several packets a tick, which then cost a half to a quarter each. The drops, the waits and
//! the receive buffer are worth it to anybody.

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
    /// Opens it, and takes all memory that it will use: about 5 MB of addresses, of which what is used becomes memory. What is refused beside
    /// the address is told in the report, and done without.
    ///
    /// # Errors
    /// If the address can't be had, or the process may have no more files.
    pub fn open(settings: UdpSettings) -> Result<Udp, UdpError> {
        let trial = trial::needed(&settings).then(|| trial::run(&settings));
        let socket = bind(settings.address, Sharing::Alone)?;
        Udp::of(socket, settings, trial, ApplyStatus::NotRequested)
    }

    /// Opens a socket for each of these CPUs on the same address: packets that a CPU handles go to its socket, so that a thread which stays
    /// on that CPU works on them where they are in its cache. Which CPU handles a packet is the device's choice (RSS) or the system's (RPS).
    /// Other sockets of the same user can join the address. 1 to 64 CPUs.
    ///
    /// # Errors
    /// If the address can't be had, for no CPUs and for too many.
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
        sockets.into_iter().map(|socket| Udp::of(socket, settings, trial.clone(), shard)).collect()
    }
}
