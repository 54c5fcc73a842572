//! The settings of the bandwidth meter.

use std::net::SocketAddr;

use serde::Serialize;

/// The maximum number of streams of one measurement, and of a server at one time.
pub const STREAMS_MAX: usize = 32;
/// The longest duration of a stream, in seconds.
pub const SECONDS_MAX: f64 = 3600.0;
/// The longest duration of a stream from the server, in seconds.
/// A stream from the server loads the network of the server's host on request of another machine.
pub const REVERSE_SECONDS_MAX: f64 = 60.0;

/// The settings of the bandwidth meter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The direction.
    pub way: Direction,
    /// The address of a server. None starts a server here and uses loopback.
    pub to: Option<SocketAddr>,
    /// The protocol.
    pub by: By,
    /// The number of simultaneous streams.
    pub streams: usize,
    /// The duration, in seconds.
    pub seconds: f64,
    /// The size of a UDP packet without headers, or of one write to a TCP stream.
    /// None means 1,400 bytes for a packet and 128 KiB for a write.
    pub bytes: Option<usize>,
    /// Bits per second of all UDP streams together. None sends as fast as possible.
    pub bits_per_s: Option<f64>,
    /// The CPU to run on. With None, the kernel chooses. Over loopback, None means the last allowed CPU.
    pub cpu: Option<usize>,
}

/// The direction of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The streams go from here to the server, which counts the received bytes.
    ToServer,
    /// The streams go from the server to here, where the meter counts the received bytes.
    FromServer,
}

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// TCP streams, paced by the kernel.
    Tcp,
    /// UDP packets, at a rate or as fast as possible.
    Udp,
}
