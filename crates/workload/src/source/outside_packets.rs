//! Observes the UDP packets of a server from outside: how many packets the server sends, and at which intervals.
//! The times are kernel timestamps on a packet socket.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use evenkeel_measure::meters::ticks::account::ticks;
use evenkeel_measure::meters::ticks::tempo::Tempo;
use evenkeel_measure::meters::ticks::track::{Beat, Found};
use evenkeel_stats::{Direction, quantile};
use evenkeel_sys::packet_filter::PORTS_MAX;
use evenkeel_sys::packet_ring::{DRAIN_WITHIN_MS, HANDED_OVER_WITHIN_MS, Network, SentPacket, SentPackets};
use evenkeel_sys::{Errno, clock};

use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::sockets::{Protocol, serving};
use crate::source::Source;
use crate::workload::Sample;

/// Packets at most this far apart belong to one burst. Within a burst, a server sends a packet every few microseconds.
const TOGETHER_NS: u64 = 1_000_000;
/// How often the ring is read during a window. This is several times as often as necessary, because the reader may be delayed.
const READ_EVERY_NS: u64 = DRAIN_WITHIN_MS as u64 * 1_000_000 / 6;
/// The maximum number of packets to store for a window.
const PACKETS_MAX: usize = 1 << 20;
/// The maximum number of peers to distinguish.
const PEERS_MAX: usize = 65_536;
/// The maximum number of bytes to read of a socket table, and (the next constant) of files to read of a process.
const TABLE_BYTES_MAX: usize = 16 << 20;
const FILES_MAX: usize = 65_536;

/// The metrics of this source.
pub const METRICS: &[Metric] = &[
    Metric::us("sent_interval_us_p50", "median time from one burst of the server's packets to the next"),
    Metric::us(
        "sent_interval_us_p99",
        "99th percentile of the time from one burst of the server's packets to the next",
    ),
    Metric::us("sent_jitter_us_p50", "median of how far that is from the usual time"),
    Metric::us("sent_jitter_us_p99", "99th percentile of how far that is from the usual time"),
    Metric::new("sent_bytes_per_burst", "bytes that the server sends at once", "bytes", Direction::Lower),
    Metric::new("sent_packets_per_burst", "packets that the server sends at once", "", Direction::Lower),
];

/// Records the packets of the server's UDP ports.
pub struct OutsidePackets {
    reader: Reader,
    ports: Vec<u16>,
    is_elsewhere: bool,
    tempo: Option<Tempo>,
    from_ns: u64,
}

impl OutsidePackets {
    /// Finds the UDP ports of `pids` and records the packets sent from them, in the server's own network namespace.
    ///
    /// # Errors
    /// Fails if the processes have no UDP port, or if this user may not capture packets.
    pub fn start(pids: &[u32]) -> Result<OutsidePackets, WorkloadError> {
        let failed = |why: String| WorkloadError::Program { program: "the server's packets".to_owned(), why };
        let ports = udp_ports(pids);
        let Some(first) = pids.first().filter(|_| !ports.is_empty()) else {
            return Err(failed("none of its processes has a UDP port that evenkeel can see".into()));
        };
        let place = |who: &str| fs::read_link(format!("/proc/{who}/ns/net")).ok();
        let is_elsewhere = place(&first.to_string()) != place("self");
        let network = if is_elsewhere { Network::OfProcess(*first) } else { Network::Own };
        let ring = SentPackets::of_ports(&ports, network).map_err(|errno| failed(refused(errno, is_elsewhere)))?;
        let reader =
            Reader::start(ring).map_err(|error| failed(format!("start the thread that reads them: {error}")))?;
        Ok(OutsidePackets { reader, ports, is_elsewhere, tempo: None, from_ns: clock::realtime_ns() })
    }
}

fn refused(errno: Errno, is_elsewhere: bool) -> String {
    match (errno.is_denial(), is_elsewhere) {
        (true, true) => format!(
            "it has its own network namespace, and you need root (CAP_SYS_ADMIN and CAP_NET_RAW) to observe it: {errno}"
        ),
        (true, false) => format!("you need root or CAP_NET_RAW to observe packets: {errno}"),
        (false, _) => format!("record them: {errno}"),
    }
}

