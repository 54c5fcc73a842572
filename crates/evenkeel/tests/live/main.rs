//! Live checks of the program: meters, disturbers, recordings and trials on the machine that runs the checks.
//! `make live` runs them one at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a check fails")]

mod bare;
mod clock_source;
mod clock_wake;
mod concurrent_trials;
mod disturb;
#[path = "../common/faults.rs"]
mod faults;
mod meter_faults;
mod namespaces;
mod profile_scopes;
mod profile_ticks;
#[path = "../common/scene.rs"]
mod scene;
#[path = "../common/schemas.rs"]
mod schemas;
mod servers;
mod trials;
mod tutorials;
#[path = "../common/tutorials.rs"]
mod tutorials_run;
#[path = "../common/wait.rs"]
mod wait;
mod watch;
mod watch_lock;
mod watch_truth;
mod workloads;
#[path = "../common/workloads.rs"]
mod workloads_started;
