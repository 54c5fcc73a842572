//! The server: one socket and one thread, with bounded time, sessions and rates. The gate decides about each packet.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use evenkeel_sys::udp::{self, Inbox, Outbox, Wait};
use evenkeel_sys::{CpuSet, Errno, clock, thread};
use serde::Serialize;

use super::gate::{Act, Arrival, Counted, Gate, Parcel};
use super::wire::{Answer, FromServer, PACKET_BYTES_MAX, SessionCounts};
use crate::{MeterError, Watch};

/// The maximum time for which the server sleeps for a packet before it checks whether to end.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// The interval between batches of requested packets. Like any sender that sleeps, the server keeps a rate by sending batches.
const GIVE_EVERY_NS: u64 = 1_000_000;

/// How often to report progress.
const PROGRESS_NS: u64 = 100_000_000;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address on which to listen. With port 0 the kernel chooses a port.
    pub at: SocketAddr,
    /// How long to serve, in seconds.
    pub seconds: f64,
    /// The CPU to run on. With None, the kernel chooses the CPU.
    pub cpu: Option<usize>,
    /// The maximum number of echoes per session and second.
    pub echoes_per_s_max: u64,
    /// The maximum number of bits per second for clients that request packets. With 0 the server sends none.
    pub give_bits_per_s_max: u64,
    /// The receive buffer to request, in bytes. None keeps the kernel's default.
    pub receive_buffer_bytes: Option<u32>,
}

/// The totals of a server run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The address on which the server listened.
    pub at: SocketAddr,
    /// How long the server ran, in seconds.
    pub seconds: f64,
    /// Received packets by outcome, and the number of sessions.
    pub packets: Counted,
    /// Received bytes without headers.
    pub bytes_in: u64,
    /// Sent bytes without headers.
    pub bytes_out: u64,
    /// Packets that the socket dropped for lack of buffer. None if the kernel does not report this.
    pub dropped_at_socket: Option<u64>,
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: u64,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    socket: UdpSocket,
    at: SocketAddr,
    settings: Settings,
}

impl Server {
    /// Starts listening. Packets queue until the server runs.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn bind(settings: &Settings) -> Result<Server, MeterError> {
        let refused = |error: &std::io::Error| MeterError::refused(format!("listen at {}", settings.at), error);
        let socket = UdpSocket::bind(settings.at).map_err(|error| refused(&error))?;
        socket.set_read_timeout(Some(LOOK_AROUND)).map_err(|error| refused(&error))?;
        socket.set_write_timeout(Some(LOOK_AROUND)).map_err(|error| refused(&error))?;
        if let Some(bytes) = settings.receive_buffer_bytes {
            udp::set_receive_buffer_bytes(&socket, bytes)
                .map_err(|errno| MeterError::refused("set the receive buffer", errno))?;
        }
        // Without timestamps the wait is unknown, but everything else works.
        let _ = udp::stamp_received(&socket);
        let at = socket.local_addr().map_err(|error| refused(&error))?;
        Ok(Server { socket, at, settings: settings.clone() })
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// Serves until its time is over or the watch asks it to stop.
    ///
    /// # Errors
    /// Fails if the thread may not run on its CPU, or the socket fails.
    pub fn run(&self, watch: &Watch<'_>) -> Result<Report, MeterError> {
        if let Some(cpu) = self.settings.cpu {
            let set: CpuSet = [cpu].into_iter().collect();
            thread::set_affinity(&set)
                .map_err(|errno| MeterError::refused(format!("run the server on CPU {cpu}"), errno))?;
        }
        let start_ns = clock::monotonic_ns();
        let until_ns = start_ns.saturating_add((self.settings.seconds * 1e9) as u64);
        let mut serving = Serving::new(self);
        let mut inbox = Inbox::new(PACKET_BYTES_MAX + 1);
        let (mut reported_ns, mut gave) = (0, false);
        while !watch.stopped() {
            let now_ns = clock::monotonic_ns();
            if now_ns >= until_ns {
                break;
            }
            if now_ns >= reported_ns + PROGRESS_NS {
                reported_ns = now_ns;
                let done = (now_ns - start_ns) as f64 / (until_ns - start_ns).max(1) as f64;
                watch.progress(done, &format!("serving {} at {}", serving.gate.sessions(), self.at));
            }
            // Take queued packets in batches. If the thread waits for a packet, it returns that packet at once.
            let got = match inbox.receive(&self.socket, Wait::Not) {
                Err(Errno::AGAIN) if gave => Err(Errno::AGAIN),
                Err(Errno::AGAIN) if serving.gate.gives(now_ns) => {
                    clock::sleep_until_ns(now_ns + GIVE_EVERY_NS);
                    Err(Errno::AGAIN)
                }
                Err(Errno::AGAIN) => inbox.receive(&self.socket, Wait::Sleep),
                got => got,
            };
            match got {
                Ok(_) => serving.answer(&inbox),
                // If a client's port is closed, our own socket reports this error.
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {}
                Err(errno) => return Err(MeterError::refused(format!("receive at {}", self.at), errno)),
            }
            gave = serving.give();
        }
        Ok(Report {
            at: self.at,
            seconds: (clock::monotonic_ns() - start_ns) as f64 / 1e9,
            packets: serving.gate.counted(),
            bytes_in: serving.bytes_in,
            bytes_out: serving.bytes_out,
            dropped_at_socket: udp::dropped(&self.socket).map(u64::from),
            cpu_ns: serving.cpu_ns(),
        })
    }
}

