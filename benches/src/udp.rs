//! `udp-tx`, `udp-rx` and related rows: CPU time per packet of 100 bytes in a tick of 64 peers, compared with a plain loop, quinn-udp and
//! io_uring. Each peer sends or gets one packet, or four. Other rows measure an echo, which receives and sends.
//!
//! It runs on loopback with IPv4, in one thread on one CPU. Only the contender's calls are timed, without feeding it or draining its peers.
//! Sending on loopback includes the receiver's side of the kernel. Each contender has its own socket, and their order is random.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use anyhow::{Context, anyhow, ensure};
use evenkeel_rt::udp::{Udp, UdpSettings};
use evenkeel_stats::median;
use evenkeel_sys::clock::{realtime_ns, thread_cpu_ns};
use evenkeel_sys::udp::{Sender, set_receive_buffer_bytes};
use evenkeel_sys::{CpuSet, thread};

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Rounds, in_turns};

mod peers;

use peers::{Plain, Quinn, Uring};

const PEERS: usize = 64;
const BYTES: usize = 100;
/// The receive buffer size to request. It has room for 256 packets.
const BUFFER_BYTES: u32 = 1 << 20;
/// The number of ticks of one measurement.
const TICKS: usize = 60;
const ROUNDS: usize = 24;

/// The versions that the manifests pin.
const QUINN: &str = "0.6.3";
const IO_URING: &str = "0.7.15";

/// The work of a tick.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Send { each: usize },
    Receive { each: usize },
    Echo,
}

impl Shape {
    fn each(self) -> usize {
        match self {
            Shape::Send { each } | Shape::Receive { each } => each,
            Shape::Echo => 1,
        }
    }
}

/// A contender.
trait Contender {
    /// The address to which peers send this contender's packets.
    fn address(&self) -> anyhow::Result<SocketAddr>;
    /// Receives all queued packets, and returns how many.
    fn receive(&mut self) -> anyhow::Result<usize>;
    /// Sends this many packets to each peer.
    fn send(&mut self, to: &[SocketAddr], each: usize) -> anyhow::Result<()>;
    /// Echoes all queued packets, and returns how many.
    fn echo(&mut self) -> anyhow::Result<usize>;
}

/// evenkeel, as a server uses it.
struct Ours(Udp);

impl Ours {
    fn new() -> anyhow::Result<Ours> {
        let settings = UdpSettings { address: "127.0.0.1:0".parse()?, ..UdpSettings::default() };
        let udp = Udp::open(settings)?;
        let clone = UdpSocket::from(udp.as_fd().try_clone_to_owned()?);
        set_receive_buffer_bytes(&clone, BUFFER_BYTES).map_err(|errno| anyhow!("ask for a receive buffer: {errno}"))?;
        Ok(Ours(udp))
    }
}

impl Contender for Ours {
    fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.0.local_address())
    }

    fn receive(&mut self) -> anyhow::Result<usize> {
        Ok(self.0.receive(|packet| seen(packet.from, packet.bytes)).packets)
    }

    fn send(&mut self, to: &[SocketAddr], each: usize) -> anyhow::Result<()> {
        for to in to {
            for _ in 0..each {
                self.0.send(*to, &[7; BYTES])?;
            }
        }
        ensure!(self.0.flush().sent == to.len() * each, "not all was sent");
        Ok(())
    }

    fn echo(&mut self) -> anyhow::Result<usize> {
        let (incoming, outgoing) = self.0.halves();
        let counts = incoming.receive(|packet| {
            let _ = outgoing.send(packet.from, packet.bytes);
        });
        ensure!(outgoing.flush().sent == counts.packets, "not all was sent");
        Ok(counts.packets)
    }
}

/// Stands for a server's work on a packet. Does nothing.
fn seen(from: SocketAddr, bytes: &[u8]) {
    std::hint::black_box((from, bytes.len(), bytes.first()));
}

/// The peers from which contenders receive and to which they send.
struct Peers {
    sockets: Vec<UdpSocket>,
    addresses: Vec<SocketAddr>,
    sender: Sender,
}

impl Peers {
    fn new() -> anyhow::Result<Peers> {
        let sockets = (0..PEERS).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
        sockets.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        let addresses = sockets.iter().map(UdpSocket::local_addr).collect::<Result<_, _>>()?;
        Ok(Peers { sockets, addresses, sender: Sender::new(PEERS) })
    }

    /// Each peer sends this many packets. If the receiver requested merging, they arrive merged, as from a device that merges packets.
    fn feed(&mut self, to: SocketAddr, each: usize) -> anyhow::Result<()> {
        let bytes = vec![7_u8; BYTES * each];
        let segment = (each > 1).then_some(BYTES as u16);
        for socket in &self.sockets {
            let mut load = self.sender.load();
            load.add(Some(to), segment, std::iter::once(bytes.as_slice()));
            load.send_one(socket, 0).map_err(|errno| anyhow!("feed {to}: {errno}"))?;
        }
        Ok(())
    }

