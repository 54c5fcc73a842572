//! System calls and unsafe primitives behind safe functions, and the safe code that the runtime library needs with them.
//! Clocks, affinity, scheduling, locks, the job system's cells, UDP in batches, perf events, shared pages.
//!
//! A host as files (`/proc`, `/sys`, captures) is `evenkeel-hostfs`, which a game server does not compile.
//!
//! Only this crate and the C interface of the runtime library contain `unsafe`. Every block says why it is sound.

pub mod chain;
pub mod clock;
pub mod clock_calls;
pub mod cpu_limit;
mod cpuset;
mod cycles;
pub mod dma_latency;
mod errno;
pub mod ethtool;
pub mod foreign_process;
#[cfg(feature = "http")]
pub mod http;
pub mod job;
pub mod lock;
pub mod mapping;
pub mod mark;
pub mod packet_filter;
pub mod packet_ring;
pub mod pages;
mod perf_event;
pub mod perf_probe;
pub mod perf_sampler;
pub mod perf_switch;
pub mod perf_thread;
pub mod process;
pub mod readiness;
pub mod resident;
pub mod ring;
pub mod rseq;
pub mod sched;
pub mod schedstat;
#[cfg(loom)]
#[path = "telemetry/sequence.rs"]
pub mod sequence;
pub mod shared_page;
pub mod simd_memory;
pub mod stall;
pub mod suspended_child;
#[cfg(not(loom))]
pub mod telemetry;
pub mod thread;
pub mod timer_fd;
pub mod tracepoint;
pub mod tsc;
pub mod udp;
mod usage;
pub mod waking;

pub use cpuset::{CpuSet, MAX_CPUS};
pub use cycles::Cycles;
pub use errno::Errno;
pub use usage::Usage;
