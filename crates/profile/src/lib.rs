//! Shows where the time of a server's ticks goes, from recordings of perf_event_open(2), live or from a file.
//!
//! Data flows in one direction.
//! Records come from the kernel's rings or from a `perf.data` file.
//! One [`Converter`](convert::Converter) turns records into a [`Recording`](recording::Recording).
//! A recording has samples and switches, with each stack stored once.
//! [`Names`](names::Names) has the functions of the recording's frames.
//! All results come from the recording and the names: [`Folded`](fold::Folded) stacks, and graphs and tables of stacks.

pub mod binaries;
pub mod convert;
pub mod firefox;
pub mod fold;
pub mod graph;
pub mod imbalance;
pub mod input;
pub mod live;
pub mod maps;
pub mod names;
pub mod offcpu;
pub mod perf;
pub mod recording;
pub mod scopes;
pub mod stack;
pub mod summary;
pub mod symbols;
pub mod text;
pub mod ticks;
pub mod tree;
pub mod unwind;
