//! The disturbers, one file each: noise of a known shape. All are bounded in time, keep an account of what they really did, and leave
//! nothing behind however they end: they are threads, which go with their process, and what is no thread has a guard.
//!
//! Each has `Settings`, `start(&Settings, until_ns)`, which gives a `Running`, and `Running::stop`, which gives the `Report`.

mod counts;
mod crew;
mod group;
pub mod memory;
mod ping_pong;
mod planted;
pub mod quantum;
pub mod quota;
pub mod sibling;
pub mod spinner;
pub mod storm;
mod thief;
mod toucher;

pub use crew::{all_cpus, check_cpus};
pub use ping_pong::{PingPong, Played};
pub use planted::{Planted, Planting, Stretch};
pub use thief::{Account, Schedule, Taken, Thief};
pub use toucher::{Touched, Toucher};

use evenkeel_sys::CpuSet;
use serde::Serializer;

/// A set of CPUs as the kernel's list: `0-3,8`.
fn as_list<S: Serializer>(cpus: &CpuSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cpus)
}
