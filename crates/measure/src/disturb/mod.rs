//! The disturbers, one file each: disturbances of a known shape.
//! All disturbers have a time limit and report what they really did.
//! Nothing remains afterwards: threads end with their process, and a guard removes everything else.
//!
//! Each disturber has `Settings` and a function `start(&Settings, until_ns)` that gives a `Running`.
//! `Running::stop` gives the `Report`.

mod counts;
pub mod memory;
mod ping_pong;
mod planted;
pub mod quantum;
pub mod quota;
mod rt_hog;
pub mod sibling;
pub mod spinner;
pub mod storm;
mod toucher;
mod worker_group;

pub use ping_pong::{PingPong, Played};
pub use planted::{Planted, Planting, Stretch};
pub use rt_hog::{Account, RtHog, Schedule, Taken};
pub use toucher::{Touched, Toucher};
pub use worker_group::{all_cpus, check_cpus};

use evenkeel_sys::CpuSet;
use serde::Serializer;

/// Writes a set of CPUs as the kernel's list: `0-3,8`.
fn as_list<S: Serializer>(cpus: &CpuSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cpus)
}
