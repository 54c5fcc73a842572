//! The client: the handshake, and a session with its counts. The socket is connected, so that the kernel drops packets from other senders.

use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use evenkeel_sys::udp::{self, Inbox, Outbox, Wait};
use evenkeel_sys::{Errno, clock};

use super::wire::{FromClient, FromServer, PACKET_BYTES_MAX, SessionCounts};
use crate::MeterError;

/// How long to wait for the answer to a handshake or to a request for counts, and (the next constant) how often to ask.
const ANSWER_NS: u64 = 200_000_000;
const TRIES: u32 = 15;
/// How often to repeat the handshake. A cookie becomes too old if packets are lost for a second.
const HANDSHAKES: u32 = 3;
/// The socket's timeout. A thread that waits for a packet notices a stop within this time.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// An open session. Dropping this value ends the session.
#[derive(Debug)]
pub(crate) struct Session {
    socket: UdpSocket,
    to: SocketAddr,
    secret: u64,
}

impl Session {
    /// Proves our address to the server and opens a session.
    ///
    /// # Errors
    /// Fails if the server does not answer, or has no free session.
    pub(crate) fn open(to: SocketAddr, receive_buffer_bytes: Option<u32>) -> Result<Session, MeterError> {
        let socket = connected(to, receive_buffer_bytes)?;
        let refused = |errno: Errno| MeterError::refused(format!("reach {to}"), errno);
        let nobody = || {
            let why = "nobody answers; is `evenkeel measure udp --serve` (or `bandwidth --serve`) running there, and does \
                       a firewall let UDP through?";
            MeterError::not_possible(format!("reach {to}"), why)
        };
        let nonce = RandomState::new().hash_one(clock::monotonic_ns());
        let mut session = Session { socket, to, secret: 0 };
        for _ in 0..HANDSHAKES {
            let challenge = session.ask(FromClient::Hello { nonce }, |answer| match answer {
                FromServer::Challenge { nonce: of, cookie } if of == nonce => Some(cookie),
                _ => None,
            });
            let cookie = challenge.map_err(refused)?.ok_or_else(nobody)?;
            let welcome = session.ask(FromClient::Open { nonce, cookie }, |answer| match answer {
                FromServer::Welcome { nonce: of, session } if of == nonce => Some(Some(session)),
                FromServer::Full { nonce: of } if of == nonce => Some(None),
                _ => None,
            });
            match welcome.map_err(refused)? {
                Some(Some(secret)) => {
                    session.secret = secret;
                    return Ok(session);
                }
                Some(None) => {
                    let why = "the server has as many sessions as it takes; try again when some have ended";
                    return Err(MeterError::not_possible(format!("open a session with {to}"), why));
                }
                None => {}
            }
        }
        Err(nobody())
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The secret of the session, which each of our packets contains.
    pub(crate) fn secret(&self) -> u64 {
        self.secret
    }

    /// The server's counts of this session. None if it does not answer.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub(crate) fn tally(&self) -> Result<Option<SessionCounts>, MeterError> {
        let ask = clock::monotonic_ns();
        let counted = self.ask(FromClient::Count { session: self.secret, ask }, |answer| match answer {
            FromServer::SessionCounts { session, ask: of, tally } if session == self.secret && of == ask => Some(tally),
            _ => None,
        });
        counted.map_err(|errno| MeterError::refused(format!("ask {} for its tally", self.to), errno))
    }

    /// Sends one packet that needs no answer, or whose answer another call reads.
    pub(crate) fn notify(&self, message: FromClient) {
        let mut out = Outbox::new(message.bytes_min());
        if let Some(packet) = out.push(None, message.bytes_min()) {
            message.write(packet);
        }
        out.send(&self.socket);
    }

    /// Repeats the question until an answer arrives. None if no answer arrives.
    fn ask<T>(&self, question: FromClient, answer: impl Fn(FromServer) -> Option<T>) -> Result<Option<T>, Errno> {
        let mut inbox = Inbox::new(PACKET_BYTES_MAX);
        for _ in 0..TRIES {
            self.notify(question);
            let until_ns = clock::monotonic_ns() + ANSWER_NS;
            while clock::monotonic_ns() < until_ns {
                match inbox.receive(&self.socket, Wait::Sleep) {
                    Ok(_) => {
                        let said = inbox.packets().filter_map(|packet| FromServer::parse(packet.bytes).ok());
                        if let Some(found) = said.into_iter().find_map(&answer) {
                            return Ok(Some(found));
                        }
                    }
                    Err(Errno::CONNREFUSED) => clock::sleep_until_ns(until_ns),
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
        }
        Ok(None)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.secret != 0 {
            self.notify(FromClient::Bye { session: self.secret });
        }
    }
}

fn connected(to: SocketAddr, receive_buffer_bytes: Option<u32>) -> Result<UdpSocket, MeterError> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let refused = |error: std::io::Error| MeterError::refused(format!("reach {to}"), &error);
    let socket = UdpSocket::bind(any).map_err(refused)?;
    socket.connect(to).map_err(refused)?;
    socket.set_read_timeout(Some(LOOK_AROUND)).map_err(refused)?;
    socket.set_write_timeout(Some(LOOK_AROUND)).map_err(refused)?;
    if let Some(bytes) = receive_buffer_bytes {
        udp::set_receive_buffer_bytes(&socket, bytes)
            .map_err(|errno| MeterError::refused("set the receive buffer", errno))?;
    }
    // Without timestamps the split is unknown, but everything else works.
    let _ = udp::stamp_received(&socket);
    Ok(socket)
}
