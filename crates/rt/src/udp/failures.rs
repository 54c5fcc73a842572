//! `Failures`: which peers could not be reached, and why. The table is bounded, so an attacker with forged addresses can only fill it.

use std::net::SocketAddr;

use evenkeel_sys::Errno;

/// The maximum number of peers in the table.
const PEERS_MAX: usize = 64;

/// A peer that some packets did not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerFailure {
    /// The peer.
    pub to: SocketAddr,
    /// The error of the last packet.
    pub why: Errno,
    /// How many packets did not reach the peer.
    pub packets: u64,
}

/// The peers that some packets did not reach.
#[derive(Debug)]
pub(crate) struct Failures {
    peers: Vec<PeerFailure>,
    others: u64,
}

impl Failures {
    pub(crate) fn new() -> Failures {
        Failures { peers: Vec::with_capacity(PEERS_MAX), others: 0 }
    }

    pub(crate) fn add(&mut self, to: Option<SocketAddr>, why: Errno, packets: u64) {
        let Some(to) = to else {
            self.others += packets;
            return;
        };
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.to == to) {
            peer.packets += packets;
            peer.why = why;
        } else if self.peers.len() < PEERS_MAX {
            self.peers.push(PeerFailure { to, why, packets });
        } else {
            self.others += packets;
        }
    }

    pub(crate) fn peers(&self) -> &[PeerFailure] {
        &self.peers
    }

    pub(crate) fn others(&self) -> u64 {
        self.others
    }

    pub(crate) fn forget(&mut self) {
        self.peers.clear();
        self.others = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_peers_than_there_is_room_for_are_counted_together() {
        let mut failures = Failures::new();
        let peer = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
        for port in 1..=100 {
            failures.add(Some(peer(port)), Errno::CONNREFUSED, 1);
        }
        failures.add(Some(peer(7)), Errno::HOSTUNREACH, 2);
        failures.add(None, Errno::IO, 5);
        assert_eq!((failures.peers().len(), failures.others()), (PEERS_MAX, 36 + 5));
        assert_eq!(failures.peers()[6], PeerFailure { to: peer(7), why: Errno::HOSTUNREACH, packets: 3 });
        failures.forget();
        assert_eq!((failures.peers().len(), failures.others()), (0, 0));
    }
}
