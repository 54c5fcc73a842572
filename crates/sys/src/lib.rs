//! The kernel's door: everything evenkeel reads of a host, writes to it, or asks of its clocks and scheduler goes through here.
//!
//! [`Root`] reads, from one of three sources behind one type: the live machine, a mounted root such as `/host`, or a
//! captured machine held in memory. It remembers every look, refusals included, so that a capture is no more than
//! "probe, then print what was seen". [`Hand`] writes, and can be had only from a live or a captured root.
//!
//! This crate is the one home of `unsafe` (beside the C interface of the runtime library); every block says why it is sound.

pub mod asking;
pub mod asleep;
mod capture;
pub mod cgroup;
pub mod chain;
pub mod characters;
pub mod clock;
pub mod cpu_limit;
mod cpuset;
mod cycles;
mod draft;
mod errno;
mod ethtool;
mod hand;
pub mod held;
#[cfg(feature = "http")]
pub mod http;
mod image;
mod inside;
pub mod job;
mod kernel_config;
mod kernel_log;
pub mod lock;
pub mod mapping;
pub mod mark;
mod metadata;
mod mounted;
pub mod others;
mod package;
pub mod packet_filter;
pub mod packet_ring;
pub mod pages;
mod perf_event;
pub mod perf_probe;
pub mod perf_sampler;
pub mod perf_switch;
pub mod perf_thread;
mod pretend;
pub mod process;
mod pseudo;
pub mod readiness;
pub mod resident;
pub mod ring;
mod root;
pub mod rseq;
pub mod sched;
pub mod schedstat;
pub mod scratch;
#[cfg(loom)]
#[path = "telemetry/sequence.rs"]
pub mod sequence;
pub mod shared_page;
pub mod stall;
#[cfg(not(loom))]
pub mod telemetry;
pub mod thread;
pub mod timer_fd;
pub mod timer_files;
pub mod tracepoint;
mod tree;
pub mod tsc;
pub mod udp;
mod usage;
pub mod user_file;
pub mod waking;
pub mod wide;

pub use capture::{Capture, CaptureError, LoadError, MAX_CAPTURE_BYTES};
pub use cpuset::{CpuSet, MAX_CPUS};
pub use cycles::Cycles;
pub use errno::Errno;
pub use hand::{Hand, HeldLatency, NoHand, WriteError};
pub use image::Image;
pub use root::{MAX_LOOK_BYTES, Refusal, Root, RootError, RootKind, Why};
pub use tree::{Entry, MAX_FILE_BYTES, Tree, TreeError};
pub use usage::Usage;