    /// Receives the packets that contenders sent to the peers, and returns how many.
    fn drain(&self) -> usize {
        let mut bytes = [0; 2 * BYTES];
        self.sockets.iter().map(|socket| std::iter::from_fn(|| socket.recv(&mut bytes).ok()).count()).sum()
    }
}

pub(crate) fn measure_tx() -> anyhow::Result<Row> {
    measure("udp-tx", Shape::Send { each: 1 })
}

pub(crate) fn measure_tx_4() -> anyhow::Result<Row> {
    measure("udp-tx-4", Shape::Send { each: 4 })
}

pub(crate) fn measure_rx() -> anyhow::Result<Row> {
    measure("udp-rx", Shape::Receive { each: 1 })
}

pub(crate) fn measure_rx_4() -> anyhow::Result<Row> {
    measure("udp-rx-4", Shape::Receive { each: 4 })
}

pub(crate) fn measure_echo() -> anyhow::Result<Row> {
    measure("udp-echo", Shape::Echo)
}

fn measure(row: &'static str, shape: Shape) -> anyhow::Result<Row> {
    let cpu = thread::affinity().map_err(|errno| anyhow!("read the affinity: {errno}"))?.iter().last();
    let cpu = cpu.context("no CPU may be used")?;
    // Use a separate thread: its settings end with the thread, and a ring belongs to the thread that first uses it.
    let body = move || -> anyhow::Result<Row> {
        thread::set_affinity(&[cpu].into_iter().collect::<CpuSet>())
            .map_err(|errno| anyhow!("run on CPU {cpu}: {errno}"))?;
        contend(row, shape)
    };
    std::thread::spawn(body).join().map_err(|_| anyhow!("a contender panicked"))?
}

fn contend(row: &'static str, shape: Shape) -> anyhow::Result<Row> {
    let mut peers = Peers::new()?;
    let ours = Ours::new()?;
    let ways = format!(
        "{}, receives {}, sends {}",
        env!("CARGO_PKG_VERSION"),
        ours.0.report().receive_backend,
        ours.0.report().send_backend
    );
    let mut skipped = BTreeMap::new();
    let mut contenders: Vec<(&str, String, Box<dyn Contender>)> = vec![
        ("evenkeel-rt", ways, Box::new(ours)),
        ("plain loop", "recv_from, send_to".to_owned(), Box::new(Plain::new()?)),
        ("quinn-udp", QUINN.to_owned(), Box::new(Quinn::new()?)),
    ];
    match Uring::new(shape.each() > 1) {
        Ok(uring) => contenders.push(("io_uring", IO_URING.to_owned(), Box::new(uring))),
        Err(error) => {
            skipped.insert("io_uring".to_owned(), format!("{error:#}"));
        }
    }
    let clock_ns = clock_ns()?;
    let seed = realtime_ns();
    let rounds = in_turns(contenders.len(), Rounds { count: ROUNDS, seed }, |at| {
        let name = contenders[at].0;
        turn(contenders[at].2.as_mut(), &mut peers, shape, clock_ns).with_context(|| name.to_owned())
    })?;
    let all = contenders.iter().zip(rounds).map(|((name, version, _), rounds)| Measured {
        name: (*name).to_owned(),
        version: version.clone(),
        rounds,
    });
    Row::new(Measurements { row, unit: "ns", all: all.collect(), skipped, seed })
}

/// The time that one reading of the thread's clock takes.
fn clock_ns() -> anyhow::Result<f64> {
    let one = || thread_cpu_ns().abs_diff(thread_cpu_ns()) as f64;
    median(&(0..1000).map(|_| one()).collect::<Vec<_>>()).context("the clock has no figure")
}

/// CPU time per packet in nanoseconds: the median of some ticks.
fn turn(contender: &mut dyn Contender, peers: &mut Peers, shape: Shape, clock_ns: f64) -> anyhow::Result<f64> {
    let wanted = PEERS * shape.each();
    let to = contender.address()?;
    let mut ticks = Vec::with_capacity(TICKS);
    for _ in 0..TICKS {
        if !matches!(shape, Shape::Send { .. }) {
            peers.feed(to, shape.each())?;
        }
        let start_ns = thread_cpu_ns();
        let received = match shape {
            Shape::Send { each } => {
                contender.send(&peers.addresses, each)?;
                wanted
            }
            Shape::Receive { .. } => contender.receive()?,
            Shape::Echo => contender.echo()?,
        };
        ticks.push((thread_cpu_ns().saturating_sub(start_ns) as f64 - clock_ns) / wanted as f64);
        ensure!(received == wanted, "{received} packets of {wanted} were received");
        if !matches!(shape, Shape::Receive { .. }) {
            let drained = peers.drain();
            ensure!(drained == wanted, "{drained} packets of {wanted} were sent");
        }
    }
    median(&ticks).context("no tick was measured")
}
