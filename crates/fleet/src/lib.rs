//! Many servers: where to place them, on which machines, at which cost, and how their hosts differ.
//! This crate reads and computes. It never prints or changes a host.

pub mod agones;
pub mod audit;
pub mod capacity;
mod cpu_load;
pub mod credits;
pub mod host_numbers;
pub mod instances;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod pack;
mod records;
pub mod regions;
mod sessions;
pub mod switchback;
mod system;

pub use records::{TableError, TableFault};
pub use sessions::{Session, read_sessions};
