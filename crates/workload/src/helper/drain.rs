//! A server that empties its socket once per tick, as game servers do, under a steady stream of packets.
//! The packets that arrive between two ticks must fit into the socket's receive buffer.
//! The kernel drops the packets that do not fit.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_sys::udp::{self, Inbox, Wait};
use evenkeel_sys::{Errno, clock};
use serde_json::{Map, Value, json};

use super::echo::{PACKET_BYTES_MAX, Worker, lock, on_loopback};
use super::{Helper, HelperError, Since, address, no_socket, target};

/// How often the load wakes to send due packets. The load is idle most of the time, but the packets of one tick still arrive as a stream.
const LOAD_PERIOD_NS: u64 = 1_000_000;
/// If the load was delayed for longer than this, it does not send the packets that became due during the delay.
/// Real players do not send old packets after a delay either.
const BEHIND_NS_MAX: u64 = 20_000_000;

/// How the server reads its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainSettings {
    /// The time from one reading to the next, in milliseconds.
    pub period_ms: u64,
    /// The size of the receive buffer to request, in bytes.
    /// The kernel grants twice this size, up to its limit (`net.core.rmem_max`). None keeps the initial size (`net.core.rmem_default`).
    pub ask_bytes: Option<u32>,
}

/// Empties its socket once per period.
#[derive(Debug)]
pub struct DrainServer {
    settings: DrainSettings,
    serving: Option<(Worker, SocketAddr)>,
    counts: Arc<Mutex<DrainCounts>>,
    buffer_bytes: u64,
    since: Since,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DrainCounts {
    received: u64,
    dropped: u64,
    drains: u64,
    /// Whether the number of dropped packets is unknown, because the kernel does not report it.
    is_drop_count_unknown: bool,
}

impl DrainServer {
    /// Starts serving on loopback.
    ///
    /// # Errors
    /// Fails if no socket or thread can be created.
    pub fn start(settings: DrainSettings) -> io::Result<DrainServer> {
        let counts = Arc::new(Mutex::new(DrainCounts::default()));
        let mut server = DrainServer { settings, serving: None, counts, buffer_bytes: 0, since: Since::now() };
        server.listen()?;
        Ok(server)
    }

    fn listen(&mut self) -> io::Result<SocketAddr> {
        self.end();
        let refused = |errno: Errno| io::Error::other(errno.to_string());
        let socket = on_loopback()?;
        if let Some(bytes) = self.settings.ask_bytes {
            udp::set_receive_buffer_bytes(&socket, bytes).map_err(refused)?;
        }
        self.buffer_bytes = udp::receive_buffer_bytes(&socket).map_err(refused)?;
        let address = socket.local_addr()?;
        let (period_ns, counts) = (self.settings.period_ms.max(1) * 1_000_000, Arc::clone(&self.counts));
        // Read the count before the thread runs, because packets may arrive before it gets a CPU.
        let dropped = udp::dropped(&socket);
        self.serving =
            Some((Worker::start("drain", move |stop| drain(&socket, period_ns, dropped, &counts, stop))?, address));
        Ok(address)
    }

