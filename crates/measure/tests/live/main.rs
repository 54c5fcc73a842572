//! Live checks of the meters: trouble of a known size is put under each, and must come out as that size. They need a quiet CPU.

#![allow(clippy::unwrap_used, clippy::panic, reason = "live checks: a panic is how one fails")]

mod clock;
mod disk;
mod disturbers;
mod frequency;
mod gaps;
mod imbalance;
mod memory;
mod quantum;
mod rates;
mod ticks;
mod udp;
mod wake;
