//! A load that sends a packet to a server, waits for the answer, and repeats this.
//! Server and load sleep in turn, so a round trip has two wakes plus the path. This suits knobs about waking.
//! In contrast, `evenkeel measure udp` uses an open loop and stays awake between packets. Its CPU never goes idle and cannot be shared.
//! The open loop suits measurements of a network, but not knobs about waking.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_stats::Histogram;
use evenkeel_sys::clock;
use serde_json::{Map, Value, json};

use super::{Helper, HelperError, Since, address, no_socket, quantiles, target};

/// The maximum size of a packet, in bytes without headers.
pub(super) const PACKET_BYTES_MAX: usize = 1472;
/// The size of the packet number at the beginning of each packet.
const NUMBER_BYTES: usize = 8;
/// How long an answer may take before the packet counts as lost.
const ANSWER_TIME: Duration = Duration::from_millis(200);
/// The maximum number of attempts to wake a sleeping thread so that it ends, and the pause between them.
const WAKES_MAX: u32 = 400;
const WAKE_PAUSE: Duration = Duration::from_millis(5);
const NO_SLACK: &str = "its thread sleeps for packets, which slack does not touch";

/// A thread that owns a socket and ends on request.
#[derive(Debug)]
pub(super) struct Worker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Worker {
    pub(super) fn start(name: &str, run: impl FnOnce(&AtomicBool) + Send + 'static) -> io::Result<Worker> {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&ended))?;
        Ok(Worker { stop, thread })
    }

    /// Ends the thread. Calls `wake` repeatedly until the thread has ended.
    pub(super) fn end(self, mut wake: impl FnMut()) {
        self.stop.store(true, Ordering::Relaxed);
        for _ in 0..WAKES_MAX {
            if self.thread.is_finished() {
                // The panic was already printed to standard error.
                let _ = self.thread.join();
                return;
            }
            wake();
            std::thread::sleep(WAKE_PAUSE);
        }
    }
}

/// Locks the mutex, even if another thread panicked while it had the lock. At worst, some counts are incomplete then.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a socket on a free port of the loopback device.
pub(super) fn on_loopback() -> io::Result<UdpSocket> {
    UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// A server that returns every packet to its sender.
#[derive(Debug)]
pub struct EchoServer {
    serving: Option<(Worker, SocketAddr)>,
    since: Since,
}

impl EchoServer {
    /// Starts serving on loopback.
    ///
    /// # Errors
    /// Fails if no socket or thread can be created.
    pub fn start() -> io::Result<EchoServer> {
        let mut server = EchoServer { serving: None, since: Since::now() };
        server.listen()?;
        Ok(server)
    }

    fn listen(&mut self) -> io::Result<SocketAddr> {
        self.end();
        let socket = on_loopback()?;
        let address = socket.local_addr()?;
        self.serving = Some((Worker::start("echo", move |stop| echo(&socket, stop))?, address));
        Ok(address)
    }

    fn end(&mut self) {
        let Some((worker, address)) = self.serving.take() else { return };
        let nudge = on_loopback();
        // Send a packet to wake the thread. The thread then sees that it must end.
        worker.end(|| {
            let _ = nudge.as_ref().map(|socket| socket.send_to(&[0; NUMBER_BYTES], address));
        });
    }
}

fn echo(socket: &UdpSocket, stop: &AtomicBool) {
    let mut packet = [0; PACKET_BYTES_MAX];
    while !stop.load(Ordering::Relaxed) {
        // The error concerns only this packet. The sender will send another packet.
        if let Ok((length, from)) = socket.recv_from(&mut packet) {
            let _ = socket.send_to(&packet[..length], from);
        }
    }
}

impl Helper for EchoServer {
    fn ready(&self) -> Value {
        json!({ "event": "ready", "addr": self.serving.as_ref().map(|(_, address)| address) })
    }

    fn window(&mut self) -> Map<String, Value> {
        self.since.turn()
    }

    fn close(&mut self) -> Result<(), HelperError> {
        self.end();
        Ok(())
    }

    fn open(&mut self, _to: Option<SocketAddr>) -> Result<Map<String, Value>, HelperError> {
        self.listen().map(|opened| address(&opened)).map_err(no_socket)
    }

    fn timer_slack_ns(&mut self, _value: Option<u64>) -> Result<u64, HelperError> {
        Err(NO_SLACK.into())
    }
}

/// How to send packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoSettings {
    /// The size of each packet, in bytes without headers: 8 to 1472.
    pub bytes: usize,
    /// The maximum number of round trips per second, evenly spread.
    /// With a rate of 0, the load sends each packet as soon as the previous packet is back.
    pub rate_hz: u32,
}

