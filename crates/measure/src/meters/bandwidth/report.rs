//! What was seen.

use std::net::SocketAddr;

use serde::Serialize;

use super::settings::{By, Direction};
use crate::meters::udp::Between;

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The server.
    pub to: SocketAddr,
    /// What lies between.
    pub between: Between,
    /// By what.
    pub by: By,
    /// Which way.
    pub way: Direction,
    /// Bits a second of all streams that came, by the count of the end that they went to; none if the server told nothing.
    pub arrived_bits_per_s: Option<f64>,
    /// Bits a second of all streams that were sent; none if the server sent them and told nothing.
    pub sent_bits_per_s: Option<f64>,
    /// Bits a second that the server agreed to send of UDP, where it is less than was asked for.
    pub cut_to_bits_per_s: Option<f64>,
    /// UDP packets that did not come, as a share of those sent; none for TCP, which sends again what is lost.
    pub lost_share: Option<f64>,
    /// CPU time of the threads here, as a share of one CPU.
    pub cpu_share: f64,
    /// CPU time of the server's threads, as a share of one CPU; none if it told nothing.
    pub server_cpu_share: Option<f64>,
    /// Streams of which the server did not tell what it counted: they are not in its figures above.
    pub untold: usize,
    /// Each.
    pub streams: Vec<Stream>,
}

/// One stream.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Stream {
    /// Sent, in bytes without headers; none if the server sent them and told nothing.
    pub sent_bytes: Option<u64>,
    /// For so long, in seconds.
    pub seconds: f64,
    /// Packets a second that the server agreed to send, where it did that by UDP.
    pub granted_packets_per_s: Option<u32>,
    /// What came; none if the server counted it and told nothing.
    pub arrived: Option<Arrived>,
    /// UDP packets that the kernel here did not take.
    pub not_sent: u64,
    /// CPU time of the thread here, in nanoseconds.
    pub cpu_ns: u64,
}

/// What came of a stream.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Arrived {
    /// In bytes without headers.
    pub bytes: u64,
    /// From the first to the last of them, in seconds.
    pub seconds: f64,
    /// UDP packets; none for TCP.
    pub packets: Option<u64>,
    /// UDP packets that were sent and did not come; none for TCP, and where the server did not tell what it sent.
    pub lost: Option<u64>,
    /// UDP packets that were overtaken; none for TCP.
    pub reordered: Option<u64>,
    /// CPU time of the server's thread, in nanoseconds; none if it did not tell. UDP streams share one thread, whose time stands with each.
    pub cpu_ns: Option<u64>,
}
