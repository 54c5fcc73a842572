//! Live checks of the program: meters, disturbers, recordings and trials on the machine that runs them. `make live` runs them one at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a check fails")]

mod bare;
mod beside;
mod clock_wake;
mod disturb;
mod gaps;
mod meter_faults;
mod namespaces;
mod profile_record;
mod profile_scopes;
mod profile_ticks;
#[path = "../common/scene.rs"]
mod scene;
mod servers;
mod trials;
mod workloads;