/// A load that sends packets to a server and waits for each packet to return.
#[derive(Debug)]
pub struct EchoLoad {
    settings: EchoSettings,
    sending: Option<Worker>,
    counts: Arc<Mutex<EchoCounts>>,
    since: Since,
}

#[derive(Debug)]
struct EchoCounts {
    round_trip_ns: Histogram,
    lost: u64,
}

impl EchoCounts {
    fn new() -> EchoCounts {
        EchoCounts { round_trip_ns: Histogram::new(), lost: 0 }
    }
}

impl EchoLoad {
    /// Starts sending.
    ///
    /// # Errors
    /// Fails if no socket or thread can be created.
    pub fn start(to: SocketAddr, settings: EchoSettings) -> io::Result<EchoLoad> {
        let settings = EchoSettings { bytes: settings.bytes.clamp(NUMBER_BYTES, PACKET_BYTES_MAX), ..settings };
        let counts = Arc::new(Mutex::new(EchoCounts::new()));
        let mut load = EchoLoad { settings, sending: None, counts, since: Since::now() };
        load.connect(to)?;
        Ok(load)
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<()> {
        self.end();
        let socket = on_loopback()?;
        socket.connect(to)?;
        socket.set_read_timeout(Some(ANSWER_TIME))?;
        let (settings, counts) = (self.settings, Arc::clone(&self.counts));
        self.sending = Some(Worker::start("load", move |stop| send(&socket, settings, &counts, stop))?);
        Ok(())
    }

    fn end(&mut self) {
        if let Some(worker) = self.sending.take() {
            worker.end(|| {});
        }
    }
}

fn send(socket: &UdpSocket, settings: EchoSettings, counts: &Mutex<EchoCounts>, stop: &AtomicBool) {
    let mut packet = [0; PACKET_BYTES_MAX];
    let mut due_ns = clock::monotonic_ns();
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if settings.rate_hz > 0 {
            // Do not catch up on missed packets, because a burst would not be the requested rate.
            due_ns = (due_ns + 1_000_000_000 / u64::from(settings.rate_hz)).max(clock::monotonic_ns());
            clock::sleep_until_ns(due_ns);
        }
        packet[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        let sent_ns = clock::monotonic_ns();
        let came = socket.send(&packet[..settings.bytes]).and_then(|_| await_answer(socket, number, sent_ns));
        match came {
            Ok(()) => lock(counts).round_trip_ns.record(clock::monotonic_ns().saturating_sub(sent_ns)),
            Err(error) => {
                lock(counts).lost += 1;
                // If the server has ended, sending fails at once. Pause before the next attempt.
                if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                    std::thread::sleep(WAKE_PAUSE);
                }
            }
        }
    }
}

