//! Measures which backend takes the least CPU time per packet on this machine.
//! In turn, each backend sends and receives the packets of one tick, within a time limit.
//! The socket keeps the results, so that its report can print them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use evenkeel_stats::median;
use evenkeel_sys::clock::{monotonic_ns, thread_cpu_ns};

use super::settings::{BackendChoice, DATAGRAM_BYTES_MAX, IoBackend, TrialSettings, UdpSettings};
use super::socket::{Udp, UdpError, bind};
use super::tried::{BackendTrial, BackendTrialRow};

/// The maximum number of packets of a round.
const PACKETS_MAX: usize = 256;
/// The maximum number of peers to simulate. Each further peer would cost the same again.
const PEERS_MAX: usize = 16;
const ROUNDS_MAX: usize = 200;
/// The minimum number of rounds. With fewer rounds, the trial has no figures.
const ROUNDS_MIN: usize = 3;
/// The maximum number of packets that the trial sends to the user's address.
const TOWARD_PACKETS_MAX: usize = 4096;

pub(super) fn needed(settings: &UdpSettings) -> bool {
    settings.receive == BackendChoice::Measured || settings.send == BackendChoice::Measured
}

/// One backend under trial.
struct Contender {
    backend: IoBackend,
    receiver: Option<Udp>,
    sender: Option<Udp>,
    receive_ns: Vec<f64>,
    send_ns: Vec<f64>,
}

/// The traffic of one round.
struct Round {
    bytes: Vec<u8>,
    peers: usize,
    packets_a_peer: usize,
}

impl Round {
    fn new(settings: &UdpSettings) -> Round {
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

/// Measures the backends. If a backend cannot be measured, it has no figures.
pub(super) fn run(settings: &UdpSettings) -> BackendTrial {
    let start_ns = monotonic_ns();
    let TrialSettings { at_most, toward } = settings.trial;
    let end_ns = start_ns.saturating_add(u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX));
    let round = Round::new(settings);
    let mut contenders: Vec<Contender> =
        IoBackend::ALL.iter().filter_map(|backend| Contender::open(settings, *backend)).collect();
    let mut peers: Vec<Udp> = (0..round.peers.min(PEERS_MAX))
        .filter_map(|_| open(settings, IoBackend::Batched, IoBackend::Offloaded, None).ok())
        .collect();
    let mut rounds = 0;
    let mut gone = 0;
    // Measure a few rounds even if other work keeps the machine busy.
    while !peers.is_empty() && rounds < ROUNDS_MAX && (rounds < ROUNDS_MIN || monotonic_ns() < end_ns) {
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
    let rows = contenders.iter().map(|contender| BackendTrialRow {
        backend: contender.backend,
        receive_ns: figure(&contender.receive_ns),
        send_ns: figure(&contender.send_ns),
    });
    let rows = rows.collect();
    BackendTrial { rows, rounds, took_ns: monotonic_ns() - start_ns, toward }
}

/// A socket of the same address family on loopback, or on the local address that packets to the target leave from.
fn open(
    settings: &UdpSettings,
    receive: IoBackend,
    send: IoBackend,
    toward: Option<SocketAddr>,
) -> Result<Udp, UdpError> {
    let is_v4 = toward.unwrap_or(settings.address).is_ipv4();
    let address = match (toward, is_v4) {
        (None, true) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        (None, false) => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        (Some(_), true) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        (Some(_), false) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let own = UdpSettings { receive: BackendChoice::Is(receive), send: BackendChoice::Is(send), ..*settings };
    let socket = bind(address, evenkeel_sys::udp::Sharing::Alone)?;
    Udp::from_socket(socket, own, None, crate::thread::ApplyStatus::NotRequested)
}

impl Contender {
    /// Opens the sockets of a backend. `None` if neither half can use it.
    fn open(settings: &UdpSettings, backend: IoBackend) -> Option<Contender> {
        let receiver =
            open(settings, backend, backend, None).ok().filter(|udp| udp.report().receive_backend == backend);
        let sender = open(settings, backend, backend, settings.trial.toward)
            .ok()
            .filter(|udp| udp.report().send_backend == backend);
        let is_there = receiver.is_some() || sender.is_some();
        let (receive_ns, send_ns) = (Vec::with_capacity(ROUNDS_MAX), Vec::with_capacity(ROUNDS_MAX));
        is_there.then_some(Contender { backend, receiver, sender, receive_ns, send_ns })
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
        // Some packets may have been dropped, so count only those that arrived.
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
