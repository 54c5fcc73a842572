//! `Trial`: which way takes the least CPU time a packet, here and now. The ways take turns, a tick's packets at a time, within a bounded time;
//! what they took is kept with the socket and can be printed.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use evenkeel_stats::median;
use evenkeel_sys::clock::{monotonic_ns, thread_cpu_ns};

use super::settings::{Choice, DATAGRAM_BYTES_MAX, TrialSettings, UdpSettings, Way};
use super::{Udp, bind, usual};

/// A tick of more packets is tried with so many.
const PACKETS_MAX: usize = 256;
/// Peers beyond these cost the same again.
const PEERS_MAX: usize = 16;
const ROUNDS_MAX: usize = 200;
/// Fewer rounds are no figure.
const ROUNDS_MIN: usize = 3;
/// The most that goes to an address of the user's.
const TOWARD_PACKETS_MAX: usize = 4096;
/// A way that is not this much better than the usual one is not worth leaving it for: the next trial would say otherwise.
const BETTER: f64 = 0.97;

/// What one way took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialRow {
    /// The way.
    pub way: Way,
    /// CPU time a packet that was received, in nanoseconds: the median of the rounds. None if the way is not to be had, or was not tried.
    pub receive_ns: Option<f64>,
    /// CPU time a packet that was sent, in nanoseconds. On loopback that has in it what the receiver's side of the kernel takes.
    pub send_ns: Option<f64>,
}

/// What the ways took.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// A row for each way that there is.
    pub rows: Vec<TrialRow>,
    /// How many rounds each had.
    pub rounds: usize,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// Where the packets went, if not to loopback.
    pub toward: Option<SocketAddr>,
}

impl Trial {
    /// The way to receive; none if there were too few rounds.
    pub fn receive_way(&self) -> Option<Way> {
        self.best(|row| row.receive_ns)
    }

    /// The way to send; none if there were too few rounds.
    pub fn send_way(&self) -> Option<Way> {
        self.best(|row| row.send_ns)
    }

    fn best(&self, ns: impl Fn(&TrialRow) -> Option<f64>) -> Option<Way> {
        let figures = self.rows.iter().filter_map(|row| Some((row.way, ns(row)?)));
        let (best, best_ns) = figures.clone().min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let usual_ns = figures.clone().find(|(way, _)| *way == usual()).map(|(_, ns)| ns);
        Some(if usual_ns.is_some_and(|usual_ns| usual_ns * BETTER <= best_ns) { usual() } else { best })
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.took_ns as f64 / 1e6;
        write!(f, "tried in {} rounds, {ms:.0} ms, ", self.rounds)?;
        match self.toward {
            Some(address) => writeln!(f, "sending to {address}, receiving on loopback:")?,
            None => writeln!(f, "on loopback:")?,
        }
        for TrialRow { way, receive_ns, send_ns } in &self.rows {
            let text = |ns: &Option<f64>| ns.map_or("not tried".to_owned(), |ns| format!("{ns:.0} ns"));
            writeln!(f, "  {way:10} {:>10} received {:>10} sent", text(receive_ns), text(send_ns))?;
        }
        Ok(())
    }
}

pub(super) fn needed(settings: &UdpSettings) -> bool {
    settings.receive == Choice::Measured || settings.send == Choice::Measured
}

/// One way under trial.
struct Contender {
    way: Way,
    receiver: Option<Udp>,
    sender: Option<Udp>,
    receive_ns: Vec<f64>,
    send_ns: Vec<f64>,
}

/// What a round is made of.
struct Round {
    bytes: Vec<u8>,
    peers: usize,
    packets_a_peer: usize,
}

impl Round {
    fn of(settings: &UdpSettings) -> Round {
        let traffic = settings.traffic;
        let bytes = usize::from(traffic.bytes).min(settings.bytes_max).min(DATAGRAM_BYTES_MAX);
        let packets_a_peer = usize::from(traffic.packets_a_peer).clamp(1, PACKETS_MAX);
        let peers = usize::from(traffic.peers).clamp(1, (PACKETS_MAX / packets_a_peer).max(1));
        Round { bytes: vec![0; bytes], peers, packets_a_peer }
    }

    fn packets(&self) -> usize {
        self.peers * self.packets_a_peer
    }
}

