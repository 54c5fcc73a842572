//! Live checks of recordings: how much was sampled of what worked, and what is said of waits and stalls that were planted. They need a
//! quiet CPU.

#![allow(clippy::unwrap_used, clippy::panic, reason = "live checks: a panic is how one fails")]

mod planted;
mod recorder;
mod switches;
