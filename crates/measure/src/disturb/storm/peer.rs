//! `Consent`: another machine consents to a storm by running `measure udp --serve`.
//! An address gets packets only after it answers the handshake, and only while it keeps answering.
//! The address must be in a range that the Internet does not route.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use evenkeel_sys::{Errno, clock};

use crate::error::MeterError;
use crate::meters::udp::Session;
use crate::meters::udp::wire::{FILLER_BYTES_MIN, FromClient, FromServer, Numbered, PACKET_BYTES_MAX};

/// The maximum number of packets per second to a peer, of all senders together.
pub const RATE_PER_S_MAX: u64 = 200_000;
/// The longest storm against a peer, whatever the command does.
pub(super) const LENGTH_NS_MAX: u64 = 600_000_000_000;

/// The interval between questions to the peer. The peer may stay silent for as long as the next constant says.
const ASK_EVERY_NS: u64 = 250_000_000;
const SILENCE_NS: u64 = 2_000_000_000;
/// The maximum number of answers to read at a time.
const ANSWERS_MAX: usize = 16;

/// Whether an address is used only within a network (RFC 1918, RFC 3927, RFC 4193, RFC 4291).
pub(super) fn is_near(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local() || ip.is_loopback(),
        // Judge a mapped address by the IPv4 address that it represents.
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_loopback(),
    }
}

/// The consent of the peer to one sender.
#[derive(Debug)]
pub(super) struct Consent {
    session: Session,
    sequence: u64,
    asked_ns: u64,
    answered_ns: u64,
}

impl Consent {
    /// Asks for consent.
    ///
    /// # Errors
    /// Fails if no server answers there.
    pub(super) fn open(to: SocketAddr) -> Result<Consent, MeterError> {
        let session = Session::open(to, None)?;
        let refused = |error: std::io::Error| MeterError::refused(format!("send packets to {to}"), &error);
        session.socket().set_nonblocking(true).map_err(refused)?;
        let now_ns = clock::monotonic_ns();
        Ok(Consent { session, sequence: 0, asked_ns: now_ns, answered_ns: now_ns })
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        self.session.socket()
    }

    /// Turns `packet` into the next packet of the session. The peer counts these packets.
    pub(super) fn number(&mut self, packet: &mut [u8]) {
        let numbered = Numbered { session: self.session.secret(), sequence: self.sequence, sent_ns: 0 };
        FromClient::Sink(numbered).write(packet);
        self.sequence += 1;
    }

    /// Whether the peer still answers. Asks the peer from time to time.
    pub(super) fn is_willing(&mut self) -> bool {
        let now_ns = clock::monotonic_ns();
        if now_ns < self.asked_ns + ASK_EVERY_NS {
            return true;
        }
        let mut bytes = [0; PACKET_BYTES_MAX];
        // Read no more answers than questions. A peer that sends all the time must not keep us in this loop.
        for _ in 0..ANSWERS_MAX {
            match self.session.socket().recv(&mut bytes).map_err(|error| Errno::from(&error)) {
                Ok(length) => {
                    let is_tally = matches!(FromServer::parse(&bytes[..length]), Ok(FromServer::SessionCounts { session, .. })
                        if session == self.session.secret());
                    if is_tally {
                        self.answered_ns = now_ns;
                    }
                }
                // The peer's port is closed, so the program that consented has gone.
                Err(Errno::CONNREFUSED) => return false,
                Err(_) => break,
            }
        }
        self.asked_ns = now_ns;
        self.session.notify(FromClient::Count { session: self.session.secret(), ask: now_ns });
        now_ns < self.answered_ns + SILENCE_NS
    }

    /// How many packets arrived, by the peer's own count. None if the peer does not report.
    pub(super) fn arrived(self) -> Option<u64> {
        self.session.socket().set_nonblocking(false).ok()?;
        Some(self.session.tally().ok()??.arrived)
    }
}

/// The shortest packet that the peer counts.
pub(super) const BYTES_MIN: usize = FILLER_BYTES_MIN;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_addresses_can_be_peers() {
        for (address, expected) in [
            ("10.0.0.1", true),
            ("172.16.0.1", true),
            ("172.32.0.1", false),
            ("192.168.5.5", true),
            ("169.254.1.1", true),
            ("127.0.0.1", true),
            ("100.64.0.1", false),
            ("8.8.8.8", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("fe80::1", true),
            ("fd00::1", true),
            ("::1", true),
            ("2001:db8::1", false),
            ("::ffff:10.0.0.1", false),
            ("ff02::1", false),
            ("::", false),
        ] {
            assert_eq!(is_near(address.parse().unwrap()), expected, "{address}");
        }
    }
}
