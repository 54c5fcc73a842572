//! `Client`: sends one request at a time to the sidecar. Each request uses its own connection.
//! Each request ends after a limited time, even if the sidecar does not answer.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use evenkeel_sys::http::{self, Answer, BadAnswer, HttpError};

use super::game_server::GameServer;

/// The variable in which Agones gives the sidecar's port.
const PORT_VARIABLE: &str = "AGONES_SDK_HTTP_PORT";
/// The sidecar's default port.
const PORT: u16 = 9358;
/// The default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Limits the size of an answer. The description of a game server has only a few thousand bytes.
const BODY_BYTES_MAX: usize = 256 << 10;
/// How many bytes of an answer we keep if the sidecar refuses a request.
const SAID_BYTES_MAX: usize = 200;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum AgonesError {
    /// `AGONES_SDK_HTTP_PORT` does not contain a port.
    #[error("AGONES_SDK_HTTP_PORT is not a port: {said:?}")]
    Port {
        /// The value of the variable.
        said: String,
    },
    /// The sidecar does not answer at the port, or does not answer in time.
    #[error("no answer of the sidecar at port {port} to {request}: {error}")]
    Connection {
        /// The sidecar's port.
        port: u16,
        /// The request.
        request: Request,
        /// The error of the connection.
        error: std::io::Error,
    },
    /// The answer is not valid HTTP.
    #[error("the sidecar at port {port} answered {request} with an invalid answer: {error}")]
    Answer {
        /// The sidecar's port.
        port: u16,
        /// The request.
        request: Request,
        /// Why the answer is invalid.
        error: BadAnswer,
    },
    /// The sidecar refused the request.
    #[error("the sidecar answered {request} with {status}: {said}")]
    Refused {
        /// The request.
        request: Request,
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer.
        said: String,
    },
    /// The sidecar's answer about the game server is invalid.
    #[error("the sidecar's answer about the game server is invalid: {0}")]
    Json(#[from] serde_json::Error),
    /// The thread for Agones could not be started.
    #[error("no thread for Agones: {0}")]
    Thread(std::io::Error),
}

/// A request to the sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `POST /ready`
    Ready,
    /// `POST /health`
    Health,
    /// `POST /shutdown`
    Shutdown,
    /// `GET /gameserver`
    GameServer,
}

impl Request {
    fn line(self) -> &'static str {
        match self {
            Request::Ready => "POST /ready",
            Request::Health => "POST /health",
            Request::Shutdown => "POST /shutdown",
            Request::GameServer => "GET /gameserver",
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.line())
    }
}

/// Sends requests to the sidecar at a port of this machine. Each call blocks until the sidecar answers or the timeout ends.
/// Do not call it on the tick's thread.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::agones::{AgonesError, Client, Request};
///
/// let client = Client::at(1).within(Duration::from_millis(200)); // no sidecar listens there
/// assert_eq!(client.timeout(), Duration::from_millis(200));
/// match client.ready() {
///     Err(AgonesError::Connection { request, .. }) => assert_eq!(request, Request::Ready),
///     other => panic!("{other:?}"),
/// }
/// assert!(client.health().is_err() && client.shutdown().is_err() && client.game_server().is_err());
/// println!("{:?}", Client::from_environment()?); // AGONES_SDK_HTTP_PORT, else 9358
/// # Ok::<(), AgonesError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    port: u16,
    timeout: Duration,
}

impl Client {
    /// A client for the port in `AGONES_SDK_HTTP_PORT`, or for port 9358 if the variable is not set.
    pub fn from_environment() -> Result<Client, AgonesError> {
        let Some(said) = std::env::var_os(PORT_VARIABLE) else { return Ok(Client::at(PORT)) };
        let port = said.to_str().and_then(|text| text.parse().ok()).filter(|port| *port != 0);
        let port = port.ok_or_else(|| AgonesError::Port { said: said.to_string_lossy().into_owned() })?;
        Ok(Client::at(port))
    }

    /// A client for this port, with a timeout of a second.
    pub fn at(port: u16) -> Client {
        Client { port, timeout: TIMEOUT }
    }

    /// Sets the timeout of a request, from the connection to the last byte of the answer.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Client {
        // The operating system treats a timeout of zero as no timeout.
        Client { timeout: timeout.max(Duration::from_millis(1)), ..self }
    }

    /// The timeout of a request.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Reports that players may connect.
    pub fn ready(&self) -> Result<(), AgonesError> {
        self.ask(Request::Ready).map(drop)
    }

    /// Reports that the game server is healthy.
    pub fn health(&self) -> Result<(), AgonesError> {
        self.ask(Request::Health).map(drop)
    }

    /// Requests the end of the game server.
    pub fn shutdown(&self) -> Result<(), AgonesError> {
        self.ask(Request::Shutdown).map(drop)
    }

    /// Returns what Agones knows about the game server.
    pub fn game_server(&self) -> Result<GameServer, AgonesError> {
        Ok(GameServer::parse(&self.ask(Request::GameServer)?.body)?)
    }

    fn ask(&self, request: Request) -> Result<Answer, AgonesError> {
        let answer = self.exchange(request).map_err(|failure| match failure {
            HttpError::Io(error) => AgonesError::Connection { port: self.port, request, error },
            HttpError::BadAnswer(error) => AgonesError::Answer { port: self.port, request, error },
        })?;
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        let said = &answer.body[..answer.body.len().min(SAID_BYTES_MAX)];
        // Control characters become spaces, because the text may go to a terminal or a log.
        let said =
            String::from_utf8_lossy(said).chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
        Err(AgonesError::Refused { request, status: answer.status, said })
    }

    fn exchange(&self, request: Request) -> Result<Answer, HttpError> {
        let deadline = Instant::now() + self.timeout;
        // The sidecar listens on "localhost", which may be the IPv4 or the IPv6 address.
        let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let mut stream = http::connect(addresses.map(|ip| SocketAddr::new(ip, self.port)), deadline)?;
        let line = request.line();
        let body = if request == Request::GameServer { "" } else { "{}" };
        let text = format!(
            "{line} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        );
        http::exchange(&mut stream, text.as_bytes(), BODY_BYTES_MAX, deadline)
    }
}
