//! For people who write a server loop: a tick that keeps time on a machine that is not always there.
//!
//! A rented CPU is taken away without a word: by a neighbour, by a limit, by the hypervisor. A loop that sleeps for "the rest of the
//! tick" drifts; one that yields gives a whole turn of the scheduler away; one that spins burns what it has of the CPU. [`TickClock`]
//! sleeps to absolute deadlines, wakes a learned margin early and waits that out where a CPU is to spare, and says what it did:
//! lateness, and the time from due to done, since the interval between ticks hides a tick that is always late.
//!
//! ```
//! use std::time::Duration;
//!
//! use evenkeel_rt::{Overrun, TickClock, TickSettings, TickThread, ThreadConfig};
//!
//! let thread = TickThread::set_up(&ThreadConfig::default()); // what was refused is in its report
//! let settings = TickSettings { period: Duration::from_millis(10), ..TickSettings::default() };
//! let mut clock = TickClock::start(settings).on(thread);
//! for _ in 0..3 {
//!     let tick = clock.wait();
//!     // … move the world by (1 + tick.missed) periods …
//!     clock.done();
//! }
//! let report = clock.report();
//! assert_eq!(report.ticks, 3);
//! ```
//!
//! [`Mutex`], [`RwLock`], [`InheritMutex`] and [`Event`] sleep in the kernel, never yield, and spin only a moment where there is another CPU.
//!
//! [`udp::Udp`] receives and sends many packets a call.
//!
//! Nothing here knows of the program `evenkeel`; nothing is allocated after the start.

#[cfg(feature = "agones")]
pub mod agones;
mod guard;
pub mod jobs;
mod margin;
pub mod memory;
mod preempt;
mod quantum;
pub mod rate;
mod schedule;
pub mod scope;
pub mod telemetry;
mod thread;
mod tick;
pub mod udp;

pub use evenkeel_stats::Summary;
pub use evenkeel_sys::clock::monotonic_ns;
pub use evenkeel_sys::lock::waits;
pub use evenkeel_sys::lock::{
    Event, InheritMutex, InheritMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub use evenkeel_sys::{CpuSet, Errno};
pub use quantum::{Align, Aligned, Alignment, GapsSeen, Quantum, Slot};
pub use schedule::Overrun;
pub use thread::{ApplyStatus, ThreadConfig, ThreadReport, TickThread};
pub use tick::{Done, Report, Spinning, Tick, TickClock, TickSettings};
