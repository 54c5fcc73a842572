//! /proc/net/dev and /proc/diskstats: counts of each network interface and of each disk.

use serde::{Deserialize, Serialize};

use super::LINES_MAX;

/// The unit of sizes in /proc/diskstats, whatever the disk's own sectors are.
const SECTOR_BYTES: u64 = 512;

/// The counts of a network interface since it appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounts {
    /// Received bytes.
    pub rx_bytes: u64,
    /// Received packets.
    pub rx_packets: u64,
    /// Received packets that were dropped, by the kernel or the driver.
    pub rx_drops: u64,
    /// Sent bytes.
    pub tx_bytes: u64,
    /// Sent packets.
    pub tx_packets: u64,
    /// Packets that were dropped instead of sent.
    pub tx_drops: u64,
}

/// The interfaces of /proc/net/dev by name. Invalid lines are skipped.
pub fn parse_interfaces(text: &str) -> impl Iterator<Item = (&str, InterfaceCounts)> {
    text.lines().take(LINES_MAX).filter_map(|line| {
        let (name, counts) = line.split_once(':')?;
        let mut numbers = [0_u64; 12];
        let mut words = counts.split_ascii_whitespace();
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        // bytes packets errs drop fifo frame compressed multicast, then bytes packets errs drop.
        let [rx_bytes, rx_packets, _, rx_drops, _, _, _, _, tx_bytes, tx_packets, _, tx_drops] = numbers;
        Some((name.trim(), InterfaceCounts { rx_bytes, rx_packets, rx_drops, tx_bytes, tx_packets, tx_drops }))
    })
}

/// The counts of a disk or a partition since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounts {
    /// Completed reads.
    pub reads: u64,
    /// Read bytes.
    pub read_bytes: u64,
    /// The time that reads took together, in milliseconds.
    pub read_ms: u64,
    /// Completed writes.
    pub writes: u64,
    /// Written bytes.
    pub written_bytes: u64,
    /// The time that writes took together, in milliseconds.
    pub write_ms: u64,
    /// The time with at least one request, in milliseconds.
    pub busy_ms: u64,
}

/// The lines of /proc/diskstats by name. Invalid lines are skipped.
pub fn parse_disks(text: &str) -> impl Iterator<Item = (&str, DiskCounts)> {
    text.lines().take(LINES_MAX).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let name = words.nth(2)?;
        let mut numbers = [0_u64; 10];
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        // reads merged sectors ms, writes merged sectors ms, in flight, busy ms.
        let [reads, _, read, read_ms, writes, _, written, write_ms, _, busy_ms] = numbers;
        let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
        let (read_bytes, written_bytes) = (bytes(read), bytes(written));
        Some((name, DiskCounts { reads, read_bytes, read_ms, writes, written_bytes, write_ms, busy_ms }))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let dev = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    1560      12    0    0    0     0          0         0     1560      12    0    0    0     0       0          0
  eth0:123456789 4000 1 2 3 4 5 6 987654321 5000 7 8 9 0 1 2
  odd: 1 2
";
        let lo = InterfaceCounts {
            rx_bytes: 1560,
            rx_packets: 12,
            tx_bytes: 1560,
            tx_packets: 12,
            ..InterfaceCounts::default()
        };
        let eth0 = InterfaceCounts {
            rx_bytes: 123_456_789,
            rx_packets: 4000,
            rx_drops: 2,
            tx_bytes: 987_654_321,
            tx_packets: 5000,
            tx_drops: 8,
        };
        assert_eq!(parse_interfaces(dev).collect::<Vec<_>>(), [("lo", lo), ("eth0", eth0)]);
        let disks =
            " 254       0 vda 10 1 80 5 20 2 160 9 0 12 14 0 0 0 0 3 4\n   7       0 loop0 1 0 8 1 0 0 0 0 0 1\nodd\n";
        let vda = DiskCounts {
            reads: 10,
            read_bytes: 40_960,
            read_ms: 5,
            writes: 20,
            written_bytes: 81_920,
            write_ms: 9,
            busy_ms: 12,
        };
        let loop0 = DiskCounts { reads: 1, read_bytes: 4096, read_ms: 1, busy_ms: 1, ..DiskCounts::default() };
        assert_eq!(parse_disks(disks).collect::<Vec<_>>(), [("vda", vda), ("loop0", loop0)]);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "((eth0:|vda|[0-9]{1,20})[ \n]{1,2}){0,30}|.{0,30}") {
            let _ = (parse_interfaces(&text).count(), parse_disks(&text).count());
        }
    }
}
