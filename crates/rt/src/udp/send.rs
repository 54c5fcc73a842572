//! `Outgoing`: the half of a socket that sends. It queues packets and sends them in few calls.
//! Packets for which the kernel has no room stay queued. It counts refused packets by peer, and sends the other packets.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use evenkeel_sys::Errno;
use evenkeel_sys::udp::{self, Load, Sender};

use super::batch::{Batch, Group, Grouping, SEGMENTS_MAX};
use super::failures::{Failures, PeerFailure};
use super::receive::take_undelivered;
use super::settings::{DATAGRAM_BYTES_MAX, IoBackend, UdpSettings, Undelivered};

/// How often we repeat a call that a signal interrupted.
const SIGNALS_MAX: u32 = 16;
/// The maximum number of parts of one call. A call can have a message for each of 64 peers whose packets were queued alternately.
const PARTS: usize = 64 * SEGMENTS_MAX as usize;

/// Why a packet was not queued. The packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The packet is longer than the settings' `bytes_max`.
    TooLong,
    /// The queue is full, and the kernel has no room now.
    Full,
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SendError::TooLong => "queue a packet: it is longer than the settings' bytes_max; send less, or open the socket with more",
            SendError::Full => {
                "queue a packet: the queue is full and the kernel takes no more now; it goes on when the device has sent some"
            }
        })
    }
}

impl std::error::Error for SendError {}

/// The result of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Packets that the kernel accepted.
    pub sent: usize,
    /// Packets that the kernel refused. They are dropped: see [`Outgoing::failures`].
    pub refused: usize,
    /// Packets that stay queued, because the kernel had no room.
    pub waiting: usize,
}

/// The counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounters {
    /// Packets that the kernel accepted.
    pub packets: u64,
    /// The bytes of these packets, without headers.
    pub bytes: u64,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// Packets that were not queued, for lack of room or because they were too long.
    pub not_queued: u64,
    /// How often the kernel had no room.
    pub stalls: u64,
    /// System calls.
    pub calls: u64,
}

/// The half of a socket that sends.
///
/// ```
/// use evenkeel_rt::udp::{Flushed, Outgoing, PeerFailure, SendError, Udp, UdpSettings};
///
/// let settings = UdpSettings { address: "127.0.0.1:0".parse()?, bytes_max: 1200, ..UdpSettings::default() };
/// let peer = Udp::open(settings)?;
/// let mut outgoing: Outgoing = Udp::open(settings)?.into_halves().1;
/// outgoing.send(peer.local_address(), b"moved")?;
/// assert_eq!(outgoing.send(peer.local_address(), &[0; 2000]), Err(SendError::TooLong));
/// assert_eq!(outgoing.waiting(), 1);
/// let Flushed { sent, waiting, .. } = outgoing.flush();
/// println!("{sent} sent by {}, {waiting} wait", outgoing.backend());
/// println!("{} calls", outgoing.counters().calls);
/// for PeerFailure { to, why, .. } in outgoing.failures() {
///     println!("{to}: {why}");
/// }
/// println!("{} packets to other peers", outgoing.failures_of_others());
/// outgoing.forget_failures();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Outgoing {
    socket: Arc<UdpSocket>,
    sender: Sender,
    batch: Batch,
    backend: IoBackend,
    bytes_max: usize,
    is_v6: bool,
    undelivered: Undelivered,
    /// The segment size of the socket, for messages that do not carry a size.
    socket_segment_bytes: u16,
    counters: SendCounters,
    failures: Failures,
}

/// The result of one system call.
enum Step {
    Taken(usize),
    NoRoom,
    BackendRefusal(Errno),
}

