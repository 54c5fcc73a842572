//! Live checks of the program: meters, disturbers, recordings and trials on the machine that runs them. `make live` runs them one at a time.

#![expect(clippy::unwrap_used, reason = "a check that cannot run its program fails")]

#[path = "../common/bare.rs"]
mod bare;
mod beside;
mod clock_source;
mod clock_wake;
mod disturb;
#[path = "../common/faults.rs"]
mod faults;
mod meter_faults;
mod namespaces;
mod profile_scopes;
mod profile_ticks;
#[path = "../common/scene.rs"]
mod scene;
mod servers;
#[path = "../common/wait.rs"]
mod wait;
mod workloads;
#[path = "../common/workloads.rs"]
mod workloads_started;
