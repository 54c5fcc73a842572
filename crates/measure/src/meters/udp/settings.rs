//! The settings of the UDP meter.

use std::net::SocketAddr;

use serde::Serialize;

use crate::{Samples, Unit};

/// The settings of the UDP meter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of a server. None starts a server here for the time of the measurement and uses loopback.
    pub to: Option<SocketAddr>,
    /// The number of packets per second.
    pub rate_hz: f64,
    /// The length of a packet, in bytes without headers:
    /// [`ECHO_BYTES_MIN`](super::wire::ECHO_BYTES_MIN) to [`PACKET_BYTES_MAX`](super::wire::PACKET_BYTES_MAX).
    pub bytes: usize,
    /// How long to send echoes, in seconds.
    pub seconds: f64,
    /// How the sender waits until a packet is due.
    pub pace: Pace,
    /// How the receiver waits for a packet.
    pub receive: Receive,
    /// The CPU to run on. With None, the kernel chooses. Over loopback, None means the last allowed CPU.
    pub cpu: Option<usize>,
    /// The receive buffer to request, in bytes. None keeps the kernel's default.
    pub receive_buffer_bytes: Option<u32>,
    /// What to measure.
    pub parts: Vec<UdpTest>,
}

/// How the sender waits until a packet is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// The sender stays awake between packets. One thread both sends and receives, and sleeps only for the answer to the newest packet.
    Awake,
    /// The sender sleeps, as a server does between ticks, and spins for the last 50 us. The CPU goes idle between packets.
    Sleep,
    /// The sender always spins, and a second thread receives. Their CPU is never idle.
    Spin,
}

/// How the receiver waits for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Receive {
    /// The receiver sleeps until a packet arrives.
    Sleep,
    /// The receiver polls.
    Spin,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UdpTest {
    /// Round trips, loss and order.
    Echo,
    /// The parts of the time of a round trip.
    Split,
    /// The packets per second that a core can send and receive.
    Ceiling,
    /// Packets that fit while nobody reads.
    Burst,
}

impl Settings {
    /// An empty set of samples with our conditions.
    pub(super) fn samples(&self, name: &str) -> Samples {
        let pace = match self.pace {
            Pace::Awake => "awake",
            Pace::Sleep => "sleep",
            Pace::Spin => "spin",
        };
        let receive = if self.receive == Receive::Spin { "spin" } else { "sleep" };
        let mut conditions = vec![
            ("rate_hz", self.rate_hz.to_string()),
            ("bytes", self.bytes.to_string()),
            ("pace", pace.to_owned()),
            ("receive", receive.to_owned()),
        ];
        conditions.extend(self.cpu.map(|cpu| ("cpu", cpu.to_string())));
        let mut samples = Samples::new(name, Unit::Ns, []);
        samples.conditions = conditions.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        samples
    }
}
