//! How to measure.

use std::net::SocketAddr;

use serde::Serialize;

/// The most streams of one measurement, and of a server at a time.
pub const STREAMS_MAX: usize = 32;
/// The longest that one stream may last, in seconds.
pub const SECONDS_MAX: f64 = 3600.0;
/// The longest that a server sends one stream, in seconds: it spends its host's network on somebody else's word.
pub const REVERSE_SECONDS_MAX: f64 = 60.0;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which way.
    pub way: Direction,
    /// Where a server runs; none starts one here and goes over loopback.
    pub to: Option<SocketAddr>,
    /// By what.
    pub by: By,
    /// How many at once.
    pub streams: usize,
    /// For how long, in seconds.
    pub seconds: f64,
    /// Bytes of a UDP packet without headers, or of one write to a TCP stream; none is 1,400 and 128 KiB.
    pub bytes: Option<usize>,
    /// Bits a second of all UDP streams together; none is as fast as it goes.
    pub bits_per_s: Option<f64>,
    /// The CPU to run on; none leaves it to the kernel, or over loopback takes the last that is allowed.
    pub cpu: Option<usize>,
}

/// Which way the streams go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From here to the server, which counts what came.
    ToServer,
    /// From the server to here, where what came is counted.
    FromServer,
}

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Streams that the kernel paces.
    Tcp,
    /// Packets, at a rate or as fast as they go.
    Udp,
}
