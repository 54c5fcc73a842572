//! The reference game server of evenkeel and the bots that play on it: an authoritative, headless server in the manner of a tactical
//! shooter, built on what `evenkeel-rt` offers to everybody, and the workload on which settings of a host are proved when the
//! user's own server is not at hand.
//!
//! [`game`] is the match itself, pure: ground, hit boxes moved by a skeleton, 250 ms of history for shots, ways for bots. [`net`]
//! is what goes over the network and who may send it. [`room`] joins both, without sockets or clocks, so that [`record`] can play a
//! match again byte for byte. [`server`] and [`bots`] are the two programs, driven by and reporting in lines of JSON ([`control`]).
//!
//! There is nothing here that draws, sounds or takes keys; tests look at what it uses and at what the running server has open.

pub mod bots;
pub mod console;
pub mod control;
pub mod game;
pub mod net;
pub mod place;
mod probe;
pub mod record;
pub mod room;
pub mod server;
mod tally;
pub mod time;
pub mod work;
pub mod worker_group;