/// Tries the ways. One that can't be tried has no figures; where none can, there are none at all.
pub(super) fn run(settings: &UdpSettings) -> Trial {
    let start_ns = monotonic_ns();
    let TrialSettings { at_most, toward } = settings.trial;
    let end_ns = start_ns.saturating_add(u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX));
    let round = Round::of(settings);
    let mut contenders: Vec<Contender> = Way::ALL.iter().filter_map(|way| Contender::open(settings, *way)).collect();
    let mut peers: Vec<Udp> =
        (0..round.peers.min(PEERS_MAX)).filter_map(|_| open(settings, Way::Offloaded, None).ok()).collect();
    let mut rounds = 0;
    let mut gone = 0;
    while !peers.is_empty() && rounds < ROUNDS_MAX && monotonic_ns() < end_ns {
        for contender in &mut contenders {
            contender.receive(&round, &mut peers);
            let to_send =
                contender.sender.is_some() && (toward.is_none() || gone + round.packets() <= TOWARD_PACKETS_MAX);
            if to_send {
                contender.send(&round, &mut peers, toward);
                gone += round.packets();
            }
        }
        rounds += 1;
    }
    let figure = |rounds: &[f64]| median(rounds).filter(|_| rounds.len() >= ROUNDS_MIN);
    let rows = contenders.iter().map(|contender| TrialRow {
        way: contender.way,
        receive_ns: figure(&contender.receive_ns),
        send_ns: figure(&contender.send_ns),
    });
    let rows = rows.collect();
    Trial { rows, rounds, took_ns: monotonic_ns() - start_ns, toward }
}

/// A socket of the same family on loopback, or on the address that packets go from.
fn open(settings: &UdpSettings, way: Way, toward: Option<SocketAddr>) -> Result<Udp, super::UdpError> {
    let is_v4 = toward.unwrap_or(settings.address).is_ipv4();
    let address = match (toward, is_v4) {
        (None, true) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        (None, false) => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        (Some(_), true) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        (Some(_), false) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let own = UdpSettings { receive: Choice::Is(way), send: Choice::Is(way), ..*settings };
    let socket = bind(address, evenkeel_sys::udp::Sharing::Alone)?;
    Udp::of(socket, own, None, crate::thread::Got::NotAsked)
}

impl Contender {
    /// None if the way is not to be had for either half.
    fn open(settings: &UdpSettings, way: Way) -> Option<Contender> {
        let receiver = open(settings, way, None).ok().filter(|udp| udp.report.receive_way == way);
        let sender = open(settings, way, settings.trial.toward).ok().filter(|udp| udp.report.send_way == way);
        let is_there = receiver.is_some() || sender.is_some();
        let (receive_ns, send_ns) = (Vec::with_capacity(ROUNDS_MAX), Vec::with_capacity(ROUNDS_MAX));
        is_there.then_some(Contender { way, receiver, sender, receive_ns, send_ns })
    }

    fn receive(&mut self, round: &Round, peers: &mut [Udp]) {
        let Some(receiver) = &mut self.receiver else { return };
        let to = receiver.local_address();
        for at in 0..round.peers {
            let index = at % peers.len().max(1);
            let Some(peer) = peers.get_mut(index) else { return };
            (0..round.packets_a_peer).for_each(|_| {
                let _ = peer.send(to, &round.bytes);
            });
            peer.flush();
        }
        let start_ns = thread_cpu_ns();
        let counts = receiver.receive(|packet| {
            std::hint::black_box(packet.bytes);
        });
        let took_ns = thread_cpu_ns().saturating_sub(start_ns);
        // Some may have been dropped: what came is what counts.
        if counts.packets > 0 {
            self.receive_ns.push(took_ns as f64 / counts.packets as f64);
        }
    }

    fn send(&mut self, round: &Round, peers: &mut [Udp], toward: Option<SocketAddr>) {
        let Some(sender) = &mut self.sender else { return };
        let start_ns = thread_cpu_ns();
        for at in 0..round.peers {
            let index = at % peers.len().max(1);
            let Some(to) = toward.or(peers.get(index).map(Udp::local_address)) else { return };
            (0..round.packets_a_peer).for_each(|_| {
                let _ = sender.send(to, &round.bytes);
            });
        }
        let flushed = sender.flush();
        let took_ns = thread_cpu_ns().saturating_sub(start_ns);
        if flushed.sent == round.packets() {
            self.send_ns.push(took_ns as f64 / flushed.sent as f64);
        }
        for peer in peers {
            peer.receive(|_| {});
        }
    }
}
