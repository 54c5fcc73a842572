//! Sends datagrams from forged addresses for this many seconds, as fast as one thread can:
//! hellos, joins with invented cookies, inputs and pings with the addresses of players, random bytes, and datagrams that are too long.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use evenkeel_arena::net::wire::{FromClient, MAX_DATAGRAM_BYTES};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;

/// The number of sent datagrams.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
    pub(crate) refused: u64,
    pub(crate) seconds: f64,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a_second = self.datagrams as f64 / self.seconds;
        write!(f, "sent {} forged datagrams, {a_second:.0} a second, {} not taken", self.datagrams, self.refused)
    }
}

/// An endless sequence of pseudo-random numbers, the same every time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Floods `target`, which must be on loopback, for this many seconds.
pub(crate) fn start(target: SocketAddr, seconds: u64) -> JoinHandle<Sent> {
    let SocketAddr::V4(target) = target else { panic!("{target}") };
    assert!(target.ip().is_loopback());
    thread::spawn(move || flood(target, seconds))
}

fn flood(target: SocketAddrV4, seconds: u64) -> Sent {
    // We write the IP headers ourselves, so that we can choose any source address.
    let raw = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW)).unwrap();
    let to = SocketAddrV4::new(*target.ip(), 0);
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    let (mut packet, mut body) = (Vec::new(), Vec::new());
    let mut sent = Sent { datagrams: 0, bytes: 0, refused: 0, seconds: 0.0 };
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..64 {
            fill(&mut body, &mut noise);
            head(&mut packet, source(&mut noise), target, body.len());
            packet.extend(&body);
            match sendto(&raw, &packet, SendFlags::DONTWAIT, &to) {
                Ok(_) => {
                    sent.datagrams += 1;
                    sent.bytes += body.len() as u64;
                }
                Err(_) => sent.refused += 1,
            }
        }
    }
    sent.seconds = start.elapsed().as_secs_f64();
    sent
}

/// A random source address. One in eight is in the range of the players.
fn source(noise: &mut Noise) -> SocketAddrV4 {
    let number = noise.next();
    let [_, a, b, c, high, low, ..] = number.to_le_bytes();
    let address = if number.is_multiple_of(8) { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(10, a, b, c) };
    SocketAddrV4::new(address, u16::from_le_bytes([high, low]).max(1_024))
}

fn fill(body: &mut Vec<u8>, noise: &mut Noise) {
    let (nonce, cookie) = (noise.next(), noise.next());
    match nonce % 16 {
        0..=7 => FromClient::Hello { nonce }.encode(body),
        8..=10 => FromClient::Join { nonce, cookie }.encode(body),
        11 | 12 => {
            let (sequence, ack) = (nonce as u32, cookie as u32);
            FromClient::Input { session: cookie, sequence, ack, input: Default::default() }.encode(body);
        }
        13 => FromClient::Ping { session: cookie, sequence: nonce as u32, sent_ns: nonce }.encode(body),
        14 => {
            body.clear();
            body.resize((cookie % 200) as usize, nonce as u8);
        }
        _ => {
            FromClient::Hello { nonce }.encode(body);
            body.resize(MAX_DATAGRAM_BYTES + 200, 0);
        }
    }
}

/// IPv4 and UDP headers. The kernel fills in the length and the checksum of IPv4. A UDP checksum of zero means none.
fn head(packet: &mut Vec<u8>, from: SocketAddrV4, to: SocketAddrV4, bytes: usize) {
    packet.clear();
    let total = (IP_BYTES + UDP_BYTES + bytes) as u16;
    packet.extend([0x45, 0]);
    packet.extend(total.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend(((UDP_BYTES + bytes) as u16).to_be_bytes());
    packet.extend([0, 0]);
}
