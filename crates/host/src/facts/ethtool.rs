//! What ethtool reports about a network driver: its queues, rings and interrupts with their limits, its offloads, and how it spreads packets.

use std::collections::BTreeMap;

use evenkeel_hostfs::proc::field;
use serde::Serialize;

use crate::fact::Fact;
use crate::probe::Probe;

/// Queues in use and their limits.
/// A driver has either combined queues (receive and transmit in a pair), or separate queues for each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Channels {
    /// Receive queues that are not part of a pair.
    pub rx: u32,
    /// Transmit queues that are not part of a pair.
    pub tx: u32,
    /// Pairs of a receive and a transmit queue.
    pub combined: u32,
    /// The maximum of `rx`.
    pub rx_max: u32,
    /// The maximum of `tx`.
    pub tx_max: u32,
    /// The maximum number of pairs.
    pub combined_max: u32,
}

/// Packets that the ring of each queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rings {
    /// Packets that the ring of a receive queue holds.
    pub rx: u32,
    /// Packets that the ring of a transmit queue holds.
    pub tx: u32,
    /// The maximum for a receive queue.
    pub rx_max: u32,
    /// The maximum for a transmit queue.
    pub tx_max: u32,
}

/// How long an interrupt is delayed to batch packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Coalesce {
    /// The longest delay after a received packet, in microseconds.
    pub rx_us: u32,
    /// The number of received packets that ends the delay early.
    pub rx_frames: u32,
    /// The longest delay after a sent packet, in microseconds.
    pub tx_us: u32,
    /// The number of sent packets that ends the delay early.
    pub tx_frames: u32,
    /// Whether the driver adapts the delay of received packets to the load.
    pub adaptive_rx: bool,
    /// Whether the driver adapts the delay of sent packets to the load.
    pub adaptive_tx: bool,
}

/// Offloads by the kernel's names.
pub type Offloads = BTreeMap<String, Offload>;

/// An offload: work that a device may do for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Offload {
    /// Whether the device does this work.
    pub on: bool,
    /// Whether the driver does not allow a change.
    pub fixed: bool,
}

/// How the device spreads packets over receive queues, as far as the driver reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rss {
    /// The number of entries in the table from a packet's hash to its queue. 0 without a table.
    pub table: Fact<u32>,
    /// Different queues in that table.
    pub queues: Fact<u32>,
    /// The number of bytes of the hash key. 0 without a key.
    pub key_bytes: Fact<u32>,
    /// The hash: `toeplitz`, `xor`, `crc32`.
    pub function: Fact<String>,
    /// The hashed fields of a UDP packet over IPv4, in ethtool's letters: `s` and `d` for the addresses, `f` and `n` for the ports.
    /// `none` if the driver reports none.
    pub udp4: Fact<String>,
}

/// The offloads that change when or how a UDP packet reaches its server, out of some sixty offloads.
const REPORTED: [&str; 15] = [
    "rx-checksum",
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-hashing",
    "rx-lro",
    "rx-ntuple-filter",
    "rx-udp-gro-forwarding",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv4",
    "tx-checksum-ipv6",
    "tx-generic-segmentation",
    "tx-nocache-copy",
    "tx-scatter-gather",
    "tx-udp-segmentation",
];

/// The reported offloads of an interface.
pub(super) fn offloads(probe: Probe<'_>, interface: &str) -> Fact<Offloads> {
    probe.parse(&format!("@ethtool/{interface}/features"), "offloads, each on or off", parse_offloads)
}

fn parse_offloads(text: &str) -> Option<Offloads> {
    let mut offloads = Offloads::new();
    for line in text.lines() {
        let (name, value) = line.split_once('=')?;
        let (on, fixed) = match value.trim() {
            "on" => (true, false),
            "off" => (false, false),
            "on,fixed" => (true, true),
            "off,fixed" => (false, true),
            _ => return None,
        };
        if REPORTED.contains(&name) {
            offloads.insert(name.to_owned(), Offload { on, fixed });
        }
    }
    Some(offloads)
}

impl Rss {
    pub(super) fn probe(probe: Probe<'_>, interface: &str) -> Fact<Rss> {
        let path = format!("@ethtool/{interface}/rss");
        probe.parse(&path, "how the device spreads packets", |text| {
            let unreported = |key: &str| format!("the driver of {interface} does not report {key}");
            let number = |key: &str| match field(text, key, '=') {
                None => Some(Fact::absent(unreported(key))),
                Some(number) => number.parse().ok().map(Fact::Known),
            };
            let word = |key: &str| match field(text, key, '=') {
                None => Some(Fact::absent(unreported(key))),
                Some(word) => (!word.is_empty()).then(|| Fact::Known(word.to_owned())),
            };
            Some(Rss {
                table: number("table")?,
                queues: number("queues")?,
                key_bytes: number("key_bytes")?,
                function: word("function")?,
                udp4: word("udp4")?,
            })
        })
    }
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
        probe.parse(&format!("@ethtool/{interface}/coalesce"), "delays of interrupts", |text| {
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
    use evenkeel_hostfs::{Capture, Root};
    use proptest::prelude::*;

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

    #[test]
    fn reports_relevant_offloads() {
        let text =
            "rx-checksum=on,fixed\nrx-gro=on\ntx-udp-segmentation=off,fixed\ntx-tcp6-segmentation=on\nrx-lro=off";
        let as_text: Vec<String> = parse_offloads(text)
            .unwrap()
            .iter()
            .map(|(name, offload)| format!("{name} {} {}", offload.on, offload.fixed))
            .collect();
        assert_eq!(
            as_text,
            ["rx-checksum true true", "rx-gro true false", "rx-lro false false", "tx-udp-segmentation false true"]
        );
        for text in ["rx-gro", "rx-gro=", "rx-gro=maybe", "rx-gro=on,stuck"] {
            assert_eq!(parse_offloads(text), None, "{text}");
        }
        assert!(REPORTED.is_sorted());
    }

    #[test]
    fn parses_partial_hash_settings() {
        let text = "evenkeel-capture 1\n@ethtool/a/rss =\n| table=128\n| key_bytes=40\n| function=toeplitz\n| queues=4\n| udp4=sd\n\
                    @ethtool/b/rss = udp4=none\n@ethtool/c/rss = table=many\n@ethtool/d/rss ! EOPNOTSUPP\nend\n";
        let root = Root::captured(Capture::parse(text).unwrap());
        let of = |interface| Rss::probe(Probe(&root), interface);
        let whole = of("a").known().cloned().unwrap();
        assert_eq!((whole.table, whole.queues, whole.key_bytes), (Fact::Known(128), Fact::Known(4), Fact::Known(40)));
        assert_eq!((whole.function, whole.udp4), (Fact::Known("toeplitz".into()), Fact::Known("sd".into())));
        let part = of("b").known().cloned().unwrap();
        assert_eq!((part.table.is_absent(), part.udp4), (true, Fact::Known("none".into())));
        assert!(matches!(of("c"), Fact::Odd { .. }) && of("d").is_absent());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "((rx-gro|[a-z]{0,3})=?(on|off|,fixed|[0-9]{0,4})\n?){0,4}|.{0,20}") {
            let _ = parse_offloads(&text);
        }
    }
}
