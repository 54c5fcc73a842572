//! The reference game server of evenkeel, and the bots that play on it.
//! It is an authoritative, headless server in the manner of a tactical shooter, built on the public interface of `evenkeel-rt`.
//! Settings are proved on it if your own server is not available.
//!
//! [`game`] is the match itself, as pure functions: the map, hit boxes moved by a skeleton, 250 ms of history for shots, and paths for bots.
//! [`net`] is the protocol, and decides who may send.
//! [`room`] joins both, without sockets or clocks, so that [`record`] can replay a match byte for byte.
//! [`server`] and [`bots`] are the two programs. Both take commands and answer in lines of JSON ([`control`]).
//!
//! Nothing here draws, plays sounds or reads keys. Tests check the dependencies and the open files of the running server.

pub mod bots;
pub mod console;
pub mod control;
mod durations;
pub mod game;
pub mod net;
pub mod place;
mod probe;
pub mod record;
pub mod room;
pub mod server;
pub mod time;
pub mod work;
pub mod worker_group;
