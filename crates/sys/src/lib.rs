//! System calls and unsafe primitives behind safe functions, and the safe code that the runtime library needs with them.
//! The modules have clocks, affinity, scheduling, locks, the job system's cells, UDP in batches, perf events, and shared pages.
//!
//! On other systems than Linux, `portable` offers what `evenkeel-rt` uses, as far as the standard library provides it.
//!
//! The crate `evenkeel-hostfs` reads the files of a host (`/proc`, `/sys`, captures). A game server does not compile that crate.
//!
//! Only this crate and the C interface of the runtime library contain `unsafe`. Every block has a comment that shows why it is sound.

/// Compiles and runs the code of README.md as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(target_os = "linux")]
pub mod chain;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod clock_calls;
#[cfg(target_os = "linux")]
pub mod cpu_limit;
#[cfg(target_arch = "x86_64")]
pub mod cpuid;
mod cpuset;
#[cfg(target_os = "linux")]
mod cycles;
#[cfg(target_os = "linux")]
pub mod dma_latency;
mod errno;
#[cfg(target_os = "linux")]
pub mod ethtool;
#[cfg(target_os = "linux")]
pub mod foreign_process;
#[cfg(all(target_os = "linux", not(loom)))]
mod futex;
#[cfg(feature = "http")]
pub mod http;
pub mod job;
pub mod lock;
#[cfg(target_os = "linux")]
pub mod mapping;
#[cfg(target_os = "linux")]
pub mod mark;
#[cfg(target_os = "linux")]
pub mod packet_filter;
#[cfg(target_os = "linux")]
pub mod packet_ring;
#[cfg(target_os = "linux")]
pub mod pages;
#[cfg(target_os = "linux")]
mod perf_event;
#[cfg(target_os = "linux")]
pub mod perf_probe;
#[cfg(target_os = "linux")]
pub mod perf_sampler;
#[cfg(target_os = "linux")]
pub mod perf_switch;
#[cfg(target_os = "linux")]
pub mod perf_thread;
#[cfg(target_os = "linux")]
pub mod perf_wakers;
#[cfg(target_os = "linux")]
pub mod phase_registry;
pub mod phase_slot;
#[cfg(not(target_os = "linux"))]
mod portable;
/// The portable version, whose tests also run on Linux.
#[cfg(all(test, target_os = "linux", not(loom)))]
#[path = "portable/futex.rs"]
mod portable_futex;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
pub mod readiness;
#[cfg(target_os = "linux")]
pub mod resident;
#[cfg(target_os = "linux")]
pub mod ring;
#[cfg(target_os = "linux")]
pub mod rseq;
#[cfg(target_os = "linux")]
pub mod sched;
#[cfg(target_os = "linux")]
pub mod schedstat;
#[cfg(loom)]
#[path = "telemetry/sequence.rs"]
pub mod sequence;
#[cfg(target_os = "linux")]
pub mod shared_page;
#[cfg(target_os = "linux")]
pub mod simd_memory;
#[cfg(target_os = "linux")]
pub mod stall;
#[cfg(target_os = "linux")]
pub mod suspended_child;
mod system;
#[cfg(not(loom))]
pub mod telemetry;
#[cfg(target_os = "linux")]
pub mod thread;
#[cfg(target_os = "linux")]
pub mod timer_fd;
#[cfg(target_os = "linux")]
pub mod tracepoint;
pub mod tsc;
#[cfg(target_os = "linux")]
pub mod udp;
#[cfg(target_os = "linux")]
mod usage;
#[cfg(target_os = "linux")]
pub mod waking;

pub use cpuset::{CpuSet, MAX_CPUS};
#[cfg(target_os = "linux")]
pub use cycles::Cycles;
pub use errno::Errno;
#[cfg(not(target_os = "linux"))]
use portable::futex;
#[cfg(not(target_os = "linux"))]
pub use portable::usage::Usage;
#[cfg(not(target_os = "linux"))]
pub use portable::{
    clock, cpu_limit, dma_latency, mark, phase_registry, resident, rseq, sched, schedstat, shared_page, stall, thread,
    udp,
};
pub use system::IS_LINUX;
#[cfg(target_os = "linux")]
pub use usage::Usage;
