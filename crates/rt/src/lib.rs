//! For people who write a server loop: steady ticks on rented machines, where the CPU is sometimes taken away.
//!
//! A neighbour, a CPU limit or the hypervisor takes a rented CPU without notice.
//! A loop that sleeps for "the rest of the tick" drifts. A loop that yields gives up a whole time slice. A loop that spins uses up its CPU.
//!
//! [`TickLoop`] sleeps to absolute deadlines, wakes early by a learned margin, and spins for the rest if the process has CPUs to spare.
//! The loop reports how late each tick begins, and the time from due to done. The interval between ticks does not show a tick that is always late.
//!
//! ```
//! use evenkeel_rt::TickLoop;
//!
//! let mut ticks = TickLoop::builder().rate_hz(100).build()?;
//! eprint!("{}", ticks.setup()); // a line for each setting that the kernel refused
//! for _ in 0..3 {
//!     let tick = ticks.wait();
//!     println!("move the world by {:?}", tick.elapsed());
//! } // dropping `tick` ends the tick
//! assert_eq!(ticks.report().ticks, 3);
//! # Ok::<(), evenkeel_rt::TickLoopError>(())
//! ```
//!
//! | part | for |
//! |---|---|
//! | [`TickLoop`] | a whole loop; [`TickClock`] and [`TickThread`] are its parts, for engines that own their loop |
//! | [`jobs`] | the work of a tick in small pieces on several threads, and longer work outside the tick |
//! | [`Slices`] | when each CPU is available, if a hypervisor runs the CPUs in slices, so that jobs are not cut in the middle |
//! | [`scope`] | where the time of a tick went |
//! | [`telemetry`] | ticks on a page of shared memory for other processes |
//! | [`memory`] | no page faults in ticks |
//! | [`rate`] | a period that follows the load |
//! | [`TickLoopBuilder::phases`] | the ticks of all sessions on a host spread in time |
//! | [`udp::Udp`] | many packets per system call |
//! | [`Mutex`], [`RwLock`], [`InheritMutex`], [`Event`] | locks that sleep in the kernel, never yield, and spin only for a moment |
//!
//! Use the locks as you use those of the standard library. They can log long waits:
//!
//! ```
//! use evenkeel_rt::{Event, InheritMutex, Mutex, RwLock, waits};
//!
//! waits::log_over_ns(5_000_000);
//! let (score, world, input, over) = (Mutex::new(0), RwLock::new(vec![1, 2]), InheritMutex::new(7), Event::new());
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         *score.lock() += world.read().len() + *input.lock();
//!         over.set();
//!     });
//!     over.wait();
//! });
//! assert_eq!(score.into_inner(), 9);
//! waits::stop_log();
//! println!("{} waits took 5 ms and more", waits::take_log().waits.len());
//! ```
//!
//! This crate does not depend on the program `evenkeel`. The crate allocates nothing after the start.

/// Compiles and runs the code of the guide as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rt.md")]
struct Guide;

/// Compiles and runs the code of the tutorial as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorials/fifty-hertz-server.md")]
struct Tutorial;

/// Compiles and runs the code of README.md as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "agones")]
pub mod agones;
mod guard;
mod helper_thread;
pub mod jobs;
mod margin;
pub mod memory;
#[cfg(all(test, not(target_os = "linux")))]
mod other_systems;
mod phases;
mod preempt;
mod quantum;
pub mod rate;
mod schedule;
pub mod scope;
mod slices;
pub mod telemetry;
mod thread;
mod tick;
mod tick_loop;
pub mod udp;

pub use evenkeel_stats::Summary;
pub use evenkeel_sys::clock::monotonic_ns;
pub use evenkeel_sys::lock::waits;
pub use evenkeel_sys::lock::{
    Event, InheritMutex, InheritMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub use evenkeel_sys::{CpuSet, Errno};
pub use phases::{PhaseError, PhaseReport, PhaseSettings, PhaseState};
pub use quantum::{Align, Aligned, Alignment, GapsSeen, Quantum, Slot};
pub use schedule::Overrun;
pub use slices::{CpuSlice, Slices};
pub use thread::{ApplyStatus, ThreadConfig, ThreadReport, TickThread};
pub use tick::{Done, Report, Spinning, Tick, TickClock, TickError, TickSettings};
pub use tick_loop::{SetupReport, TickGuard, TickLoop, TickLoopBuilder, TickLoopError};
