//! `Udp`: a bound socket with its two halves and its report.

use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use evenkeel_sys::Errno;
use evenkeel_sys::udp::{self, Sharing};

use super::failures::PeerFailure;
use super::receive::{Counts, Incoming, ReceiveCounters, Received};
use super::report::{self, BackendRefusal, Half, UdpReport};
use super::send::{Flushed, Outgoing, SendCounters, SendError};
use super::settings::{BackendChoice, DATAGRAM_BYTES_MAX, IoBackend, Stamps, UdpSettings, Undelivered, fastest};
use super::tried::BackendTrial;
use crate::thread::ApplyStatus;

/// Why a socket could not be opened.
///
/// ```
/// use evenkeel_rt::udp::{Udp, UdpError, UdpSettings};
///
/// let settings = UdpSettings { address: "192.0.2.1:7777".parse()?, ..UdpSettings::default() };
/// if let Err(error @ UdpError { why, .. }) = Udp::open(settings) {
///     eprintln!("{error}"); // says what to do
///     assert_eq!(why, evenkeel_rt::Errno::ADDRNOTAVAIL);
/// }
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug)]
pub struct UdpError {
    /// The requested address.
    pub address: SocketAddr,
    /// The step that failed.
    pub doing: &'static str,
    /// The kernel's error.
    pub why: Errno,
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UdpError { address, doing, why } = self;
        write!(f, "{doing} for UDP at {address}: {why}")?;
        let hint = match *why {
            Errno::ADDRINUSE => "; another socket has the port: choose another port, or 0 for any free port",
            Errno::ADDRNOTAVAIL => {
                "; no interface has this address: choose 0.0.0.0 or [::], or assign the address to an interface"
            }
            Errno::ACCESS => "; ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher port",
            Errno::AFNOSUPPORT => {
                "; the kernel does not have this version of IP: choose an address of the other version"
            }
            Errno::OPNOTSUPP => "; only Linux has it: use std::net::UdpSocket on this system",
            Errno::MFILE => "; the process may have no more files: raise its limit (ulimit -n)",
            _ => "",
        };
        f.write_str(hint)
    }
}

impl std::error::Error for UdpError {}

/// A server's socket. Use it from one thread, or use each half from its own thread ([`Udp::halves`], [`Udp::into_halves`]).
///
/// ```
/// use evenkeel_rt::udp::{Counts, ReceiveCounters, SendCounters, Udp, UdpSettings};
///
/// let settings = UdpSettings { address: "127.0.0.1:0".parse()?, ..UdpSettings::default() };
/// let (mut server, mut client) = (Udp::open(settings)?, Udp::open(settings)?);
/// client.send(server.local_address(), b"move left")?;
/// client.flush();
/// let Counts { packets, .. } = server.receive_at_most(100, |packet| println!("{} bytes", packet.bytes.len()));
/// assert_eq!(packets, 1);
/// let ReceiveCounters { dropped, .. } = server.received();
/// let SendCounters { refused, .. } = client.sent();
/// println!("{dropped:?} packets dropped, {refused} refused");
/// for failure in client.failures() {
///     println!("{} packets to {} failed: {}", failure.packets, failure.to, failure.why);
/// }
/// client.forget_failures();
/// let (incoming, outgoing) = server.into_halves(); // for two threads
/// println!("receives by {}, sends by {}", incoming.backend(), outgoing.backend());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Udp {
    #[cfg_attr(not(unix), expect(dead_code, reason = "it is for its file descriptor"))]
    socket: Arc<UdpSocket>,
    address: SocketAddr,
    incoming: Incoming,
    outgoing: Outgoing,
    report: UdpReport,
}

