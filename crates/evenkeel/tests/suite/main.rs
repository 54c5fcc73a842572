//! Tests the program from the user's side: command lines in, exit codes and text out.
//! The results are the same on every machine under any load. Tests that measure the machine are in `tests/live/`.
//! The data is in `host.txt` and `snapshots/`; `UPDATE_EXPECT=1` rewrites the snapshots.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

mod audit;
mod bad_input;
mod boots;
mod budgets;
mod capacity;
mod cards;
mod caveats;
mod change;
mod changes;
mod clock_wake;
mod credits;
mod disturb;
mod documents;
#[path = "../common/faults.rs"]
mod faults;
mod fleet;
mod fleet_audit;
mod fleet_prove;
mod formats;
mod fuzz_targets;
mod gaps;
mod guide;
mod images;
mod instances;
mod journals;
mod lab_hosts;
mod limits;
mod live_host;
mod mcp;
mod meter_faults;
mod mistakes;
mod mutations;
mod old_sessions;
mod output;
mod pack_agones;
mod pack_apply;
mod pack_run;
mod packs;
mod pages;
mod profile;
mod profile_record;
mod profile_scopes;
mod prometheus_files;
mod regions;
mod registry;
mod releases;
mod respelled;
mod rules;
mod rules_circles;
mod rules_knobs;
mod rules_types;
#[path = "../common/scene.rs"]
mod scene;
mod schema;
#[path = "../common/schemas.rs"]
mod schemas;
mod script;
mod scripts;
mod serve;
mod serve_prometheus;
mod serve_stored;
mod served;
mod servers;
mod side_by_side;
mod stored_sessions;
mod support;
mod this_machine;
mod tick_function;
mod topology;
mod trials;
mod tries;
mod tune;
mod tutorials;
#[path = "../common/tutorials.rs"]
mod tutorials_run;
#[path = "../common/wait.rs"]
mod wait;
mod watch;
mod workloads;
#[path = "../common/workloads.rs"]
mod workloads_started;
