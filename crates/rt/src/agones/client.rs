//! `Client`: one request to the sidecar at a time, each on a connection of its own, and over after a bounded time whatever the
//! sidecar does.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::game_server::GameServer;
use super::http::{Answer, BadAnswer, Reader};

/// Where Agones says that the sidecar listens.
const PORT_VARIABLE: &str = "AGONES_SDK_HTTP_PORT";
/// Where it listens unless told.
const PORT: u16 = 9358;
/// How long a request takes at most, unless told.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Of an answer that says no, so much is kept.
const SAID_BYTES_MAX: usize = 200;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum AgonesError {
    /// The environment names no port.
    #[error("AGONES_SDK_HTTP_PORT is no port: {said:?}")]
    Port {
        /// What it names.
        said: String,
    },
    /// Nobody answers, or not in time.
    #[error("no answer of the sidecar at port {port} to {request}: {error}")]
    Connection {
        /// Where.
        port: u16,
        /// Which.
        request: Request,
        /// Why not.
        error: std::io::Error,
    },
    /// What was answered is no answer.
    #[error("the sidecar at port {port} answered {request} with what is no answer: {error}")]
    Answer {
        /// Where.
        port: u16,
        /// Which.
        request: Request,
        /// What is wrong with it.
        error: BadAnswer,
    },
    /// It said no.
    #[error("the sidecar answered {request} with {status}: {said}")]
    Refused {
        /// Which.
        request: Request,
        /// As HTTP has it.
        status: u16,
        /// The beginning of what it said.
        said: String,
    },
    /// What it told of the game server can't be read.
    #[error("what the sidecar tells of the game server can't be read: {0}")]
    Json(#[from] serde_json::Error),
    /// There is no thread for it.
    #[error("no thread for Agones: {0}")]
    Thread(std::io::Error),
}

/// What is asked for.
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

/// Asks the sidecar at a port of this machine; each call blocks until it is answered, or the time-out is over. For other threads than
/// the one that ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    port: u16,
    timeout: Duration,
}

impl Client {
    /// At the port that Agones names in `AGONES_SDK_HTTP_PORT`; at 9358 where it names none.
    pub fn from_environment() -> Result<Client, AgonesError> {
        let Some(said) = std::env::var_os(PORT_VARIABLE) else { return Ok(Client::at(PORT)) };
        let port = said.to_str().and_then(|text| text.parse().ok()).filter(|port| *port != 0);
        let port = port.ok_or_else(|| AgonesError::Port { said: said.to_string_lossy().into_owned() })?;
        Ok(Client::at(port))
    }

    /// At this port, with a time-out of a second.
    pub fn at(port: u16) -> Client {
        Client { port, timeout: TIMEOUT }
    }

    /// A request takes so long at most, from connecting to the last byte of the answer.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Client {
        // A time-out of zero means none to the operating system.
        Client { timeout: timeout.max(Duration::from_millis(1)), ..self }
    }

    /// How long a request takes at most.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Players may come.
    pub fn ready(&self) -> Result<(), AgonesError> {
        self.ask(Request::Ready).map(drop)
    }

    /// The game server is well.
    pub fn health(&self) -> Result<(), AgonesError> {
        self.ask(Request::Health).map(drop)
    }

    /// The game server is to be taken away.
    pub fn shutdown(&self) -> Result<(), AgonesError> {
        self.ask(Request::Shutdown).map(drop)
    }

    /// What is known of the game server.
    pub fn game_server(&self) -> Result<GameServer, AgonesError> {
        Ok(GameServer::parse(&self.ask(Request::GameServer)?.body)?)
    }

    fn ask(&self, request: Request) -> Result<Answer, AgonesError> {
        let answer = self.exchange(request).map_err(|failure| match failure {
            Failure::Connection(error) => AgonesError::Connection { port: self.port, request, error },
            Failure::Answer(error) => AgonesError::Answer { port: self.port, request, error },
        })?;
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        let said = &answer.body[..answer.body.len().min(SAID_BYTES_MAX)];
        // It may go to a terminal or a log.
        let said =
            String::from_utf8_lossy(said).chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
        Err(AgonesError::Refused { request, status: answer.status, said })
    }

    fn exchange(&self, request: Request) -> Result<Answer, Failure> {
        let deadline = Instant::now() + self.timeout;
        let mut stream = self.connect(deadline)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(left(deadline)?))?;
        let line = request.line();
        let body = if request == Request::GameServer { "" } else { "{}" };
        let text = format!(
            "{line} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(text.as_bytes())?;
        let mut reader = Reader::default();
        let mut bytes = [0; 4096];
        // Each turn has at least one byte or ends; how many there can be is bounded by the reader, and by the time.
        loop {
            stream.set_read_timeout(Some(left(deadline)?))?;
            match stream.read(&mut bytes) {
                Ok(0) => return Ok(reader.end()?),
                Ok(count) => {
                    if let Some(answer) = reader.push(&bytes[..count])? {
                        return Ok(answer);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // What it is called when a time-out is over differs between systems.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The sidecar listens on "localhost", which is either.
    fn connect(&self, deadline: Instant) -> Result<TcpStream, Failure> {
        let connect = |ip| Ok(TcpStream::connect_timeout(&SocketAddr::new(ip, self.port), left(deadline)?)?);
        connect(IpAddr::V4(Ipv4Addr::LOCALHOST))
            .or_else(|first: Failure| connect(IpAddr::V6(Ipv6Addr::LOCALHOST)).map_err(|_: Failure| first))
    }
}

enum Failure {
    Connection(std::io::Error),
    Answer(BadAnswer),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Connection(error)
    }
}

impl From<ErrorKind> for Failure {
    fn from(kind: ErrorKind) -> Failure {
        Failure::Connection(kind.into())
    }
}

impl From<BadAnswer> for Failure {
    fn from(error: BadAnswer) -> Failure {
        Failure::Answer(error)
    }
}

fn left(deadline: Instant) -> Result<Duration, std::io::Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