/// The UDP ports that these processes have open. Ports beyond the limit are left out.
fn udp_ports(pids: &[u32]) -> Vec<u16> {
    let mut ports = BTreeSet::new();
    for pid in pids {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().take(FILES_MAX);
        let socket =
            |path: std::path::PathBuf| path.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
        let open: BTreeSet<u64> = files.filter_map(|file| fs::read_link(file.path()).ok().and_then(socket)).collect();
        for table in ["udp", "udp6"] {
            let mut bytes = fs::read(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
            bytes.truncate(TABLE_BYTES_MAX);
            let text = String::from_utf8_lossy(&bytes);
            let sockets = serving(&text, Protocol::Udp).filter(|socket| open.contains(&socket.inode));
            ports.extend(sockets.map(|socket| socket.port));
        }
    }
    ports.into_iter().take(PORTS_MAX).collect()
}

impl Source for OutsidePackets {
    fn describe(&self) -> String {
        let ports = self.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let place = if self.is_elsewhere { ", in its own network namespace" } else { "" };
        format!("packets sent from UDP port {ports}{place}, by the kernel's time stamps")
    }

    fn metrics(&self) -> Vec<Metric> {
        METRICS.to_vec()
    }

    fn begin(&mut self) -> Result<(), WorkloadError> {
        let mut heard = self.reader.heard();
        heard.drain();
        heard.forget();
        self.from_ns = clock::realtime_ns();
        Ok(())
    }

    fn end(&mut self) -> Result<Sample, WorkloadError> {
        let failed = |why: String| WorkloadError::Program { program: "the server's packets".to_owned(), why };
        let to_ns = clock::realtime_ns();
        // The last packets are in a block that the kernel passes on a little later, so wait for this block.
        clock::sleep_until_ns(clock::monotonic_ns() + u64::from(HANDED_OVER_WITHIN_MS) * 3 / 2 * 1_000_000);
        let mut heard = self.reader.heard();
        heard.drain();
        let counts = heard.ring.counts().map_err(|errno| failed(format!("count them: {errno}")))?;
        let (beyond, unread) = (heard.beyond, heard.unread);
        let mut seen = heard.forget();
        drop(heard);
        let within = self.from_ns..=to_ns;
        seen.retain(|packet| within.contains(&packet.at_ns));
        let cadence = Cadence::from_packets(&seen);
        if cadence.bursts.is_empty() {
            let program = "the server's packets".to_owned();
            return Err(WorkloadError::NoValue {
                program,
                why: "it sent no packet in this window; does it have players?".into(),
            });
        }
        let (mut sample, tempo) = cadence.sample(self.tempo.as_ref());
        self.tempo = tempo;
        sample.insert("packets_lost".to_owned(), (counts.lost + beyond) as f64);
        sample.insert("packets_unread".to_owned(), f64::from(unread));
        Ok(sample)
    }
}

/// The packets that were read from the ring since the window began.
struct Heard {
    ring: SentPackets,
    packets: Vec<SentPacket>,
    beyond: u64,
    unread: u32,
}

impl Heard {
    fn drain(&mut self) {
        let Heard { ring, packets, beyond, unread } = self;
        *unread += ring.drain(|packet| match packets.len() < PACKETS_MAX {
            true => packets.push(packet),
            false => *beyond += 1,
        });
    }

    /// Removes the packets and returns them.
    fn forget(&mut self) -> Vec<SentPacket> {
        let _ = self.ring.counts();
        (self.beyond, self.unread) = (0, 0);
        std::mem::take(&mut self.packets)
    }
}

/// A thread that reads the ring during a window.
/// The ring's blocks can fill up quickly: a server that sends small amounts often may fill a block with each tick.
struct Reader {
    heard: Arc<Mutex<Heard>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn start(ring: SentPackets) -> std::io::Result<Reader> {
        let heard = Arc::new(Mutex::new(Heard { ring, packets: Vec::new(), beyond: 0, unread: 0 }));
        let stop = Arc::new(AtomicBool::new(false));
        let (of_thread, end) = (Arc::clone(&heard), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("packets".to_owned()).spawn(move || {
            while !end.load(Ordering::Relaxed) {
                clock::sleep_until_ns(clock::monotonic_ns() + READ_EVERY_NS);
                lock(&of_thread).drain();
            }
        })?;
        Ok(Reader { heard, stop, thread: Some(thread) })
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        lock(&self.heard)
    }
}

/// Locks the mutex, even if another thread panicked while it had the lock. The data is consistent after each packet.
fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread wakes within one period, and its result is not needed.
            let _ = thread.join();
        }
    }
}

