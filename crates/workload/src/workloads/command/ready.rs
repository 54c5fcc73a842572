//! Decides when a server is ready to be measured: by its port, by a line of its output, or by time.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_sys::clock;

use crate::error::WorkloadError;
use crate::sockets::{self, Holder, Port, Protocol};
use crate::source::regex::compile;
use crate::workloads::command::output::Listener;
use crate::workloads::command::started::Started;

/// How often to check whether the server is ready.
const LOOK_NS: u64 = 20_000_000;
/// How long a connection attempt may take.
/// Only one of several checks (the next constant) tries to connect, and only if the port is not among the processes' open files.
const CONNECT_LIMIT: Duration = Duration::from_millis(200);
const LOOKS_A_CONNECTION: u32 = 10;

/// When a server is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The server is ready when this time has passed since its start.
    After(Duration),
    /// The server is ready when it listens on a port (TCP) or has bound the port (UDP).
    Port(Port),
    /// The server is ready when it prints a line that matches this expression, on standard output or standard error.
    Line(String),
}

impl Default for Ready {
    fn default() -> Ready {
        Ready::After(Duration::from_secs(1))
    }
}

impl std::fmt::Display for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ready::After(time) => write!(f, "ready {time:?} after its start"),
            Ready::Port(port) => write!(f, "ready when it has {port}"),
            Ready::Line(expression) => write!(f, "ready when it prints {expression}"),
        }
    }
}

/// How to check later whether the server still has its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortCheck {
    /// By the open files of the server's processes.
    AtItself(Port),
    /// Only by a connection to the port, because another process has the port on behalf of the server, as with a container.
    ByConnection(Port),
}

/// Waits until a server is ready. Create this value before the server starts.
/// If a process already has the port, that process is not this server.
pub(super) struct Waiting {
    ready: Ready,
    limit: Duration,
    was_taken: bool,
    line_came: Arc<AtomicBool>,
    listener: Option<Listener>,
}

impl Waiting {
    pub(super) fn new(ready: &Ready, limit: Duration) -> Result<Waiting, WorkloadError> {
        let was_taken = matches!(ready, Ready::Port(port) if sockets::is_taken(*port));
        let line_came = Arc::new(AtomicBool::new(false));
        let listener: Option<Listener> = match ready {
            Ready::Line(expression) => {
                let expression = compile(expression)
                    .map_err(|why| WorkloadError::Options(format!("wait for a line like {expression}: {why}")))?;
                let came = Arc::clone(&line_came);
                Some(Arc::new(move |line: &str| {
                    if !came.load(Ordering::Relaxed) && expression.is_match(line) {
                        came.store(true, Ordering::Relaxed);
                    }
                }))
            }
            _ => None,
        };
        Ok(Waiting { ready: ready.clone(), limit, was_taken, line_came, listener })
    }

    /// The listener for the server's lines. None if lines are not needed.
    pub(super) fn listener(&self) -> Option<Listener> {
        self.listener.clone()
    }

    /// Waits until the server is ready. Returns how to check the server's port from then on.
    ///
    /// # Errors
    /// Fails if the server ends early, is not ready within the limit, or if the user asked to stop.
    pub(super) fn wait(&self, server: &mut Started, stop: &AtomicBool) -> Result<Option<PortCheck>, WorkloadError> {
        let begun = Instant::now();
        let mut looks = 0;
        loop {
            server.watch_until(clock::monotonic_ns() + LOOK_NS)?;
            if stop.load(Ordering::Relaxed) {
                return Err(WorkloadError::Stopped);
            }
            match &self.ready {
                Ready::After(time) if begun.elapsed() < *time => continue,
                Ready::After(_) => return Ok(None),
                Ready::Line(_) if self.line_came.load(Ordering::Relaxed) => return Ok(None),
                Ready::Port(port) => {
                    if let Some(seen) = self.look(*port, server, looks) {
                        return Ok(Some(seen));
                    }
                }
                Ready::Line(_) => {}
            }
            if begun.elapsed() >= self.limit {
                return Err(server.error(self.too_late(server)));
            }
            looks += 1;
        }
    }

    fn look(&self, port: Port, server: &Started, looks: u32) -> Option<PortCheck> {
        let of = server.stats();
        match sockets::holder(&of, port) {
            Holder::Them => Some(PortCheck::AtItself(port)),
            // If another process already had the port, the port is no evidence about this server.
            _ if self.was_taken || !looks.is_multiple_of(LOOKS_A_CONNECTION) => None,
            _ => connects(port).then_some(PortCheck::ByConnection(port)),
        }
    }

    fn too_late(&self, server: &Started) -> String {
        let limit = self.limit.as_secs_f64();
        let longer = "--ready-limit gives it longer";
        match &self.ready {
            Ready::Port(port) => match sockets::holder(&server.stats(), *port) {
                Holder::Another => {
                    format!("{port} belongs to another process, so the server did not get it within {limit} s")
                }
                _ => format!("it runs, and has not opened {port} within {limit} s; {longer}"),
            },
            Ready::Line(line) => format!("it runs, and has printed nothing like {line} within {limit} s; {longer}"),
            Ready::After(time) => format!("it is ready {time:?} after its start"),
        }
    }
}

/// Checks that the server still has its port.
pub(super) fn still_has(seen: PortCheck, server: &Started) -> Result<(), WorkloadError> {
    let (has, port) = match seen {
        PortCheck::AtItself(port) => (sockets::holder(&server.stats(), port) == Holder::Them, port),
        PortCheck::ByConnection(port) => (connects(port), port),
    };
    if has { Ok(()) } else { Err(server.error(format!("it still runs, but it no longer has {port}"))) }
}

fn connects(port: Port) -> bool {
    let addresses: [SocketAddr; 2] =
        [(Ipv4Addr::LOCALHOST, port.number).into(), (Ipv6Addr::LOCALHOST, port.number).into()];
    port.protocol != Some(Protocol::Udp)
        && addresses.iter().any(|address| TcpStream::connect_timeout(address, CONNECT_LIMIT).is_ok())
}
