//! The program as its callers see it: command lines in, exit codes and text out. The same on any machine at any load; what measures the
//! machine is in `tests/live/`. Data stands in `host.txt` and `snapshots/`; `UPDATE_EXPECT=1` writes the latter anew.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]

mod audit;
mod bad_input;
#[path = "../common/bare.rs"]
mod bare;
mod boots;
mod cards;
mod change;
mod changes;
mod clock_wake;
mod disturb;
#[path = "../common/faults.rs"]
mod faults;
mod formats;
mod fuzz_targets;
mod gaps;
mod kept;
mod live;
mod meter_faults;
mod mutations;
mod output;
mod pages;
mod profile;
mod profile_record;
mod profile_scopes;
mod rules;
#[path = "../common/scene.rs"]
mod scene;
mod script;
mod scripts;
mod servers;
mod side_by_side;
mod support;
mod topology;
mod trials;
mod tune;
#[path = "../common/wait.rs"]
mod wait;
mod workloads;
#[path = "../common/workloads.rs"]
mod workloads_started;