/// The state of a running server.
struct Serving<'a> {
    server: &'a Server,
    gate: Gate,
    out: Outbox,
    cpu_start_ns: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Serving<'_> {
    fn new(server: &Server) -> Serving<'_> {
        Serving {
            server,
            gate: Gate::new(server.settings.echoes_per_s_max).giving(server.settings.give_bits_per_s_max),
            out: Outbox::new(PACKET_BYTES_MAX),
            cpu_start_ns: clock::thread_cpu_ns(),
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    fn cpu_ns(&self) -> u64 {
        clock::thread_cpu_ns().saturating_sub(self.cpu_start_ns)
    }

    /// Handles all packets of one call, and sends all answers in another call.
    fn answer(&mut self, inbox: &Inbox) {
        let (now_ns, wall_ns) = (clock::monotonic_ns(), clock::realtime_ns());
        for packet in inbox.packets() {
            let Some(from) = packet.from.filter(|_| !packet.truncated) else { continue };
            self.bytes_in += packet.bytes.len() as u64;
            let act = self.gate.admit(Arrival { from, now_ns, bytes: packet.bytes });
            match act {
                Err(_) | Ok(Act::Counted) => {}
                Ok(Act::Reply(answer)) => self.push_answer(from, answer, answer.bytes_min()),
                Ok(Act::Echo(to, number)) => {
                    let waited_ns = packet.stamp_ns.and_then(|stamp_ns| short(wall_ns.checked_sub(stamp_ns)?));
                    // Read the clock last, just before sending. The packets of one batch share this time.
                    let turn_ns = short(clock::monotonic_ns().saturating_sub(now_ns));
                    let answer = FromServer::Answer(Answer { to, number, waited_ns, turn_ns });
                    self.push_answer(from, answer, packet.bytes.len());
                }
                Ok(Act::Counts { session, ask, tally }) => {
                    let tally =
                        SessionCounts { dropped: udp::dropped(&self.server.socket), cpu_ns: self.cpu_ns(), ..tally };
                    self.push_answer(from, FromServer::SessionCounts { session, ask, tally }, 0);
                }
                Ok(Act::Burst { session, packets, bytes }) => self.burst(from, session, packets, bytes),
            }
        }
        self.flush();
    }

    /// Adds an answer to the batch. The answer is at least `bytes` long.
    fn push_answer(&mut self, to: SocketAddr, answer: FromServer, bytes: usize) {
        if self.out.len() == udp::BATCH {
            self.flush();
        }
        let bytes = bytes.max(answer.bytes_min());
        if let Some(packet) = self.out.push(Some(to), bytes) {
            answer.write(packet);
            self.bytes_out += bytes as u64;
        }
    }

    fn burst(&mut self, to: SocketAddr, session: u64, packets: u32, bytes: u16) {
        let mut sent = 0;
        for at in 0..packets {
            if self.out.len() == udp::BATCH {
                sent += self.flush();
            }
            self.push_answer(to, FromServer::Filler { session, at, of: packets }, bytes.into());
        }
        sent += self.flush();
        self.gate.filled(to, sent);
    }

    /// Sends requested packets that are due, one batch at a time. The server reads the inbox in between. Returns whether any packet was due.
    fn give(&mut self) -> bool {
        let parcels = self.gate.parcels(clock::monotonic_ns(), udp::BATCH as u32);
        let gave = !parcels.is_empty();
        for Parcel { to, session, due } in parcels {
            for at in due.at..due.at.saturating_add(due.packets) {
                self.push_answer(to, FromServer::Filler { session, at, of: u32::MAX }, due.bytes.into());
            }
            let sent = self.flush();
            self.gate.filled(to, sent);
        }
        gave
    }

    /// Sends the batch and returns how many packets the kernel accepted.
    fn flush(&mut self) -> u64 {
        if self.out.is_empty() { 0 } else { self.out.send(&self.server.socket).sent as u64 }
    }
}

/// The nanoseconds in 32 bits. None above four seconds.
fn short(ns: u64) -> Option<u32> {
    u32::try_from(ns).ok().filter(|ns| *ns < u32::MAX)
}
