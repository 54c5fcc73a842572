//! What a network driver tells by ethtool of its queues, rings and interrupts, and of how many it could have.

use serde::Serialize;

use crate::fact::Fact;
use crate::probe::{Probe, field};

/// Queues in use and their limits. A driver has pairs (combined) or counts both directions on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Channels {
    /// Receive queues that are no part of a pair.
    pub rx: u32,
    /// Transmit queues that are no part of a pair.
    pub tx: u32,
    /// Pairs.
    pub combined: u32,
    /// The most of the first.
    pub rx_max: u32,
    /// The most of the second.
    pub tx_max: u32,
    /// The most pairs.
    pub combined_max: u32,
}

/// Packets that the ring of each queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rings {
    /// Of a receive queue.
    pub rx: u32,
    /// Of a transmit queue.
    pub tx: u32,
    /// The most of a receive queue.
    pub rx_max: u32,
    /// The most of a transmit queue.
    pub tx_max: u32,
}

/// How long an interrupt waits for more packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Coalesce {
    /// For received packets, in microseconds.
    pub rx_us: u32,
    /// For so many received packets.
    pub rx_frames: u32,
    /// For sent packets, in microseconds.
    pub tx_us: u32,
    /// For so many sent packets.
    pub tx_frames: u32,
    /// Whether the driver changes the first by the load it sees.
    pub adaptive_rx: bool,
    /// Whether the driver changes the third.
    pub adaptive_tx: bool,
}

impl Channels {
    pub(super) fn probe(probe: Probe<'_>, interface: &str) -> Fact<Channels> {
        probe.parse(&format!("@ethtool/{interface}/channels"), "counts of queues", |text| {
            Some(Channels {
                rx: number(text, "rx")?,
                tx: number(text, "tx")?,
                combined: number(text, "combined")?,
                rx_max: number(text, "rx_max")?,
                tx_max: number(text, "tx_max")?,
                combined_max: number(text, "combined_max")?,
            })
        })
    }
}

impl Rings {
    pub(super) fn probe(probe: Probe<'_>, interface: &str) -> Fact<Rings> {
        probe.parse(&format!("@ethtool/{interface}/rings"), "sizes of rings", |text| {
            Some(Rings {
                rx: number(text, "rx")?,
                tx: number(text, "tx")?,
                rx_max: number(text, "rx_max")?,
                tx_max: number(text, "tx_max")?,
            })
        })
    }
}

impl Coalesce {
    pub(super) fn probe(probe: Probe<'_>, interface: &str) -> Fact<Coalesce> {
        probe.parse(&format!("@ethtool/{interface}/coalesce"), "waits of interrupts", |text| {
            Some(Coalesce {
                rx_us: number(text, "rx_us")?,
                rx_frames: number(text, "rx_frames")?,
                tx_us: number(text, "tx_us")?,
                tx_frames: number(text, "tx_frames")?,
                adaptive_rx: number(text, "adaptive_rx")? != 0,
                adaptive_tx: number(text, "adaptive_tx")? != 0,
            })
        })
    }
}

fn number(text: &str, key: &str) -> Option<u32> {
    field(text, key, '=')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::{Capture, Root};

    use super::*;

    #[test]
    fn every_number_must_be_there() {
        let text = "evenkeel-capture 1\n@ethtool/eth0/rings =\n| rx_max=4096\n| tx_max=2048\n| rx=512\n| tx=256\n\
                    @ethtool/eth0/channels =\n| rx=1\n@ethtool/eth0/coalesce ! EOPNOTSUPP\nend\n";
        let root = Root::captured(Capture::parse(text).unwrap());
        let probe = Probe(&root);
        assert_eq!(Rings::probe(probe, "eth0"), Fact::Known(Rings { rx: 512, tx: 256, rx_max: 4096, tx_max: 2048 }));
        assert!(matches!(Channels::probe(probe, "eth0"), Fact::Odd { .. }));
        assert!(Coalesce::probe(probe, "eth0").is_absent());
    }
}
