//! Players for DDNet's server: they join, move, and measure the time to an answer, by the protocol of Teeworlds 0.6 with DDNet's tokens.
//!
//! The protocol is from libtw2's documentation of packets, connections, numbers and compression.
//! The code was tested with DDNet's server 16.4.
//! The players read no map and unpack no snapshot, because a client's own work is not the server's time.
//! We do not use the only published library of the protocol.
//! The library's connection aborts the process on some malformed packets, and stores unacknowledged data without a limit.

mod counts;
mod crowd;
mod huffman;
mod keys;
mod player;
#[cfg(test)]
mod tests;
mod wire;

pub use crowd::Crowd;
pub use player::{Event, Player};

/// The duration of a tick in nanoseconds. All servers of the game have 50 ticks per second.
const TICK_NS: u64 = 20_000_000;
