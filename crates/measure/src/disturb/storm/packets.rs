//! Packets to a port of this host. Each packet is a system call, and a softirq on the sending CPU.
//! No packet leaves the machine, unless you name a peer that consents.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Mutex;

use evenkeel_sys::{CpuSet, Errno, clock};
use serde::Serialize;

use super::peer::{self, Consent};
use super::{Beats, SECOND_NS, moved, refuse_rate};
use crate::disturb::counts;
use crate::disturb::worker_group::{Class, End, Post, WorkerGroup, check_cpus, is_off};
use crate::error::MeterError;

/// The highest rate of all senders together, in packets per second. One sender reaches about 800,000.
pub const RATE_PER_S_MAX: u64 = 2_000_000;
/// The range of a packet's payload, up to a full Ethernet packet from outside.
pub const SIZE_BYTES: std::ops::RangeInclusive<usize> = 1..=1472;

/// The maximum number of bursts per second. A timer per packet would be a storm of timers.
const BURSTS_PER_S_MAX: u64 = 2_000;

const ROWS: &[&str] = &["NET_RX"];
const TABLE: &str = "/proc/softirqs";

/// The settings of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The CPUs. Each CPU gets one sender.
    #[serde(serialize_with = "crate::disturb::as_list")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// Where the packets go.
    pub to: To,
    /// Packets per second of all senders together.
    pub rate_per_s: u64,
    /// The payload of each packet, in bytes.
    pub size_bytes: usize,
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum To {
    /// A port of evenkeel's own that no program reads. The kernel does its work on each packet, and then drops all packets but the first.
    Sink,
    /// An address of this host, in its network namespace.
    Own(SocketAddr),
    /// Another machine, where `measure udp --serve` consents.
    Peer {
        /// The peer's address.
        peer: SocketAddr,
    },
}

/// The report of the disturber.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Where the packets went.
    pub to: SocketAddr,
    /// The number of packets of all senders that the kernel accepted.
    pub sent: u64,
    /// The packets of each sender.
    pub cpus: Vec<Cpu>,
}

/// The packets of one sender.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// The CPU of the sender.
    pub cpu: usize,
    /// Packets that the kernel accepted.
    pub sent: u64,
    /// How often the kernel reported that no program listens on the port. Those packets were sent all the same.
    pub unheard: u64,
    /// Packets that the kernel did not accept.
    pub refused: u64,
    /// The error of the first refused packet. None if no packet was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_because: Option<String>,
    /// Packets that the sender skipped because it had no CPU when they were due.
    pub missed: u64,
    /// How long the disturbing thread ran, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time that the sending thread got, in nanoseconds, including the softirqs.
    pub taken_ns: u64,
    /// Packets sent per second of run time.
    pub sent_per_s: f64,
    /// The number of packets that the peer reports as received. None without a peer, or without a report from the peer.
    pub arrived: Option<u64>,
    /// Whether the peer stopped answering or closed its port, which ended the storm.
    pub peer_went_away: bool,
    /// Receive softirqs of this CPU during the run, by the kernel's count, from all sources.
    /// One softirq handles many packets. None if the kernel does not report the count.
    pub softirqs: Option<u64>,
    /// Whether the CPU went offline during the run, which ended the run.
    pub went_offline: bool,
}

/// A running disturber. Dropping this value stops the disturber.
#[derive(Debug)]
pub struct Running {
    cpus: Vec<usize>,
    before: Vec<Option<u64>>,
    to: SocketAddr,
    workers: WorkerGroup<Cpu>,
    _sink: Option<UdpSocket>,
}

/// Starts the disturber. It ends by itself when the monotonic clock reaches `until_ns`.
///
/// # Errors
/// Fails if the address is not this host's, or if the peer does not consent.
/// Also fails if a CPU does not exist or is not allowed, or if the rate or size is out of bounds.
pub fn start(settings: &Settings, until_ns: u64) -> Result<Running, MeterError> {
    refuse(settings)?;
    check_cpus(&settings.cpus)?;
    let (to, sink) = match settings.to {
        To::Own(to) | To::Peer { peer: to } => (to, None),
        To::Sink => sink()?,
    };
    let until_ns = match settings.to {
        To::Peer { .. } => until_ns.min(clock::monotonic_ns() + peer::LENGTH_NS_MAX),
        _ => until_ns,
    };
    let cpus: Vec<usize> = settings.cpus.iter().collect();
    let sender = |_| match settings.to {
        To::Peer { peer } => Ok(Mutex::new(Some(Sender::Peer(Consent::open(peer)?)))),
        _ => Ok(Mutex::new(Some(Sender::Own(own_sender(to)?)))),
    };
    let senders = cpus.iter().map(sender).collect::<Result<Vec<Mutex<Option<Sender>>>, MeterError>>()?;
    let before = counts::now(TABLE, ROWS, &cpus);
    let class = Class::Ordinary { nice: 0 };
    let posts: Vec<Post> = cpus.iter().map(|cpu| Post { cpus: [*cpu].into_iter().collect(), class }).collect();
    let theirs = cpus.clone();
    let (rate_per_s, size_bytes) = ((settings.rate_per_s / cpus.len() as u64).max(1), settings.size_bytes);
    let workers = WorkerGroup::start("packets", &posts, &End::new(until_ns), move |at, end| {
        let sender = senders[at].lock().ok().and_then(|mut sender| sender.take());
        send(theirs[at], sender, rate_per_s, size_bytes, end)
    })?;
    Ok(Running { cpus, before, to, workers, _sink: sink })
}

