//! Finds the ports on which a program listens, from /proc in the program's own network namespace.
//! Unlike a connection to a port, this does not disturb the program.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use evenkeel_hostfs::proc::{ProcessStat, parse_sockets};

/// The maximum number of bytes to read of a socket table.
const TABLE_BYTES_MAX: u64 = 64 << 20;
/// The maximum number of open files of one process to examine.
const FILES_MAX: usize = 1 << 20;

/// The states of a TCP socket that listens, and of a UDP socket without a peer.
const LISTENS: u8 = 0x0A;
const WITHOUT_PEER: u8 = 0x07;

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Protocol {
    Tcp,
    Udp,
}

/// A port to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The protocol. None means any protocol.
    pub protocol: Option<Protocol>,
    /// The port number, from 1 to 65535.
    pub number: u16,
}

impl Port {
    /// Parses `PORT`, `tcp:PORT` or `udp:PORT`.
    pub fn parse(text: &str) -> Option<Port> {
        let (protocol, number) = match text.split_once(':') {
            None => (None, text),
            Some(("tcp", number)) => (Some(Protocol::Tcp), number),
            Some(("udp", number)) => (Some(Protocol::Udp), number),
            Some(_) => return None,
        };
        let number = number.parse().ok().filter(|number| *number > 0)?;
        Some(Port { protocol, number })
    }

    fn tables(self) -> impl Iterator<Item = (Protocol, &'static str)> {
        let all = [(Protocol::Tcp, "tcp"), (Protocol::Tcp, "tcp6"), (Protocol::Udp, "udp"), (Protocol::Udp, "udp6")];
        all.into_iter().filter(move |(protocol, _)| self.protocol.is_none_or(|wanted| wanted == *protocol))
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.protocol {
            None => write!(f, "port {}", self.number),
            Some(Protocol::Tcp) => write!(f, "TCP port {}", self.number),
            Some(Protocol::Udp) => write!(f, "UDP port {}", self.number),
        }
    }
}

/// A listening TCP socket, or a bound UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    /// The port of the socket.
    pub port: u16,
    /// The inode of the socket, by which it appears among a process's open files.
    pub inode: u64,
}

/// The serving sockets in a table such as `/proc/net/tcp6` or `/proc/net/udp`.
pub(crate) fn serving(text: &str, protocol: Protocol) -> impl Iterator<Item = Socket> {
    let state = match protocol {
        Protocol::Tcp => LISTENS,
        Protocol::Udp => WITHOUT_PEER,
    };
    let rows = parse_sockets(text).filter(move |row| row.state == state);
    rows.map(|row| Socket { port: row.port, inode: row.inode })
}

/// The owner of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// One of the given processes.
    Them,
    /// Another process.
    Another,
    /// No process.
    Nobody,
}

/// The owner of the port, in the network namespace of these processes.
pub(super) fn holder(of: &[ProcessStat], port: Port) -> Holder {
    let mut namespaces = BTreeSet::new();
    let mut inodes = BTreeSet::new();
    for stat in of {
        let folder = format!("/proc/{}", stat.pid);
        let namespace = fs::read_link(format!("{folder}/ns/net")).unwrap_or_default();
        if namespaces.insert(namespace) {
            inodes.extend(bound(&folder, port));
        }
    }
    if inodes.is_empty() {
        return Holder::Nobody;
    }
    // If we may not read the open files of a process, assume that the process has the port.
    let has =
        |stat: &ProcessStat| open_sockets(stat.pid).is_none_or(|open| open.iter().any(|inode| inodes.contains(inode)));
    if of.iter().any(has) { Holder::Them } else { Holder::Another }
}

/// Whether any process in our own network namespace has the port.
pub(super) fn is_taken(port: Port) -> bool {
    !bound("/proc/self", port).is_empty()
}

fn bound(process: &str, port: Port) -> Vec<u64> {
    let mut inodes = Vec::new();
    for (protocol, table) in port.tables() {
        let mut text = String::new();
        let file = fs::File::open(format!("{process}/net/{table}"));
        let Ok(_) = file.and_then(|file| file.take(TABLE_BYTES_MAX).read_to_string(&mut text)) else { continue };
        let sockets = serving(&text, protocol).filter(|socket| socket.port == port.number);
        inodes.extend(sockets.map(|socket| socket.inode));
    }
    inodes
}

/// The inodes of the sockets among a process's open files. None if we may not read them.
fn open_sockets(pid: u32) -> Option<Vec<u64>> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let inode = |link: &Path| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    let links = files.take(FILES_MAX).filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    Some(links.filter_map(|link| inode(&link)).collect())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ports_are_read() {
        let port = |protocol, number| Some(Port { protocol, number });
        assert_eq!(Port::parse("6379"), port(None, 6379));
        assert_eq!(Port::parse("tcp:80"), port(Some(Protocol::Tcp), 80));
        assert_eq!(Port::parse("udp:65535"), port(Some(Protocol::Udp), 65_535));
        for odd in ["", "0", "65536", "udp", "udp:", "sctp:1", "127.0.0.1:80", "-1"] {
            assert_eq!(Port::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn tables_of_the_kernel_are_read() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 0100007F:18EB 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1
   2: rubbish
";
        assert_eq!(serving(tcp, Protocol::Tcp).collect::<Vec<_>>(), [Socket { port: 6379, inode: 4711 }]);
        let udp = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  317: 00000000000000000000000000000000:6D38 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 99 2 0 0
";
        assert_eq!(serving(udp, Protocol::Udp).collect::<Vec<_>>(), [Socket { port: 27_960, inode: 99 }]);
    }

    proptest! {
        #[test]
        fn no_port_is_a_panic(port in ".{0,9}") {
            let _ = Port::parse(&port);
        }
    }

    #[test]
    fn the_owner_of_a_port_is_found() {
        let us = [ProcessStat::read(std::process::id()).unwrap()];
        let parent = ProcessStat::read(us[0].parent).map(|stat| vec![stat]).unwrap_or_default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        let tcp = Port { protocol: Some(Protocol::Tcp), number };
        let _connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(holder(&us, tcp), Holder::Them);
        assert_eq!(holder(&us, Port { protocol: None, number }), Holder::Them);
        assert_eq!(holder(&us, Port { protocol: Some(Protocol::Udp), number }), Holder::Nobody);
        assert!(is_taken(tcp));
        // If we may not read the open files of the parent, there is nothing to compare with.
        if parent.first().is_some_and(|stat| open_sockets(stat.pid).is_some()) {
            assert_eq!(holder(&parent, tcp), Holder::Another);
        }
        drop(listener);
        // Another test may just be starting a child. The child also has the listener until it calls exec.
        let dropped = Instant::now();
        while holder(&us, tcp) == Holder::Another && dropped.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(holder(&us, tcp), Holder::Nobody, "a connection is not a listener");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp = Port { protocol: Some(Protocol::Udp), number: socket.local_addr().unwrap().port() };
        assert_eq!(holder(&us, udp), Holder::Them);
        assert_eq!(holder(&[], udp), Holder::Nobody);
    }
}