/// The packets of a window, grouped into bursts.
#[derive(Debug, Default)]
struct Cadence {
    bursts: Vec<Burst>,
    peers: BTreeMap<SocketAddr, u32>,
    seen_twice: u64,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    beat: Beat,
    packets: u32,
}

impl Cadence {
    fn from_packets(packets: &[SentPacket]) -> Cadence {
        let mut cadence = Cadence::default();
        for packet in packets {
            // If a packet leaves through an interface and then through its lower device, the socket gets the packet twice.
            // Only the first copy counts.
            let room = cadence.peers.len() < PEERS_MAX;
            let first = match cadence.peers.get(&packet.heads.to) {
                Some(first) => *first,
                None => {
                    if room {
                        cadence.peers.insert(packet.heads.to, packet.interface);
                    }
                    packet.interface
                }
            };
            if first != packet.interface {
                cadence.seen_twice += 1;
                continue;
            }
            let bytes = f64::from(packet.heads.bytes);
            match cadence
                .bursts
                .last_mut()
                .filter(|last| packet.at_ns.saturating_sub(last.beat.until_ns) <= TOGETHER_NS)
            {
                Some(last) => {
                    last.beat.until_ns = last.beat.until_ns.max(packet.at_ns);
                    last.beat.weight += bytes;
                    last.packets += 1;
                }
                None => {
                    let beat = Beat { at_ns: packet.at_ns, until_ns: packet.at_ns, weight: bytes };
                    cadence.bursts.push(Burst { beat, packets: 1 });
                }
            }
        }
        cadence
    }