impl Outgoing {
    /// Opens the backend, or the next simpler backend that works. Reports each refused backend.
    pub(super) fn open(
        socket: &Arc<UdpSocket>,
        settings: &UdpSettings,
        wanted: IoBackend,
        mut refused: impl FnMut(IoBackend, Errno),
    ) -> Outgoing {
        let mut backend = wanted;
        if backend == IoBackend::Uring {
            backend = IoBackend::Offloaded;
        }
        if backend == IoBackend::Offloaded
            && let Err(errno) = udp::split_sent(socket, 0)
        {
            refused(backend, errno);
            backend = IoBackend::Batched;
        }
        let segment_bytes_max = settings.bytes_max.min(usize::from(u16::MAX)) as u16;
        let grouping =
            if backend == IoBackend::Offloaded { Grouping::ByPeer { segment_bytes_max } } else { Grouping::Alone };
        let packets = settings.queue_packets.clamp(1, 1 << 16);
        // The buffer has room for at least one packet of any length.
        let bytes = packets.saturating_mul(settings.bytes_max.min(1500)).max(DATAGRAM_BYTES_MAX);
        let key = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        Outgoing {
            socket: Arc::clone(socket),
            sender: Sender::new(PARTS.min(packets.max(64))),
            batch: Batch::new(packets, bytes, grouping, key),
            backend,
            bytes_max: settings.bytes_max,
            is_v6: socket.local_addr().is_ok_and(|address| address.is_ipv6()),
            undelivered: settings.undelivered,
            socket_segment_bytes: 0,
            counters: SendCounters::default(),
            failures: Failures::new(),
        }
    }

    /// The backend.
    pub fn backend(&self) -> IoBackend {
        self.backend
    }

    /// Queues a packet. If the queue is full, flushes first.
    ///
    /// # Errors
    /// [`SendError::TooLong`], or [`SendError::Full`] if the kernel has no room. In both cases the packet is dropped and counted.
    pub fn send(&mut self, to: SocketAddr, bytes: &[u8]) -> Result<(), SendError> {
        if bytes.len() > self.bytes_max {
            self.counters.not_queued += 1;
            return Err(SendError::TooLong);
        }
        let to = self.as_the_socket_has_it(to);
        if self.batch.push(to, bytes).is_ok() {
            return Ok(());
        }
        self.flush();
        self.batch.push(to, bytes).map_err(|_| {
            self.counters.not_queued += 1;
            SendError::Full
        })
    }

    /// An IPv6 socket needs the mapped form of an IPv4 address.
    fn as_the_socket_has_it(&self, to: SocketAddr) -> SocketAddr {
        match to {
            SocketAddr::V4(v4) if self.is_v6 => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
            to => to,
        }
    }

    /// How many packets are queued.
    pub fn waiting(&self) -> usize {
        self.batch.packets_waiting()
    }

    /// Sends queued packets as far as the kernel accepts them. Never waits.
    pub fn flush(&mut self) -> Flushed {
        let mut flushed = Flushed::default();
        while !self.batch.waiting().is_empty() {
            if !self.flush_some(&mut flushed) {
                self.counters.stalls += 1;
                break;
            }
        }
        flushed.waiting = self.batch.packets_waiting();
        self.counters.packets += flushed.sent as u64;
        self.counters.refused += flushed.refused as u64;
        flushed
    }

    /// Sends as many messages as one system call holds. Returns false if the kernel has no room for more.
    fn flush_some(&mut self, flushed: &mut Flushed) -> bool {
        self.agree_on_segments();
        let Outgoing { socket, sender, batch, backend, counters, socket_segment_bytes, .. } = self;
        let mut load = sender.load();
        for group in batch.waiting() {
            let segment_bytes = Some(group.segment_bytes()).filter(|bytes| *bytes != *socket_segment_bytes);
            if !load.add(Some(group.to), segment_bytes, batch.pieces(group)) {
                break;
            }
        }
        let (count, mut done, mut again) = (load.len(), 0, false);
        let (mut stopped, mut is_troubled) = (None, false);
        while done < count {
            counters.calls += 1;
            match step(&mut load, socket, done..count, *backend) {
                Step::Taken(taken) => {
                    for group in batch.waiting().iter().skip(done).take(taken) {
                        flushed.sent += group.packets as usize;
                        counters.bytes += u64::from(group.bytes);
                    }
                    done += taken;
                    again = false;
                }
                // The refusal may be an error of an earlier packet, which the socket reports once. So try again.
                Step::BackendRefusal(_) if !again => (again, is_troubled) = (true, true),
                refused => {
                    stopped = Some(refused);
                    break;
                }
            }
        }
        self.batch.gone(done);
        if is_troubled && self.undelivered == Undelivered::Reported {
            take_undelivered(&self.socket, &mut self.failures);
        }
        match stopped {
            // An empty load accepts any message. If a load ever refuses, `false` ends the caller's loop.
            None if count == 0 => false,
            None => true,
            Some(Step::BackendRefusal(errno)) => self.one_refused(errno, flushed),
            Some(_) => false,
        }
    }