    fn end(&mut self) {
        if let Some((worker, _)) = self.serving.take() {
            worker.end(|| {});
        }
    }
}

fn drain(socket: &UdpSocket, period_ns: u64, dropped: Option<u32>, counts: &Mutex<DrainCounts>, stop: &AtomicBool) {
    let mut inbox = Inbox::new(PACKET_BYTES_MAX);
    let mut due_ns = clock::monotonic_ns();
    let mut dropped_before = dropped;
    while !stop.load(Ordering::Relaxed) {
        due_ns = (due_ns + period_ns).max(clock::monotonic_ns());
        clock::sleep_until_ns(due_ns);
        let mut received = 0;
        // Stop at the next tick. If packets arrive faster than this thread reads, the thread would otherwise stay in this loop forever.
        while clock::monotonic_ns() < due_ns + period_ns {
            match inbox.receive(socket, Wait::Not) {
                Ok(packets) => received += packets as u64,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let dropped_now = udp::dropped(socket);
        let mut counts = lock(counts);
        counts.received += received;
        counts.drains += 1;
        match dropped_before.zip(dropped_now) {
            Some((before, now)) => counts.dropped += u64::from(now.wrapping_sub(before)),
            None => counts.is_drop_count_unknown = true,
        }
        dropped_before = dropped_now;
    }
}

impl Helper for DrainServer {
    fn ready(&self) -> Value {
        let address = self.serving.as_ref().map(|(_, address)| address);
        json!({ "event": "ready", "addr": address, "buffer_bytes": self.buffer_bytes })
    }

    fn window(&mut self) -> Map<String, Value> {
        let counts = std::mem::take(&mut *lock(&self.counts));
        let mut numbers = self.since.turn();
        numbers.insert("received".into(), json!(counts.received));
        numbers.insert("drains".into(), json!(counts.drains));
        numbers.insert("buffer_bytes".into(), json!(self.buffer_bytes));
        if !counts.is_drop_count_unknown {
            numbers.insert("dropped".into(), json!(counts.dropped));
        }
        numbers
    }

    fn close(&mut self) -> Result<(), HelperError> {
        self.end();
        Ok(())
    }

    fn open(&mut self, _to: Option<SocketAddr>) -> Result<Map<String, Value>, HelperError> {
        self.listen().map(|opened| address(&opened)).map_err(no_socket)
    }
}

/// Sends packets at an even rate. It reads no packets.
#[derive(Debug)]
pub struct DrainLoad {
    packets_per_s: u32,
    bytes: usize,
    sending: Option<Worker>,
    sent: Arc<Mutex<u64>>,
    since: Since,
}

impl DrainLoad {
    /// Starts sending this many packets per second, of this many bytes each (1 to 1472).
    ///
    /// # Errors
    /// Fails if no socket or thread can be created.
    pub fn start(to: SocketAddr, packets_per_s: u32, bytes: usize) -> io::Result<DrainLoad> {
        let bytes = bytes.clamp(1, PACKET_BYTES_MAX);
        let sent = Arc::new(Mutex::new(0));
        let mut load = DrainLoad { packets_per_s, bytes, sending: None, sent, since: Since::now() };
        load.connect(to)?;
        Ok(load)
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<()> {
        self.end();
        let socket = on_loopback()?;
        socket.connect(to)?;
        let (rate, bytes, sent) = (self.packets_per_s, self.bytes, Arc::clone(&self.sent));
        self.sending = Some(Worker::start("load", move |stop| stream(&socket, rate, bytes, &sent, stop))?);
        Ok(())
    }

    fn end(&mut self) {
        if let Some(worker) = self.sending.take() {
            worker.end(|| {});
        }
    }
}

fn stream(socket: &UdpSocket, packets_per_s: u32, bytes: usize, sent: &Mutex<u64>, stop: &AtomicBool) {
    let packet = [0x5A; PACKET_BYTES_MAX];
    let mut due = Due::new(clock::monotonic_ns(), packets_per_s);
    while !stop.load(Ordering::Relaxed) {
        let now_ns = clock::monotonic_ns();
        let packets = due.until(now_ns);
        let taken = (0..packets).filter(|_| socket.send(&packet[..bytes]).is_ok()).count();
        *lock(sent) += taken as u64;
        clock::sleep_until_ns(now_ns + LOAD_PERIOD_NS);
    }
}

/// Computes how many packets are due at a given time.
struct Due {
    start_ns: u64,
    packets_per_s: u32,
    given: u64,
}

impl Due {
    fn new(start_ns: u64, packets_per_s: u32) -> Due {
        Due { start_ns, packets_per_s, given: 0 }
    }

    /// The number of packets that are due and were not returned by an earlier call.
    fn until(&mut self, now_ns: u64) -> u64 {
        let by = |ns: u64| (u128::from(ns) * u128::from(self.packets_per_s) / 1_000_000_000) as u64;
        let all = by(now_ns.saturating_sub(self.start_ns));
        let due = all.saturating_sub(self.given).min(by(BEHIND_NS_MAX));
        self.given = all;
        due
    }
}

impl Helper for DrainLoad {
    fn window(&mut self) -> Map<String, Value> {
        let sent = std::mem::take(&mut *lock(&self.sent));
        let mut numbers = self.since.turn();
        numbers.insert("sent".into(), json!(sent));
        numbers
    }

    fn close(&mut self) -> Result<(), HelperError> {
        self.end();
        Ok(())
    }

    fn open(&mut self, to: Option<SocketAddr>) -> Result<Map<String, Value>, HelperError> {
        self.connect(target(to)?).map(|()| Map::new()).map_err(no_socket)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::Command;
    use super::*;

    #[test]
    fn packets_are_due_by_the_clock_and_the_past_is_let_go() {
        let mut due = Due::new(1_000, 64_000);
        assert_eq!([due.until(1_000), due.until(1_001_000), due.until(1_001_000)], [0, 64, 0]);
        assert_eq!(due.until(500), 0, "a clock that stands still is no harm");
        let mut due = Due::new(0, 64_000);
        assert_eq!(due.until(1_000_000_000), 64 * 20, "held up for a second: 20 ms of it are sent");
        assert_eq!(due.until(1_001_000_000), 64);
    }

    #[test]
    fn packets_beyond_the_buffer_are_counted() {
        let settings = DrainSettings { period_ms: 30, ask_bytes: Some(1) };
        let mut server = DrainServer::start(settings).unwrap();
        let small = server.buffer_bytes;
        assert!(small > 0 && small < 100_000, "the smallest buffer of the kernel: {small}");
        let to: SocketAddr = server.ready()["addr"].as_str().unwrap().parse().unwrap();
        let mut load = DrainLoad::start(to, 20_000, 100).unwrap();
        let (mut seen, mut sent) = (DrainCounts::default(), 0);
        let add = |server: &mut DrainServer, seen: &mut DrainCounts| {
            let window = server.answer(Command::Window).unwrap();
            seen.received += window["received"].as_u64().unwrap();
            seen.dropped += window["dropped"].as_u64().unwrap();
        };
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(60));
            add(&mut server, &mut seen);
            sent += load.answer(Command::Window).unwrap()["sent"].as_u64().unwrap();
            if seen.dropped > 0 && seen.received > 0 {
                break;
            }
        }
        load.end();
        sent += load.answer(Command::Window).unwrap()["sent"].as_u64().unwrap();
        // A late reading may find the last packets, so wait for it.
        let closed = Instant::now();
        loop {
            std::thread::sleep(Duration::from_millis(100));
            add(&mut server, &mut seen);
            if seen.received + seen.dropped >= sent || closed.elapsed() > Duration::from_secs(20) {
                break;
            }
        }
        server.end();
        assert!(seen.dropped > 0 && seen.received > 0, "{seen:?}");
        assert_eq!(seen.received + seen.dropped, sent, "what is sent on loopback is received or dropped");
    }
}
