//! Tests meters and disturbers on the real kernel, independent of timing: their counts, their refusals, and how they end.
//! `tests/live` checks their measurements.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: a panic is how a test fails")]

mod bandwidth;
mod clock;
mod disk;
mod disturbers;
mod frequency;
mod gaps;
mod imbalance;
mod memory;
mod rates;
mod storms;
mod ticks;
mod ticks_replay;
mod ticks_zoo;
mod udp;
mod wake;
