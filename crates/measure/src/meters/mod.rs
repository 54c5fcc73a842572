//! The meters, one file or folder each. Each meter has `Settings`, a `Report` and a function `run`.

pub mod bandwidth;
pub mod clock;
pub mod disk;
pub mod frequency;
pub mod gaps;
pub mod imbalance;
pub mod memory;
pub mod quantum;
pub mod rates;
pub mod ticks;
pub mod udp;
pub mod wake;
