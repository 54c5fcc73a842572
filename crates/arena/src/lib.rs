//! A real, if small, UDP game server and the bots that play on it: the workload on which settings of a host are proved
//! when the user's own server is not at hand.
//!
//! The server ([`server`]) simulates an arena ([`sim`]) at a fixed tick rate and sends every player a snapshot
//! ([`snapshot`]) each tick. The bots ([`bots`]) play and, through one probing player, time round trips. Both programs are
//! driven by, and report in, lines of JSON ([`control`]).

pub mod bots;
pub mod client;
pub mod clock;
pub mod console;
pub mod control;
pub mod cookie;
pub mod gate;
pub mod limit;
pub mod pin;
mod player;
mod probe;
pub mod replay;
pub mod server;
pub mod sim;
pub mod snapshot;
mod tally;
pub mod wire;
pub mod work;
pub mod world;