impl Running {
    /// Stops the disturber and returns its report.
    pub fn stop(self) -> Report {
        let mut cpus = self.workers.stop();
        let after = counts::now(TABLE, ROWS, &self.cpus);
        for ((cpu, before), after) in cpus.iter_mut().zip(self.before).zip(after) {
            cpu.softirqs = moved(before, after);
        }
        Report { to: self.to, sent: cpus.iter().map(|cpu| cpu.sent).sum(), cpus }
    }
}

fn refuse(settings: &Settings) -> Result<(), MeterError> {
    refuse_rate(settings.rate_per_s, RATE_PER_S_MAX)?;
    if !SIZE_BYTES.contains(&settings.size_bytes) {
        let why = format!("{} bytes are not between 1 and 1472", settings.size_bytes);
        return Err(MeterError::wrong_use("choose a size", why));
    }
    match settings.to {
        To::Own(to) | To::Peer { peer: to } if to.port() == 0 => {
            Err(MeterError::wrong_use(format!("send packets to {to}"), "it needs a port"))
        }
        To::Own(to) if !is_own(to) => {
            let why = "a storm stays on this machine, and this is not one of its addresses; name another machine of yours with --peer, and \
                       run `evenkeel measure udp --serve` there";
            Err(MeterError::wrong_use(format!("send packets to {to}"), why))
        }
        To::Peer { peer } if !peer::is_near(peer.ip()) => {
            let why = "a peer has a private or link-local address: a storm does not go over the Internet";
            Err(MeterError::wrong_use(format!("send packets to {peer}"), why))
        }
        To::Peer { .. } => {
            refuse_rate(settings.rate_per_s, peer::RATE_PER_S_MAX)?;
            let why = format!("{} bytes; a peer counts packets of {} or more", settings.size_bytes, peer::BYTES_MIN);
            let is_fit = settings.size_bytes >= peer::BYTES_MIN;
            if is_fit { Ok(()) } else { Err(MeterError::wrong_use("choose a size", why)) }
        }
        _ => Ok(()),
    }
}

/// Whether an address belongs to this host, in our network namespace.
/// Only then does the kernel use the address as its own source address. The check sends nothing.
fn is_own(to: SocketAddr) -> bool {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    if to.ip().is_loopback() {
        return true;
    }
    let from = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(to).and_then(|()| socket.local_addr()));
    !to.ip().is_unspecified() && !to.ip().is_multicast() && from.is_ok_and(|from| from.ip() == to.ip())
}

/// Opens a port of our own, on any loopback address of this machine.
fn sink() -> Result<(SocketAddr, Option<UdpSocket>), MeterError> {
    let made = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).or_else(|_| UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)));
    let refused = |error: std::io::Error| MeterError::refused("open a port on the loopback device", &error);
    let sink = made.map_err(refused)?;
    Ok((sink.local_addr().map_err(refused)?, Some(sink)))
}

fn own_sender(to: SocketAddr) -> Result<UdpSocket, MeterError> {
    let refused = |error: std::io::Error| MeterError::refused(format!("send packets to {to}"), &error);
    // Send from the address itself. If this host has lost the address in the meantime, the kernel sends nothing.
    let from = if to.ip().is_loopback() { loopback(to) } else { to.ip() };
    let socket = UdpSocket::bind((from, 0)).map_err(refused)?;
    socket.connect(to).map_err(refused)?;
    socket.set_nonblocking(true).map_err(refused)?;
    Ok(socket)
}

