//! Where the time of a server's ticks went: recordings of perf_event_open(2), live or out of a file, and what they say.
//!
//! Data goes one way. Records, from the kernel's rings or out of a `perf.data` file, go through one [`Converter`](convert::Converter) and
//! become a [`Recording`](recording::Recording): samples and switches, with each stack kept once. [`Names`](names::Names) say which
//! functions its frames are in. What a user sees is made of the two: [`Folded`](fold::Folded) stacks, and graphs and tables of them.

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
