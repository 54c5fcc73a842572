//! The client's side of the handshake: it joins a server within a time limit.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use thiserror::Error;

use crate::net::is_quiet;
use crate::net::wire::{FromClient, FromServer, MAX_DATAGRAM_BYTES};
use crate::time::now_ns;

/// How long an answer may take before the handshake begins again.
const ROUND: Duration = Duration::from_millis(100);

/// A player that has joined.
#[derive(Debug)]
pub struct Joined {
    /// The socket, connected to the server. It blocks, with a read timeout of 100 ms.
    pub socket: UdpSocket,
    /// The secret for every input and ping.
    pub session: u64,
    /// The player's number.
    pub player: u8,
    /// The server's tick rate.
    pub tick_hz: u16,
    /// The seed of the map.
    pub seed: u64,
}

/// Why a player could not join.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The socket could not be created.
    #[error("open a socket to {server}: {source}")]
    Socket {
        /// The server.
        server: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// No valid answer arrived in time.
    #[error("join {0}: no answer in time")]
    NoAnswer(SocketAddr),
    /// The server was full until the end.
    #[error("join {0}: the server is full")]
    Full(SocketAddr),
}

/// Joins `server`. Tries until `deadline_ns` of `CLOCK_MONOTONIC`.
pub fn join(server: SocketAddr, deadline_ns: u64) -> Result<Joined, JoinError> {
    let socket = open(server).map_err(|source| JoinError::Socket { server, source })?;
    let mut full = false;
    while now_ns() < deadline_ns {
        match attempt(&socket) {
            Some(Reply::Welcome { session, player, tick_hz, seed }) => {
                return Ok(Joined { socket, session, player, tick_hz, seed });
            }
            Some(Reply::Full) => {
                full = true;
                std::thread::sleep(ROUND);
            }
            Some(Reply::Challenge { .. }) | None => {}
        }
    }
    Err(if full { JoinError::Full(server) } else { JoinError::NoAnswer(server) })
}

fn open(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(ROUND))?;
    Ok(socket)
}

/// One complete handshake. Its own nonce distinguishes its answers from those to an earlier attempt.
fn attempt(socket: &UdpSocket) -> Option<Reply> {
    let nonce = RandomState::new().hash_one(now_ns());
    match ask(socket, FromClient::Hello { nonce }, nonce)? {
        Reply::Challenge { cookie } => {
            let join = FromClient::Join { nonce, cookie };
            // If the welcome is lost, the server holds this address under this nonce. So send the join again.
            (0..3).find_map(|_| ask(socket, join, nonce))
        }
        other => Some(other),
    }
}

enum Reply {
    Challenge { cookie: u64 },
    Welcome { session: u64, player: u8, tick_hz: u16, seed: u64 },
    Full,
}

/// Sends one datagram and waits for the answer with its nonce, for one round.
fn ask(socket: &UdpSocket, question: FromClient, nonce: u64) -> Option<Reply> {
    let mut bytes = Vec::with_capacity(MAX_DATAGRAM_BYTES);
    question.encode(&mut bytes);
    // A failed send has the same effect as a lost datagram.
    let _ = socket.send(&bytes);
    let give_up_ns = now_ns() + ROUND.as_nanos() as u64;
    let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
    while now_ns() < give_up_ns {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                let reply = FromServer::parse(&buffer[..length]).ok();
                if let Some(reply) = reply.and_then(|reply| to_question(reply, nonce)) {
                    return Some(reply);
                }
            }
            Err(error) if is_quiet(error.kind()) => {}
            // While no server listens there, the receive is refused at once.
            Err(_) => std::thread::sleep(ROUND / 10),
        }
    }
    None
}

fn to_question(reply: FromServer<'_>, asked: u64) -> Option<Reply> {
    let (nonce, reply) = match reply {
        FromServer::Challenge { nonce, cookie } => (nonce, Reply::Challenge { cookie }),
        FromServer::Welcome { nonce, session, player, tick_hz, seed } => {
            (nonce, Reply::Welcome { session, player, tick_hz, seed })
        }
        FromServer::Full { nonce } => (nonce, Reply::Full),
        FromServer::Pong { .. } | FromServer::Snapshot(_) => return None,
    };
    (nonce == asked).then_some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_says_nothing_ends_in_an_error() {
        let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = mute.local_addr().unwrap();
        let error = join(address, now_ns() + 50_000_000).unwrap_err();
        assert_eq!(error.to_string(), format!("join {address}: no answer in time"));
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let full = |nonce| FromServer::Full { nonce };
        assert!(to_question(full(1), 1).is_some());
        assert!(to_question(full(2), 1).is_none());
        let pong = FromServer::Pong { sequence: 1, sent_ns: 1, server_ns: 1 };
        assert!(to_question(pong, 1).is_none());
    }
}