    /// Gives the socket the segment size of most messages, so that the kernel has less to read for each message.
    fn agree_on_segments(&mut self) {
        if self.backend != IoBackend::Offloaded {
            return;
        }
        let common = self.batch.common_segment_bytes();
        if common != self.socket_segment_bytes && udp::split_sent(&self.socket, common).is_ok() {
            self.socket_segment_bytes = common;
        }
    }

    /// Handles the refusal of the first waiting message. Returns false if the kernel has no room.
    fn one_refused(&mut self, errno: Errno, flushed: &mut Flushed) -> bool {
        let Some(group) = self.batch.waiting().first().copied() else { return true };
        if group.segment_bytes() > 0 {
            return self.send_apart(&group, errno, flushed);
        }
        self.failures.add(Some(group.to), errno, u64::from(group.packets));
        flushed.refused += group.packets as usize;
        self.batch.gone(1);
        true
    }

    /// Sends the packets of a message one by one, because the kernel refused them as one message.
    /// If the kernel accepts any packet, this changes how later messages are sent: see [`learn`](Self::learn).
    fn send_apart(&mut self, group: &Group, whole: Errno, flushed: &mut Flushed) -> bool {
        let Outgoing { socket, sender, batch, counters, failures, .. } = self;
        let mut load = sender.load();
        for packet in batch.packets(group) {
            load.add(Some(group.to), Some(0), std::iter::once(packet));
        }
        let (mut sent, mut refused, mut has_room) = (0_u32, 0_u32, true);
        for (at, packet) in batch.packets(group).enumerate().take(load.len()) {
            counters.calls += 1;
            match step(&mut load, socket, at..at + 1, IoBackend::One) {
                Step::Taken(_) => {
                    sent += 1;
                    counters.bytes += packet.len() as u64;
                }
                Step::BackendRefusal(errno) => {
                    refused += 1;
                    failures.add(Some(group.to), errno, 1);
                }
                Step::NoRoom => {
                    has_room = false;
                    break;
                }
            }
        }
        flushed.sent += sent as usize;
        flushed.refused += refused as usize;
        if sent > 0 {
            self.learn(group, whole);
        }
        if sent + refused >= group.packets {
            self.batch.gone(1);
        } else {
            self.batch.gone_of_first(sent + refused);
        }
        has_room
    }

    /// Learns from a group that the kernel refused as one message.
    /// If the length was the reason, packets of this length or more are sent one by one from now on.
    /// If the device was the reason, all packets are sent one by one.
    fn learn(&mut self, group: &Group, whole: Errno) {
        let Grouping::ByPeer { segment_bytes_max } = self.batch.grouping() else { return };
        let of_the_length = [Errno::MSGSIZE, Errno::INVAL].contains(&whole);
        if of_the_length {
            let segment_bytes_max = segment_bytes_max.min(group.segment_bytes().saturating_sub(1));
            self.batch.regroup(Grouping::ByPeer { segment_bytes_max });
        } else if udp::split_sent(&self.socket, 0).is_ok() {
            self.socket_segment_bytes = 0;
            self.batch.regroup(Grouping::Alone);
            self.backend = IoBackend::Batched;
        }
    }

    /// The counters since the start.
    pub fn counters(&self) -> SendCounters {
        self.counters
    }

    /// The peers for which the kernel refused to send or reported a failure, at most 64.
    /// [`Outgoing::failures_of_others`] counts the packets to all other peers.
    pub fn failures(&self) -> &[PeerFailure] {
        self.failures.peers()
    }

    /// How many packets to all other peers failed.
    pub fn failures_of_others(&self) -> u64 {
        self.failures.others()
    }

    /// Resets the counts of failures.
    pub fn forget_failures(&mut self) {
        self.failures.forget();
    }
}

/// Makes one system call, and repeats it if a signal interrupted it.
fn step(load: &mut Load<'_>, socket: &UdpSocket, range: std::ops::Range<usize>, backend: IoBackend) -> Step {
    for _ in 0..SIGNALS_MAX {
        let said = match backend {
            IoBackend::One => load.send_one(socket, range.start).map(|()| 1),
            _ => load.send(socket, range.clone()),
        };
        return match said {
            Ok(taken) => Step::Taken(taken),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => Step::NoRoom,
            Err(errno) => Step::BackendRefusal(errno),
        };
    }
    Step::NoRoom
}
