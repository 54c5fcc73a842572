//! `Incoming`: the half of a socket that receives. A call returns waiting packets up to a limit, and the next call continues there.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use evenkeel_stats::{Histogram, Summary};
#[cfg(feature = "io-uring")]
use evenkeel_sys::udp::RingInbox;
use evenkeel_sys::udp::{self, BATCH, Inbox, Packet};
use evenkeel_sys::{Errno, clock};

use super::failures::{Failures, PeerFailure};
use super::settings::{IoBackend, Stamps, UdpSettings, Undelivered};

/// The maximum number of bytes into which the kernel merges packets.
const MERGED_BYTES_MAX: usize = 65_535;
/// How many errors one call may meet. Beyond them, the next call continues.
const ERRORS_MAX: u32 = 64;
/// If a drop count is ahead by more than this, it is older than the last count, because the counter wraps at 2^32.
const BEHIND: u32 = 1 << 31;

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The packet's source address, which the sender can forge.
    pub from: SocketAddr,
    /// The packet's bytes. If the packet was truncated, only its beginning.
    pub bytes: &'a [u8],
    /// How long the packet waited in the kernel, in nanoseconds of the wall clock. `None` unless the settings request stamps.
    pub waited_ns: Option<u64>,
    /// Whether the packet was longer than the settings' `bytes_max`.
    pub is_truncated: bool,
}

/// The counters of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that the call passed to your function.
    pub packets: usize,
    /// The bytes of these packets, without headers.
    pub bytes: u64,
    /// How many of the packets were truncated.
    pub truncated: usize,
    /// Errors of the network or the kernel.
    pub errors: u32,
    /// Whether the call reached its limit, so that more packets may wait.
    pub is_bound_reached: bool,
}

/// The counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounters {
    /// Packets that were passed to your function.
    pub packets: u64,
    /// The bytes of these packets, without headers.
    pub bytes: u64,
    /// How many of the packets were truncated.
    pub truncated: u64,
    /// Packets that the kernel dropped, for lack of room or another reason. `None` if the kernel does not count them.
    pub dropped: Option<u64>,
    /// Errors of the network or the kernel.
    pub errors: u64,
    /// System calls.
    pub calls: u64,
}

/// The backend that receives packets, with its memory.
#[derive(Debug)]
enum Door {
    One(Inbox),
    Many(Inbox),
    #[cfg(feature = "io-uring")]
    Ring(Box<RingInbox>),
}

impl Door {
    fn receive(&mut self, socket: &UdpSocket, packets: usize) -> Result<usize, Errno> {
        match self {
            Door::One(inbox) => inbox.receive_one(socket),
            Door::Many(inbox) => inbox.receive_at_most(socket, packets),
            #[cfg(feature = "io-uring")]
            Door::Ring(inbox) => inbox.receive().map(|()| 0),
        }
    }
}

/// Packets that the kernel has already returned.
trait Given {
    /// The current packet. `None` before the first call of `advance`, after the last packet, and for an unreadable packet.
    fn packet(&self) -> Option<Packet<'_>>;
    /// Whether there is a current packet.
    fn is_there(&self) -> bool;
    /// Advances to the next packet.
    fn advance(&mut self);
}

/// The packets of a batch.
struct Batched<'a> {
    inbox: &'a Inbox,
    given: usize,
    next: &'a mut usize,
}

impl Given for Batched<'_> {
    #[inline]
    fn packet(&self) -> Option<Packet<'_>> {
        self.inbox.packet(*self.next)
    }

    #[inline]
    fn is_there(&self) -> bool {
        *self.next < self.given
    }

    #[inline]
    fn advance(&mut self) {
        *self.next += 1;
    }
}

#[cfg(feature = "io-uring")]
impl Given for RingInbox {
    #[inline]
    fn packet(&self) -> Option<Packet<'_>> {
        RingInbox::packet(self)
    }

    #[inline]
    fn is_there(&self) -> bool {
        self.has_packet()
    }

    #[inline]
    fn advance(&mut self) {
        RingInbox::advance(self);
    }
}

