//! How much memory the packets take that arrive while a server is stalled. Buffers are sized from this.
//!
//! A buffer must hold the packets that arrive during the longest stall.
//! The size is packets per second x stall x the memory of a packet, as the kernel counts it. There is no safety factor.
//! The stall is an assumption, and every reason that uses this result names the stall.

use crate::goal::Server;

/// The receive buffer memory of a packet of up to 100 bytes, as the kernel counts it (`truesize`), measured on Linux 6.18 over loopback.
/// The memory is 1283 for packets of 200 to 600 bytes, and 2315 for 1000 to 1400 bytes.
pub(crate) const PACKET_BYTES: u64 = 832;

/// The longest stall for which a buffer is sized.
/// The stall is the default period of `cpu.max`, so a server that has used its quota stops at most this long.
pub(crate) const STALL_MS: u64 = 100;

/// The packet rate of a player if the user gives only players: one packet per frame at 60 Hz.
pub(crate) const PPS_A_PLAYER: u64 = 60;

/// The packets that a server receives, as far as the user gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Packets per second.
    pub(crate) pps: u64,
    /// The user's input, for reasons.
    pub(crate) label: String,
}

impl Load {
    /// `None` if the user gave neither packets nor players, because evenkeel does not guess them.
    pub(crate) fn from_server(server: &Server) -> Option<Load> {
        match (server.pps, server.players) {
            (Some(pps), _) => Some(Load { pps, label: format!("{pps} packets/s") }),
            (None, Some(players)) => {
                let pps = players.saturating_mul(PPS_A_PLAYER);
                Some(Load { pps, label: format!("{players} players that send {PPS_A_PLAYER}/s each") })
            }
            (None, None) => None,
        }
    }

    /// Packets that arrive during the stall.
    pub(crate) fn stalled_packets(&self) -> u64 {
        self.pps.saturating_mul(STALL_MS).div_ceil(1000)
    }

    /// The memory that these packets take, in bytes.
    pub(crate) fn stalled_bytes(&self) -> u64 {
        self.stalled_packets().saturating_mul(PACKET_BYTES)
    }
}

/// How long a buffer of this many bytes lasts at this packet rate, in milliseconds.
pub(crate) fn lasts_ms(bytes: u64, pps: u64) -> u64 {
    (bytes / PACKET_BYTES).saturating_mul(1000) / pps.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_the_size_from_the_load() {
        let sums = |as_text: &str| {
            let load = Load::from_server(&as_text.parse().unwrap())?;
            Some((load.pps, load.stalled_packets(), load.stalled_bytes()))
        };
        for (as_text, expected) in [
            ("", None),
            ("cpus=4", None),
            ("pps=3840", Some((3840, 384, 319_488))),
            ("players=64", Some((3840, 384, 319_488))),
            ("players=64,pps=100", Some((100, 10, 8320))),
            ("pps=1", Some((1, 1, 832))),
            ("players=1000000000", Some((60_000_000_000, 6_000_000_000, 4_992_000_000_000))),
        ] {
            assert_eq!(sums(as_text), expected, "{as_text}");
        }
    }

    /// The default buffer and 64 players. A measurement showed that this buffer holds 256 packets.
    #[test]
    fn a_buffer_lasts_as_long_as_packets_fit() {
        assert_eq!(lasts_ms(212_992, 3840), 66);
        assert_eq!(lasts_ms(2 * 212_992, 3840), 133);
        assert_eq!(lasts_ms(0, 0), 0);
    }
}
