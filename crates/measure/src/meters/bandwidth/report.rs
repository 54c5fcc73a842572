//! The report of the bandwidth meter.

use std::net::SocketAddr;

use serde::Serialize;

use super::settings::{By, Direction};
use crate::meters::udp::Between;

/// The report of the bandwidth meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The server.
    pub to: SocketAddr,
    /// The path between the two ends.
    pub between: Between,
    /// The protocol.
    pub by: By,
    /// The direction.
    pub way: Direction,
    /// Received bits per second of all streams, by the count of the receiver. None if the server did not report.
    pub arrived_bits_per_s: Option<f64>,
    /// Sent bits per second of all streams. None if the server sent the streams and did not report.
    pub sent_bits_per_s: Option<f64>,
    /// The UDP bits per second that the server agreed to send. None unless this is less than requested.
    pub cut_to_bits_per_s: Option<f64>,
    /// Lost UDP packets as a share of the sent packets. None for TCP, which retransmits losses.
    pub lost_share: Option<f64>,
    /// CPU time of the meter's threads, as a share of one CPU.
    pub cpu_share: f64,
    /// CPU time of the server's threads, as a share of one CPU. None if the server did not report.
    pub server_cpu_share: Option<f64>,
    /// The number of streams whose counts the server did not report. The totals above do not include them.
    pub unreported: usize,
    /// The streams.
    pub streams: Vec<Stream>,
}

/// One stream.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stream {
    /// The number of sent bytes, without headers. None if the server sent them and did not report.
    pub sent_bytes: Option<u64>,
    /// The duration, in seconds.
    pub seconds: f64,
    /// The packets per second that the server agreed to send. None except for UDP from the server.
    pub granted_packets_per_s: Option<u32>,
    /// The bytes that arrived. None if the server counted them and did not report.
    pub arrived: Option<Arrived>,
    /// UDP packets that this host's kernel did not accept.
    pub not_sent: u64,
    /// CPU time of the meter's thread, in nanoseconds.
    pub cpu_ns: u64,
}

/// The received part of a stream.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Arrived {
    /// Bytes, without headers.
    pub bytes: u64,
    /// The time from the first to the last byte, in seconds.
    pub seconds: f64,
    /// UDP packets that arrived. None for TCP.
    pub packets: Option<u64>,
    /// UDP packets that were sent and did not arrive. None for TCP, or if the server did not report what it sent.
    pub lost: Option<u64>,
    /// UDP packets that later packets overtook. None for TCP.
    pub reordered: Option<u64>,
    /// CPU time of the server's thread, in nanoseconds. None if the server did not report.
    /// All UDP streams share one thread, so each stream shows the total.
    pub cpu_ns: Option<u64>,
}