/// The half of a socket that receives.
///
/// ```
/// use evenkeel_rt::udp::{Incoming, Received, Stamps, Udp, UdpSettings};
///
/// let address = "127.0.0.1:0".parse()?;
/// let settings = UdpSettings { address, stamps: Stamps::EachPacket, ..UdpSettings::default() };
/// let mut incoming: Incoming = Udp::open(settings)?.into_halves().0;
/// let each = |packet: Received<'_>| println!("{} bytes from {}", packet.bytes.len(), packet.from);
/// incoming.receive(each);
/// incoming.receive_at_most(10, each);
/// println!("{} packets by {}", incoming.counters().packets, incoming.backend());
/// if let Some(waited) = incoming.waited_ns() {
///     println!("they waited {} ns at p99", waited.p99);
/// }
/// println!("{:?}", incoming.waited_histogram().map(|waits| waits.count()));
/// println!("{} peers and {} packets more were not reached", incoming.failures().len(), incoming.failures_of_others());
/// incoming.forget_failures();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Incoming {
    socket: Arc<UdpSocket>,
    door: Door,
    backend: IoBackend,
    bytes_max: usize,
    packets_max: usize,
    undelivered: Undelivered,
    counters: ReceiveCounters,
    dropped_seen: u32,
    failures: Failures,
    left: Left,
    /// How many packets of a batch the kernel returned. The next value is the position of the next packet.
    given: usize,
    next: usize,
}

/// The packets that remain from the last system call.
#[derive(Debug)]
struct Left {
    /// The rest of the first packet begins at this byte.
    from_byte: usize,
    /// When the kernel returned the packets, on the wall clock.
    now_ns: u64,
    bytes_max: usize,
    waited: Option<Histogram>,
}

