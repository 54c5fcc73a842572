//! Manifests for Agones, from the need of a session.
//! The requests of the `Fleet` make the scheduler of Kubernetes place sessions as `pack` would.
//! The `FleetAutoscaler` has a buffer for the time that a new node takes.
//!
//! `size` computes requests, `buffer` the autoscaler's buffer,
//! `render` makes the objects and says why each number is what it is, and `yaml` writes them.
//! This module contacts no cluster, so the program without the Kubernetes client has it too.

mod buffer;
mod measured;
mod names;
mod objects;
mod render;
mod size;
#[cfg(test)]
mod tests;
mod yaml;

pub use self::buffer::{Buffer, BufferAdvice, BufferError, Demand, Input};
pub use self::measured::{CAPACITY_BYTES_MAX, Measured, MeasuredError, read_measured};
pub use self::names::{DnsLabel, Image, NameError, NodeLabel, Protocol, ServerPort};
pub use self::objects::{Fleet, FleetAutoscaler, Scheduling};
pub use self::render::{Asked, PHASES_FOLDER, RenderError, Rendered, SESSIONS_LABEL, render};
pub use self::size::{CpuMode, CpusBy, NodeRoom, Size, SizeError};
