//! The program as its callers see it: command lines in, exit codes and text out. Data stands in `host.txt` and
//! `snapshots/`; `UPDATE_EXPECT=1` writes the latter anew.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]

mod audit;
mod bad_input;
mod cards;
mod change;
mod formats;
mod live;
mod output;
mod pages;
mod profile;
mod script;
mod side_by_side;
mod support;
mod topology;