impl Udp {
    pub(super) fn from_socket(
        socket: UdpSocket,
        settings: UdpSettings,
        trial: Option<BackendTrial>,
        shard: ApplyStatus,
    ) -> Result<Udp, UdpError> {
        let settings = UdpSettings { bytes_max: settings.bytes_max.clamp(1, DATAGRAM_BYTES_MAX), ..settings };
        let address = socket.local_addr().map_err(|error| UdpError {
            address: settings.address,
            doing: "read the address back",
            why: Errno::from(&error),
        })?;
        let socket = Arc::new(socket);
        let mut refused = Vec::new();
        let chosen = |choice, measured: Option<IoBackend>| match choice {
            BackendChoice::Is(backend) => backend,
            BackendChoice::Measured => measured.unwrap_or(fastest()),
            BackendChoice::Auto => fastest(),
        };
        let receive = chosen(settings.receive, trial.as_ref().and_then(BackendTrial::receive_backend));
        let incoming = Incoming::open(&socket, &settings, receive, |backend, why| {
            refused.push(BackendRefusal { half: Half::Receive, backend, why });
        });
        let send = chosen(settings.send, trial.as_ref().and_then(BackendTrial::send_backend));
        let outgoing = Outgoing::open(&socket, &settings, send, |backend, why| {
            refused.push(BackendRefusal { half: Half::Send, backend, why });
        });
        let report = UdpReport {
            receive_backend: incoming.backend(),
            send_backend: outgoing.backend(),
            refused,
            buffer: settings.buffer.map(|need| report::ask_buffer(&socket, need)),
            // If the kernel reports the count when asked, packets need not carry it.
            drops: match udp::dropped(&socket) {
                Some(_) => ApplyStatus::Active,
                None => report::apply_status(Some(()), |()| udp::report_dropped(&socket).map(|()| true)),
            },
            stamps: report::apply_status((settings.stamps == Stamps::EachPacket).then_some(()), |()| {
                udp::stamp_arrivals(&socket).map(|()| true)
            }),
            undelivered: report::apply_status((settings.undelivered == Undelivered::Reported).then_some(()), |()| {
                udp::keep_undelivered(&socket).map(|()| true)
            }),
            busy_poll: report::apply_status(settings.busy_poll_us, |us| Ok(udp::set_busy_poll_us(&socket, us)? == us)),
            shard,
            trial,
        };
        Ok(Udp { socket, address, incoming, outgoing, report })
    }

    /// The two halves of the socket, to send while receiving, or to use on two threads.
    pub fn halves(&mut self) -> (&mut Incoming, &mut Outgoing) {
        (&mut self.incoming, &mut self.outgoing)
    }

    /// Splits the socket into two owned halves. Dropping both halves closes the socket. If you need [`Udp::report`], copy it before.
    pub fn into_halves(self) -> (Incoming, Outgoing) {
        (self.incoming, self.outgoing)
    }

    /// Calls a function for each waiting packet, up to the settings' `receive_packets_max`. Never waits.
    pub fn receive(&mut self, each: impl FnMut(Received<'_>)) -> Counts {
        self.incoming.receive(each)
    }

    /// Like [`Udp::receive`], with a separate limit.
    pub fn receive_at_most(&mut self, packets: usize, each: impl FnMut(Received<'_>)) -> Counts {
        self.incoming.receive_at_most(packets, each)
    }

    /// Queues a packet for [`Udp::flush`]. If the queue is full, flushes first.
    ///
    /// # Errors
    /// [`SendError::TooLong`], or [`SendError::Full`] if the kernel has no room. In both cases the packet is dropped and counted.
    pub fn send(&mut self, to: SocketAddr, bytes: &[u8]) -> Result<(), SendError> {
        self.outgoing.send(to, bytes)
    }

    /// Sends queued packets as far as the kernel accepts them. Never waits.
    pub fn flush(&mut self) -> Flushed {
        self.outgoing.flush()
    }

    /// The local address.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Which settings are active.
    pub fn report(&self) -> &UdpReport {
        &self.report
    }

    /// The counters of receiving. The call reads the drops from the kernel.
    pub fn received(&mut self) -> ReceiveCounters {
        self.incoming.counters()
    }

    /// The counters of sending.
    pub fn sent(&self) -> SendCounters {
        self.outgoing.counters()
    }

    /// Peers that packets did not reach.
    /// The list has at most 64 peers for which the kernel refused to send.
    /// The list also has at most 64 peers that the network reported, if the settings request these reports.
    pub fn failures(&self) -> impl Iterator<Item = &PeerFailure> {
        self.outgoing.failures().iter().chain(self.incoming.failures())
    }

    /// Resets the counts of failures.
    pub fn forget_failures(&mut self) {
        self.outgoing.forget_failures();
        self.incoming.forget_failures();
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Udp {
    /// The socket's descriptor, for `epoll` and similar calls. It is readable while packets wait in the kernel.
    /// Packets that remain from the last call because of a limit do not make it readable.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub(super) fn bind(address: SocketAddr, sharing: Sharing) -> Result<UdpSocket, UdpError> {
    udp::open(address, sharing).map_err(|why| UdpError { address, doing: "open a socket", why })
}
