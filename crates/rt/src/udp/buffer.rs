//! The required size of a receive buffer. The kernel counts the memory of a packet, which for a small packet is many times its length.

use std::time::Duration;

/// The size of `struct sk_buff`, rounded up to cache lines.
const HEAD_BYTES: u64 = 256;
/// The size of `struct skb_shared_info` and of the room before the packet, rounded up.
const AROUND_BYTES: u64 = 320 + 128;
/// The smallest size that we assume for a packet. Drivers that receive into half pages count that much, even for a small packet.
const LEAST_BYTES: u64 = 2048;
/// The largest value of the kernel's option.
const OPTION_MAX: u64 = (i32::MAX / 2) as u64;

/// The packets that a server gets, and how often the server receives them.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_rt::udp::{BufferNeed, kernel_bytes};
///
/// let need = BufferNeed {
///     players: 64,
///     packets_a_second: 60,
///     bytes: 120,
///     drain_interval: Duration::from_millis(50),
/// };
/// assert_eq!(need.packets(), 192); // three of each player
/// assert_eq!(kernel_bytes(120), 2304); // what the kernel counts for one of them
/// assert_eq!(need.buffer_bytes(), 192 * 2304 * 4 / 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferNeed {
    /// Players, or other senders.
    pub players: u32,
    /// Packets per second of each player.
    pub packets_a_second: u32,
    /// Bytes of each packet, without headers.
    pub bytes: u32,
    /// The longest time between two calls that receive: the tick period, its lateness, and pauses of the machine.
    pub drain_interval: Duration,
}

impl BufferNeed {
    /// The packets that arrive between two calls, if all players send at the same time.
    pub fn packets(&self) -> u64 {
        let in_interval = u128::from(self.packets_a_second) * self.drain_interval.as_nanos();
        let each = u64::try_from(in_interval.div_ceil(1_000_000_000)).unwrap_or(u64::MAX);
        u64::from(self.players).saturating_mul(each.max(1))
    }

    /// The bytes that these packets need, as the kernel counts them, plus a third.
    /// The kernel frees the memory of read packets only when that memory is a quarter of the buffer.
    pub fn buffer_bytes(&self) -> u64 {
        let bytes = self.packets().saturating_mul(kernel_bytes(u64::from(self.bytes)));
        bytes.saturating_add(bytes / 3).min(2 * OPTION_MAX)
    }

    /// The size to request: half of [`buffer_bytes`](Self::buffer_bytes), because the kernel doubles it.
    pub(crate) fn option_bytes(&self) -> u32 {
        u32::try_from(self.buffer_bytes().div_ceil(2).min(OPTION_MAX)).unwrap_or(u32::MAX / 4)
    }
}

/// The most that the kernel counts for a packet of this many bytes, up to a page (`truesize`). The formula follows the sources of Linux 6.18.
/// On loopback, the kernel counted 768 bytes for packets of 100 bytes.
pub fn kernel_bytes(bytes: u64) -> u64 {
    let data = bytes.saturating_add(AROUND_BYTES).max(LEAST_BYTES);
    HEAD_BYTES + data.checked_next_power_of_two().unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(players: u32, packets_a_second: u32, bytes: u32, ms: u64) -> BufferNeed {
        BufferNeed { players, packets_a_second, bytes, drain_interval: Duration::from_millis(ms) }
    }

    #[test]
    fn the_formula() {
        for (of, packets, bytes) in [
            (need(64, 60, 100, 20), 128, 128 * 2304 * 4 / 3),
            (need(64, 50, 100, 20), 64, 64 * 2304 * 4 / 3),
            (need(64, 60, 1200, 100), 384, 384 * 2304 * 4 / 3),
            (need(10, 1, 3000, 1), 10, 10 * 4352 * 4 / 3),
            (need(0, 60, 100, 20), 0, 0),
        ] {
            assert_eq!((of.packets(), of.buffer_bytes()), (packets, bytes), "{of:?}");
            assert_eq!(u64::from(of.option_bytes()), bytes.div_ceil(2), "{of:?}");
        }
        let endless = BufferNeed { drain_interval: Duration::MAX, ..need(u32::MAX, u32::MAX, u32::MAX, 0) };
        assert_eq!(endless.option_bytes(), i32::MAX as u32 / 2);
        assert_eq!(kernel_bytes(u64::MAX), u64::MAX / 2 + 256);
    }
}