/// Reads until the answer to this packet arrives. Late answers to earlier packets are skipped.
fn await_answer(socket: &UdpSocket, number: u64, sent_ns: u64) -> io::Result<()> {
    let mut answer = [0; PACKET_BYTES_MAX];
    loop {
        let length = socket.recv(&mut answer)?;
        if length >= NUMBER_BYTES && answer[..NUMBER_BYTES] == number.to_le_bytes() {
            return Ok(());
        }
        if clock::monotonic_ns().saturating_sub(sent_ns) > ANSWER_TIME.as_nanos() as u64 {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

impl Helper for EchoLoad {
    fn window(&mut self) -> Map<String, Value> {
        // Create the new counts before taking the lock, so that no measurement waits for the allocation.
        let fresh = EchoCounts::new();
        let counts = std::mem::replace(&mut *lock(&self.counts), fresh);
        let mut numbers = self.since.turn();
        numbers.insert("round_trips".into(), json!(counts.round_trip_ns.count()));
        numbers.insert("lost".into(), json!(counts.lost));
        numbers.insert("round_trip_us".into(), quantiles(&counts.round_trip_ns));
        numbers
    }

    fn close(&mut self) -> Result<(), HelperError> {
        self.end();
        Ok(())
    }

    fn open(&mut self, to: Option<SocketAddr>) -> Result<Map<String, Value>, HelperError> {
        self.connect(target(to)?).map(|()| Map::new()).map_err(no_socket)
    }

    fn timer_slack_ns(&mut self, _value: Option<u64>) -> Result<u64, HelperError> {
        Err(NO_SLACK.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::*;

    const PATIENCE_NS: u64 = 20_000_000_000;

    fn window(helper: &mut impl Helper) -> Value {
        helper.answer(Command::Window).unwrap()
    }

    /// Waits until the load has measured round trips.
    fn until_it_goes(load: &mut EchoLoad) -> Value {
        let give_up_ns = clock::monotonic_ns() + PATIENCE_NS;
        while clock::monotonic_ns() < give_up_ns {
            std::thread::sleep(Duration::from_millis(20));
            let seen = window(load);
            if seen["round_trips"].as_u64().unwrap() > 0 {
                return seen;
            }
        }
        panic!("no packet came back");
    }

    #[test]
    fn packets_come_back_also_over_new_sockets() {
        let mut server = EchoServer::start().unwrap();
        let first: SocketAddr = server.ready()["addr"].as_str().unwrap().parse().unwrap();
        let mut load = EchoLoad::start(first, EchoSettings { bytes: 0, rate_hz: 0 }).unwrap();
        let seen = until_it_goes(&mut load);
        let us = |name: &str| seen["round_trip_us"][name].as_f64().unwrap();
        assert!(us("p50") > 0.0 && us("p50") <= us("p90") && us("p90") <= us("p99"), "{seen}");
        assert!(window(&mut server)["cpu_us"].as_f64().unwrap() > 0.0);

        load.answer(Command::Close).unwrap();
        window(&mut load);
        let quiet = window(&mut load);
        assert_eq!((quiet["round_trips"].as_u64(), quiet["round_trip_us"].as_object().unwrap().len()), (Some(0), 0));
        let second = server.answer(Command::Open { to: None }).unwrap();
        let second: SocketAddr = second["addr"].as_str().unwrap().parse().unwrap();
        load.answer(Command::Open { to: Some(second) }).unwrap();
        until_it_goes(&mut load);
        load.end();
        server.end();
    }

    #[test]
    fn a_server_that_ended_shows_as_losses_without_a_hang() {
        let mut server = EchoServer::start().unwrap();
        let to: SocketAddr = server.ready()["addr"].as_str().unwrap().parse().unwrap();
        server.answer(Command::Close).unwrap();
        let mut load = EchoLoad::start(to, EchoSettings { bytes: 100, rate_hz: 500 }).unwrap();
        let give_up_ns = clock::monotonic_ns() + PATIENCE_NS;
        let mut lost = 0;
        while lost == 0 && clock::monotonic_ns() < give_up_ns {
            std::thread::sleep(Duration::from_millis(20));
            lost += window(&mut load)["lost"].as_u64().unwrap();
        }
        assert!(lost > 0);
        assert!(load.answer(Command::Open { to: None }).is_err());
        load.end();
    }
}