fn loopback(to: SocketAddr) -> IpAddr {
    if to.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

/// The destination of one sender's packets.
#[derive(Debug)]
enum Sender {
    Own(UdpSocket),
    Peer(Consent),
}

/// The counts of one sender.
#[derive(Default)]
struct Account {
    sent: u64,
    unheard: u64,
    refused: u64,
    refused_because: Option<String>,
}

impl Sender {
    fn send(&mut self, packet: &mut [u8], account: &mut Account) {
        let socket = match self {
            Sender::Own(socket) => &*socket,
            Sender::Peer(peer) => {
                peer.number(packet);
                peer.socket()
            }
        };
        match socket.send(packet) {
            Ok(_) => account.sent += 1,
            // This error answers an earlier packet. The current packet was not sent, and the earlier packet counts as unheard.
            Err(error) if Errno::from(&error) == Errno::CONNREFUSED => account.unheard += 1,
            Err(error) => {
                account.refused += 1;
                account.refused_because.get_or_insert_with(|| Errno::from(&error).to_string());
            }
        }
    }

    /// Whether to send more packets. A peer must still answer, and its port must be open.
    fn is_wanted(&mut self, account: &Account) -> bool {
        match self {
            Sender::Own(_) => true,
            Sender::Peer(peer) => account.unheard == 0 && peer.is_willing(),
        }
    }

    fn arrived(self) -> Option<u64> {
        match self {
            Sender::Own(_) => None,
            Sender::Peer(peer) => peer.arrived(),
        }
    }
}

fn send(cpu: usize, sender: Option<Sender>, rate_per_s: u64, size_bytes: usize, end: &End) -> Cpu {
    let mut packet = vec![0_u8; size_bytes];
    let (start_ns, cpu_before_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
    let mut beats = Beats::new(start_ns + 1, rate_per_s.min(BURSTS_PER_S_MAX));
    let (mut account, mut missed, mut before) = (Account::default(), 0_u64, 0_u64);
    let (mut went_offline, mut peer_went_away, mut sender) = (false, false, sender);
    while let (Some(due_ns), Some(sender)) = (beats.wait(end), sender.as_mut()) {
        went_offline = is_off(cpu);
        peer_went_away = !sender.is_wanted(&account);
        if went_offline || peer_went_away {
            break;
        }
        // The number of packets that are due by the end of this burst, minus the packets of missed bursts.
        let burst_ns = due_ns - start_ns - 1 + SECOND_NS / beats.rate_per_s;
        let due = (u128::from(burst_ns) * u128::from(rate_per_s) / u128::from(SECOND_NS)) as u64;
        let most = rate_per_s.div_ceil(beats.rate_per_s) + 1;
        missed += (due - before).saturating_sub(most);
        for _ in 0..(due - before).min(most) {
            sender.send(&mut packet, &mut account);
        }
        before = due;
    }
    let elapsed_ns = clock::monotonic_ns() - start_ns;
    let taken_ns = clock::thread_cpu_ns().saturating_sub(cpu_before_ns);
    let Account { sent, unheard, refused, refused_because } = account;
    Cpu {
        cpu,
        sent,
        unheard,
        refused,
        refused_because,
        missed,
        elapsed_ns,
        taken_ns,
        sent_per_s: sent as f64 * 1e9 / elapsed_ns.max(1) as f64,
        arrived: sender.filter(|_| !peer_went_away).and_then(Sender::arrived),
        peer_went_away,
        softirqs: None,
        went_offline,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_the_machine() {
        let to = |address: &str| Settings {
            cpus: [0].into_iter().collect(),
            to: To::Own(address.parse().unwrap()),
            rate_per_s: 1000,
            size_bytes: 100,
        };
        for well in ["127.0.0.1:9", "127.3.4.5:9999", "[::1]:5"] {
            assert_eq!(refuse(&to(well)), Ok(()), "{well}");
        }
        for out in
            ["192.0.2.1:9", "8.8.8.8:9", "[2001:db8::1]:5", "0.0.0.0:9", "[::]:9", "224.0.0.1:9", "255.255.255.255:9"]
        {
            let refused = refuse(&to(out)).unwrap_err().to_string();
            assert!(
                refused.contains("a storm stays on this machine, and this is not one of its addresses"),
                "{refused}"
            );
            let peer = To::Peer { peer: out.parse().unwrap() };
            let refused = refuse(&Settings { to: peer, ..to(out) }).unwrap_err().to_string();
            assert!(refused.contains("a peer has a private or link-local address"), "{refused}");
        }
        assert!(refuse(&to("127.0.0.1:0")).is_err());
        assert!(refuse(&Settings { size_bytes: 1473, ..to("127.0.0.1:9") }).is_err());
        assert!(refuse(&Settings { rate_per_s: 2_000_001, ..to("127.0.0.1:9") }).is_err());
        let peer = Settings { to: To::Peer { peer: "10.0.0.1:7".parse().unwrap() }, ..to("127.0.0.1:9") };
        assert_eq!(refuse(&peer), Ok(()));
        assert!(refuse(&Settings { rate_per_s: 200_001, ..peer.clone() }).is_err());
        assert!(refuse(&Settings { size_bytes: 23, ..peer }).is_err());
    }
}
