//! /proc/net/udp, udp6, tcp and tcp6, which have one line per socket.

/// The maximum number of sockets in a table. The caller's limit on the size of the text is usually reached first.
const SOCKETS_MAX: usize = 1 << 19;

/// A line of a table of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRow {
    /// The socket's local port.
    pub port: u16,
    /// The socket's state, as a number of TCP. 0x0A is a listening socket, and 0x07 is a UDP socket without a peer.
    pub state: u8,
    /// The bytes that wait in the receive buffer. For UDP, this number includes the kernel's overhead for each datagram.
    pub receive_queue_bytes: u64,
    /// The socket's inode, which the links in /proc/PID/fd name. 0 if no process has the socket open any more.
    pub inode: u64,
    /// Datagrams that the socket dropped. `None` for TCP, which does not count them.
    pub drops: Option<u64>,
}

/// The lines of a table of sockets. Invalid lines are skipped.
pub fn parse_sockets(text: &str) -> impl Iterator<Item = SocketRow> {
    text.lines().skip(1).take(SOCKETS_MAX).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let port = u16::from_str_radix(words.nth(1)?.rsplit_once(':')?.1, 16).ok()?;
        let state = u8::from_str_radix(words.nth(1)?, 16).ok()?;
        let receive_queue_bytes = u64::from_str_radix(words.next()?.split_once(':')?.1, 16).ok()?;
        let inode = words.nth(4)?.parse().ok()?;
        // For UDP, `ref pointer drops` follow, and nothing else.
        let mut rest = words.skip(2);
        let drops = rest.next().and_then(|word| word.parse().ok()).filter(|_| rest.next().is_none());
        Some(SocketRow { port, state, receive_queue_bytes, inode, drops })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_of_the_table_are_read() {
        let udp = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  317: 0100007F:6D38 00000000:0000 07 00000000:00000A80 00:00000000 00000000     0        0 4711 2 00000000f0 12
  318: 00000000000000000000000000000000:0035 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 99 2 0 0
  319: rubbish
";
        let row = |port, receive_queue_bytes, inode, drops| SocketRow {
            port,
            state: 7,
            receive_queue_bytes,
            inode,
            drops: Some(drops),
        };
        assert_eq!(parse_sockets(udp).collect::<Vec<_>>(), [row(27_960, 2688, 4711, 12), row(53, 0, 99, 0)]);
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
";
        let tcp: Vec<SocketRow> = parse_sockets(tcp).collect();
        assert_eq!(tcp, [SocketRow { port: 6379, state: 10, receive_queue_bytes: 0, inode: 4711, drops: None }]);
        assert_eq!(parse_sockets("").count(), 0);
    }

    proptest! {
        #[test]
        fn no_table_is_a_panic(text in "head\n([ 0-9A-F:]{0,60}\n){0,3}.{0,9}") {
            let _ = parse_sockets(&text).count();
        }
    }
}