impl Left {
    /// Passes on at most `packets` packets. Returns how many packets the socket had dropped, if the kernel reported that.
    #[inline]
    fn give(
        &mut self,
        source: &mut impl Given,
        packets: usize,
        counts: &mut Counts,
        each: &mut impl FnMut(Received<'_>),
    ) -> Option<u32> {
        let mut dropped = None;
        while counts.packets < packets && source.is_there() {
            let Some(packet) = source.packet() else {
                source.advance();
                continue;
            };
            if packet.dropped.is_some() {
                dropped = packet.dropped;
            }
            let Some(segment) = packet.segment_bytes else {
                self.give_one(&packet, packet.bytes, counts, each);
                source.advance();
                continue;
            };
            let rest = packet.bytes.get(self.from_byte..).unwrap_or_default();
            let mut given = 0;
            for piece in rest.chunks(usize::from(segment.get())).take(packets - counts.packets) {
                self.give_one(&packet, piece, counts, each);
                given += piece.len();
            }
            self.from_byte += given;
            if given == rest.len() {
                self.from_byte = 0;
                source.advance();
            }
        }
        dropped
    }

    #[inline]
    fn give_one(
        &mut self,
        packet: &Packet<'_>,
        piece: &[u8],
        counts: &mut Counts,
        each: &mut impl FnMut(Received<'_>),
    ) {
        let mut waited_ns = None;
        if let (Some(waited), Some(stamp_ns)) = (&mut self.waited, packet.stamp_ns) {
            let ns = self.now_ns.saturating_sub(stamp_ns);
            waited.record(ns);
            waited_ns = Some(ns);
        }
        let bytes = piece.get(..self.bytes_max).unwrap_or(piece);
        let is_truncated = packet.truncated || bytes.len() < piece.len();
        counts.packets += 1;
        counts.bytes += bytes.len() as u64;
        counts.truncated += usize::from(is_truncated);
        if let Some(from) = packet.from {
            each(Received { from, bytes, waited_ns, is_truncated });
        }
    }
}

impl Incoming {
    /// Opens the backend, or the next simpler backend that works. Reports each refused backend.
    pub(super) fn open(
        socket: &Arc<UdpSocket>,
        settings: &UdpSettings,
        wanted: IoBackend,
        refused: impl FnMut(IoBackend, Errno),
    ) -> Incoming {
        let open = |backend| door(socket, backend, settings.bytes_max);
        let (backend, door) = first_that_opens(wanted, open, refused)
            .unwrap_or_else(|| (IoBackend::One, Door::One(Inbox::with_room(1, settings.bytes_max))));
        // The packets that were dropped before now may have been meant for another socket.
        let dropped = udp::dropped(socket);
        let counters = ReceiveCounters { dropped: dropped.map(|_| 0), ..ReceiveCounters::default() };
        Incoming {
            socket: Arc::clone(socket),
            door,
            backend,
            bytes_max: settings.bytes_max,
            packets_max: settings.receive_packets_max.max(1),
            undelivered: settings.undelivered,
            counters,
            dropped_seen: dropped.unwrap_or(0),
            failures: Failures::new(),
            given: 0,
            next: 0,
            left: Left {
                from_byte: 0,
                now_ns: 0,
                bytes_max: settings.bytes_max,
                waited: (settings.stamps == Stamps::EachPacket).then(Histogram::new),
            },
        }
    }

    /// The backend.
    pub fn backend(&self) -> IoBackend {
        self.backend
    }

    /// Calls a function for each waiting packet, up to the settings' `receive_packets_max`. Never waits.
    pub fn receive(&mut self, each: impl FnMut(Received<'_>)) -> Counts {
        self.receive_at_most(self.packets_max, each)
    }

    /// Like [`Incoming::receive`], with a separate limit. If packets of the last system call remain, the next call passes them on first.
    pub fn receive_at_most(&mut self, packets: usize, mut each: impl FnMut(Received<'_>)) -> Counts {
        let mut counts = Counts::default();
        loop {
            self.give(packets, &mut counts, &mut each);
            if counts.packets >= packets {
                counts.is_bound_reached = true;
                break;
            }
            let asked = (packets - counts.packets).min(BATCH);
            self.counters.calls += 1;
            match self.door.receive(&self.socket, asked) {
                Ok(given) => {
                    (self.given, self.next, self.left.from_byte) = (given, 0, 0);
                    if self.left.waited.is_some() {
                        self.left.now_ns = clock::realtime_ns();
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    counts.errors += 1;
                    self.trouble(errno);
                    if counts.errors >= ERRORS_MAX {
                        break;
                    }
                }
            }
        }
        self.counters.packets += counts.packets as u64;
        self.counters.bytes += counts.bytes;
        self.counters.truncated += counts.truncated as u64;
        self.counters.errors += u64::from(counts.errors);
        counts
    }

    /// Passes on the packets that the last system call left over.
    fn give(&mut self, packets: usize, counts: &mut Counts, each: &mut impl FnMut(Received<'_>)) {
        // Each backend has its own loop, so that a packet goes from the kernel's memory to the caller without a copy in between.
        let dropped = match &mut self.door {
            Door::One(inbox) | Door::Many(inbox) => {
                let mut batched = Batched { inbox, given: self.given, next: &mut self.next };
                self.left.give(&mut batched, packets, counts, each)
            }
            #[cfg(feature = "io-uring")]
            Door::Ring(inbox) => self.left.give(inbox.as_mut(), packets, counts, each),
        };
        if let Some(dropped) = dropped {
            self.count_dropped(dropped);
        }
    }

    fn count_dropped(&mut self, now: u32) {
        let more = now.wrapping_sub(self.dropped_seen);
        if more < BEHIND {
            self.dropped_seen = now;
            self.counters.dropped = Some(self.counters.dropped.unwrap_or(0) + u64::from(more));
        }
    }

    /// Handles an error of a call. The error may mean that the backend no longer works.
    fn trouble(&mut self, errno: Errno) {
        if self.undelivered == Undelivered::Reported {
            take_undelivered(&self.socket, &mut self.failures);
        }
        let is_of_the_way = [Errno::NOSYS, Errno::PERM, Errno::EXIST, Errno::INVAL].contains(&errno);
        #[cfg(feature = "io-uring")]
        if is_of_the_way && self.backend == IoBackend::Uring {
            // The ring belongs to another thread, or was forbidden in the meantime. Use the socket instead, which we prepared together with the ring.
            self.backend = IoBackend::Offloaded;
            self.door = Door::Many(Inbox::new(MERGED_BYTES_MAX));
            return;
        }
        if is_of_the_way && self.backend != IoBackend::One {
            self.backend = IoBackend::One;
            self.door = Door::One(Inbox::with_room(1, self.bytes_max.max(MERGED_BYTES_MAX)));
        }
    }

    /// The counters since the start. The call reads the drops from the kernel.
    pub fn counters(&mut self) -> ReceiveCounters {
        if let Some(dropped) = udp::dropped(&self.socket) {
            self.count_dropped(dropped);
        }
        self.counters
    }

    /// How long packets waited in the kernel, in nanoseconds. `None` unless the settings request stamps.
    pub fn waited_ns(&self) -> Option<Summary> {
        self.left.waited.as_ref()?.summary()
    }

    /// The whole histogram of these waiting times, for other quantiles.
    pub fn waited_histogram(&self) -> Option<&Histogram> {
        self.left.waited.as_ref()
    }

    /// The peers that packets did not reach, at most 64, if the settings request these reports.
    /// [`Incoming::failures_of_others`] counts the packets to all other peers.
    pub fn failures(&self) -> &[PeerFailure] {
        self.failures.peers()
    }

    /// How many packets to all other peers, and to unknown peers, did not arrive.
    pub fn failures_of_others(&self) -> u64 {
        self.failures.others()
    }

    /// Resets the counts of failures.
    pub fn forget_failures(&mut self) {
        self.failures.forget();
    }
}

/// Reads the network's error reports, a bounded number of times.
pub(super) fn take_undelivered(socket: &UdpSocket, failures: &mut Failures) {
    for _ in 0..ERRORS_MAX {
        match udp::undelivered(socket) {
            Ok(Some(undelivered)) => failures.add(undelivered.to, undelivered.why, 1),
            Ok(None) => return,
            // Reading the queue also returns the socket's pending error, and clears it.
            Err(_) => {}
        }
    }
}

/// Opens the requested backend, or the next simpler backend that opens. Reports each refused backend.
fn first_that_opens<D>(
    wanted: IoBackend,
    mut open: impl FnMut(IoBackend) -> Result<D, Errno>,
    mut refused: impl FnMut(IoBackend, Errno),
) -> Option<(IoBackend, D)> {
    let mut backends = std::iter::successors(Some(wanted), |backend| backend.plainer());
    backends.find_map(|backend| open(backend).map(|door| (backend, door)).map_err(|errno| refused(backend, errno)).ok())
}

fn door(socket: &UdpSocket, backend: IoBackend, bytes_max: usize) -> Result<Door, Errno> {
    match backend {
        IoBackend::One => Ok(Door::One(Inbox::with_room(1, bytes_max))),
        IoBackend::Batched => Ok(Door::Many(Inbox::new(bytes_max))),
        IoBackend::Offloaded => {
            udp::merge_received(socket)?;
            Ok(Door::Many(Inbox::new(MERGED_BYTES_MAX)))
        }
        #[cfg(feature = "io-uring")]
        IoBackend::Uring => {
            let ring = RingInbox::new(socket, 2 * BATCH, MERGED_BYTES_MAX)?;
            udp::merge_received(socket)?;
            Ok(Door::Ring(Box::new(ring)))
        }
        #[cfg(not(feature = "io-uring"))]
        IoBackend::Uring => Err(Errno::NOSYS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Old kernels refuse backends, and so do builds without the feature. The test tries every set of refusals.
    #[test]
    fn a_refused_way_gives_place_to_the_next_plainer_one() {
        for wanted in IoBackend::ALL {
            for set in 0..1_u32 << IoBackend::ALL.len() {
                let is_refused = |backend: IoBackend| {
                    set >> IoBackend::ALL.iter().position(|known| *known == backend).unwrap() & 1 == 1
                };
                let mut refused = Vec::new();
                let open = |backend| if is_refused(backend) { Err(Errno::NOSYS) } else { Ok(backend) };
                let opened = first_that_opens(wanted, open, |backend, errno| refused.push((backend, errno)));
                let at = IoBackend::ALL.iter().position(|known| *known == wanted).unwrap();
                let plainer: Vec<IoBackend> = IoBackend::ALL[..=at].iter().rev().copied().collect();
                let first = plainer.iter().copied().find(|backend| !is_refused(*backend));
                assert_eq!(opened, first.map(|backend| (backend, backend)), "{wanted} {set:b}");
                let before = plainer.iter().copied().take_while(|backend| is_refused(*backend));
                assert_eq!(
                    refused,
                    before.map(|backend| (backend, Errno::NOSYS)).collect::<Vec<_>>(),
                    "{wanted} {set:b}"
                );
            }
        }
    }
}
