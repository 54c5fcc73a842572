//! Players of DDNet's server: they join, walk about and ask how long an answer takes, by the protocol of Teeworlds 0.6 with DDNet's tokens.
//!
//! Sources: libtw2's documentation of packets, connections, numbers and compression, and DDNet's own server 16.4, against which it was tried. No
//! map is read and no snapshot unpacked: what a player's machine does with the game is not the server's time. The one published library of
//! the protocol was looked at: its connection gives up the process on some packets that nobody sends, and keeps what is not acknowledged
//! without a bound.

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

/// The game ticks 50 times a second, in all of its servers; so long is a tick, in nanoseconds.
const TICK_NS: u64 = 20_000_000;