    /// The values of a window: of the periodic bursts if there are any, otherwise of all bursts.
    fn sample(&self, known: Option<&Tempo>) -> (Sample, Option<Tempo>) {
        let beats: Vec<Beat> = self.bursts.iter().map(|burst| burst.beat).collect();
        let found = ticks(&beats, known).ok();
        let counted: Vec<usize> = match &found {
            Some((_, followed)) => followed.slots.iter().filter_map(|slot| slot.beat()).collect(),
            None => (0..beats.len()).collect(),
        };
        let intervals: Vec<f64> = counted
            .windows(2)
            .map(|pair| beats[pair[1]].at_ns.saturating_sub(beats[pair[0]].at_ns) as f64 / 1e3)
            .collect();
        let usual = found.as_ref().map(|(tempo, _)| tempo.period_ns / 1e3).or_else(|| quantile(&intervals, 0.5));
        let jitter: Vec<f64> =
            intervals.iter().filter_map(|interval| usual.map(|usual| (interval - usual).abs())).collect();
        let packets: u64 = counted.iter().map(|at| u64::from(self.bursts[*at].packets)).sum();
        let bytes: f64 = counted.iter().map(|at| self.bursts[*at].beat.weight).sum();
        let all = self.bursts.iter().map(|burst| u64::from(burst.packets)).sum::<u64>();
        let bursts = counted.len().max(1) as f64;
        let mut sample = Sample::from(
            [
                ("sent_bursts", counted.len() as f64),
                ("sent_packets", all as f64),
                ("sent_packets_per_burst", packets as f64 / bursts),
                ("sent_bytes_per_burst", bytes / bursts),
                ("sent_peers", self.peers.len() as f64),
                ("sent_seen_twice", self.seen_twice as f64),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        if let Some((tempo, followed)) = &found {
            sample.insert("sent_hz".to_owned(), tempo.hz());
            let missed = followed.slots.iter().filter(|slot| slot.found == Found::Missed).count();
            sample.insert("sent_missed".to_owned(), missed as f64);
        }
        for (name, list) in [("sent_interval_us", &intervals), ("sent_jitter_us", &jitter)] {
            for (quantile_name, q) in [("p50", 0.5), ("p99", 0.99)] {
                sample.extend(quantile(list, q).map(|value| (format!("{name}_{quantile_name}"), value)));
            }
        }
        (sample, found.map(|(tempo, _)| tempo))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use evenkeel_sys::packet_ring::Heads;

    use super::*;

    fn packet(at_ms: f64, port: u16, interface: u32) -> SentPacket {
        let heads = Heads { from_port: 8303, to: SocketAddr::from(([127, 0, 0, 1], port)), bytes: 100 };
        SentPacket { at_ns: (at_ms * 1e6) as u64, interface, heads }
    }

    #[test]
    fn bursts_have_their_cadence_whatever_lies_between() {
        let mut packets = Vec::new();
        for tick in 0..200_u32 {
            let at_ms = f64::from(tick) * 40.0 + 1000.0;
            let bots = (0..16).map(|bot| packet(at_ms + f64::from(bot) * 0.01, 5000 + bot, 1));
            packets.extend(bots);
            // Add a copy of each packet on the bridge below the interface, and a reply now and then.
            packets.extend((0..16).map(|bot| packet(at_ms + 0.2 + f64::from(bot) * 0.01, 5000 + bot, 2)));
            if tick % 7 == 0 {
                packets.push(packet(at_ms + 11.0 + f64::from(tick % 5), 9000, 1));
            }
        }
        let cadence = Cadence::from_packets(&packets);
        let (sample, tempo) = cadence.sample(None);
        assert!((tempo.unwrap().hz() - 25.0).abs() < 0.1);
        assert!((sample["sent_interval_us_p50"] - 40_000.0).abs() < 10.0, "{sample:?}");
        assert!(sample["sent_jitter_us_p99"] < 10.0, "{sample:?}");
        assert_eq!((sample["sent_packets_per_burst"], sample["sent_bytes_per_burst"]), (16.0, 1600.0));
        assert_eq!((sample["sent_peers"], sample["sent_seen_twice"], sample["sent_bursts"]), (17.0, 3200.0, 200.0));
        assert_eq!(sample["sent_missed"], 0.0);
        let (again, _) = cadence.sample(cadence.sample(None).1.as_ref());
        assert_eq!(again["sent_bursts"], 200.0, "a tempo that is known");
    }

    #[test]
    fn few_packets_are_reported_unfiltered() {
        let cadence = Cadence::from_packets(&[packet(1000.0, 1, 1), packet(1040.0, 1, 1), packet(1090.0, 1, 1)]);
        let (sample, tempo) = cadence.sample(None);
        assert_eq!(tempo, None);
        assert_eq!((sample["sent_interval_us_p50"], sample["sent_bursts"]), (45_000.0, 3.0));
        assert!(!sample.contains_key("sent_hz"));
        assert_eq!(Cadence::from_packets(&[]).sample(None).0["sent_packets"], 0.0);
    }

    #[test]
    fn packets_that_are_sent_are_seen() {
        let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut source = match OutsidePackets::start(&[std::process::id()]) {
            Ok(source) => source,
            Err(error) => {
                assert!(error.to_string().contains("need root"), "{error}");
                evenkeel_testkit::skipped(format_args!("this user may not see packets ({error})"));
                return;
            }
        };
        let begun = std::time::Instant::now();
        loop {
            source.begin().unwrap();
            for _ in 0..3 {
                from.send_to(&[7; 20], to.local_addr().unwrap()).unwrap();
            }
            let sample = source.end().unwrap();
            assert_eq!((sample["packets_lost"], sample["packets_unread"]), (0.0, 0.0), "{sample:?}");
            // Other tests run in parallel in this process, and their sockets may send too. A block may arrive late.
            if sample["sent_packets"] >= 3.0 {
                return;
            }
            assert!(begun.elapsed().as_secs() < 60, "{sample:?}");
        }
    }

    #[test]
    fn our_own_ports_are_found() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(udp_ports(&[std::process::id()]).contains(&port));
        assert!(udp_ports(&[]).is_empty());
    }
}
