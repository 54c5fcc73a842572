//! Live checks of the meters. Each meter measures a disturbance of known size and must report that size. The checks need a quiet CPU.

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
