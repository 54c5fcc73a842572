//! A relay between the two ends of the UDP meter that drops, swaps, doubles or delays packets on purpose, and records what it did.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the relay does to measured packets. It passes on all other packets.
#[derive(Clone, Copy, Debug)]
pub enum Play {
    /// Passes on all packets unchanged.
    Pass,
    /// Drops every n-th packet.
    Drop(u64),
    /// Swaps every n-th packet with the next one.
    Swap(u64),
    /// Sends every n-th packet twice.
    Double(u64),
    /// Delays each packet by this time.
    Delay(Duration),
    /// Stops once, before this packet, for this time.
    Stall(u64, Duration),
}

/// The effects in one direction.
#[derive(Clone, Debug, Default)]
pub struct Did {
    /// Received packets.
    pub came: u64,
    /// Packets that the relay dropped, swapped, doubled or delayed.
    pub spoiled: u64,
    /// The delay of each delayed packet, in nanoseconds.
    pub kept_ns: Vec<u64>,
}

/// A running relay.
#[derive(Debug)]
pub struct Relay {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    there: Arc<Mutex<Did>>,
    back: Arc<Mutex<Did>>,
}

/// The kinds of packets that it disturbs: echoes, counted packets, answers to echoes, packets requested from a server.
const PLAYED: [u8; 4] = [3, 4, 68, 70];

impl Relay {
    /// Starts a relay in front of `server`.
    ///
    /// # Panics
    /// If the loopback device has no free port.
    pub fn start(server: SocketAddr, there: Play, back: Play) -> Relay {
        let (front, rear) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        rear.connect(server).unwrap();
        for socket in [&front, &rear] {
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let client: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let (did_there, did_back): (Arc<Mutex<Did>>, Arc<Mutex<Did>>) = Default::default();
        let at = front.local_addr().unwrap();
        let mut threads = Vec::new();
        for (from, to, play, did, is_front) in [
            (front.try_clone().unwrap(), rear.try_clone().unwrap(), there, Arc::clone(&did_there), true),
            (rear, front, back, Arc::clone(&did_back), false),
        ] {
            let (stop, client) = (Arc::clone(&stop), Arc::clone(&client));
            threads.push(std::thread::spawn(move || {
                let send = |bytes: &[u8]| {
                    let sent = match is_front {
                        true => to.send(bytes),
                        false => client.lock().unwrap().map_or(Ok(0), |client| to.send_to(bytes, client)),
                    };
                    sent.unwrap();
                };
                let mut bytes = [0; 9000];
                let mut held: Option<Vec<u8>> = None;
                while !stop.load(Ordering::Relaxed) {
                    let Ok((length, sender)) = from.recv_from(&mut bytes) else { continue };
                    if is_front {
                        *client.lock().unwrap() = Some(sender);
                    }
                    let packet = &bytes[..length];
                    if !packet.get(4).is_some_and(|kind| PLAYED.contains(kind)) {
                        send(packet);
                        continue;
                    }
                    let came = Instant::now();
                    let mut did = did.lock().unwrap();
                    did.came += 1;
                    match play {
                        Play::Drop(nth) if did.came % nth == 0 => did.spoiled += 1,
                        Play::Swap(nth) if did.came % nth == 0 => {
                            did.spoiled += 1;
                            held = Some(packet.to_vec());
                        }
                        Play::Double(nth) if did.came % nth == 0 => {
                            did.spoiled += 1;
                            send(packet);
                            send(packet);
                        }
                        Play::Delay(length) => {
                            while came.elapsed() < length {
                                std::thread::sleep(length.saturating_sub(came.elapsed()));
                            }
                            send(packet);
                            did.kept_ns.push(came.elapsed().as_nanos() as u64);
                        }
                        Play::Stall(at, length) if did.came == at => {
                            std::thread::sleep(length);
                            send(packet);
                        }
                        _ => {
                            send(packet);
                            if let Some(held) = held.take() {
                                send(&held);
                            }
                        }
                    }
                }
            }));
        }
        Relay { at, stop, threads, there: did_there, back: did_back }
    }

    /// The relay's address.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// Ends the relay. Returns what it did in each direction.
    ///
    /// # Panics
    /// If a thread of the relay panicked.
    pub fn end(mut self) -> (Did, Did) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        (self.there.lock().unwrap().clone(), self.back.lock().unwrap().clone())
    }
}
