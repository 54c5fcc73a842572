//! Servers under load, measured window by window, and the sources of their values.
//!
//! A [`Workload`] is a server with load: a server of evenkeel, a preset of a real server, or any command.
//! [`ALL`] lists the workloads that have a name. Each workload yields one [`Sample`] per window.
//! The numbers come from the load ([`load`]) or from a [`source`]:
//! the server's output, its metrics endpoint, or its tick as the kernel sees it from outside.

mod caveat;
mod clock;
mod entry;
mod error;
pub mod helper;
mod kit;
pub mod load;
mod metric;
mod placement;
pub mod process_knob;
mod processes;
mod settable;
mod sockets;
pub mod source;
mod unclear_tick;
mod workload;
mod workloads;

pub use caveat::WorkloadCaveat;
pub use clock::{Clock, Disturbance, SimulatedMachine};
pub use entry::{Entry, Options};
pub use error::{InvalidSetting, WorkloadError};
pub use kit::place::PLACEMENT;
pub use metric::Metric;
pub use placement::Placement;
pub use settable::Settable;
pub use unclear_tick::UnclearTick;
pub use workload::{SETTING_PREFIX, Sample, Workload};
pub use workloads::{ALL, arena, command, find};
