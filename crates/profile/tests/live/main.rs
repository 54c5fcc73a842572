//! Live checks of recordings: how much of the work is sampled, and whether the report finds planted waits and stalls.
//! The checks need a quiet CPU.

#![allow(clippy::unwrap_used, clippy::panic, reason = "live checks: a panic is how one fails")]

mod planted;
mod recorder;
mod switches;
