//! The listening sockets. They come from systemd, or `serve` opens them.

use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

use crate::exit;
use crate::failure::Failure;

/// The maximum number of sockets that `serve` takes from systemd.
const SOCKETS_MAX: usize = 16;

/// Listening sockets.
pub(super) struct Listening {
    pub(super) listeners: Vec<TcpListener>,
    pub(super) addresses: Vec<SocketAddr>,
}

impl Listening {
    /// Takes systemd's sockets. If systemd passes no socket, listens on `address`.
    ///
    /// # Errors
    /// If the address is in use, or does not belong to this machine.
    pub(super) fn open(address: SocketAddr) -> Result<Listening, Failure> {
        let failed = |error: &std::io::Error| {
            Failure::io(exit::NOT_POSSIBLE, format_args!("listen on {address}"), error)
                .hint("choose another address with --listen ADDRESS:PORT")
        };
        let mut given = ListenFd::from_env();
        let mut listeners = Vec::new();
        for at in 0..given.len().min(SOCKETS_MAX) {
            listeners.extend(given.take_tcp_listener(at).map_err(|error| {
                Failure::io(exit::NOT_POSSIBLE, format_args!("take socket {at} of systemd"), &error)
                    .hint("the unit's ListenStream= has to be a TCP port")
            })?);
        }
        if listeners.is_empty() {
            listeners.push(TcpListener::bind(address).map_err(|error| failed(&error))?);
        }
        let mut addresses = Vec::new();
        for listener in &listeners {
            listener.set_nonblocking(true).map_err(|error| failed(&error))?;
            addresses.push(listener.local_addr().map_err(|error| failed(&error))?);
        }
        Ok(Listening { listeners, addresses })
    }
}
