//! Many servers: where to put them, on which machines, for how much, and how their hosts differ. Reads and computes; neither prints nor changes a host.

pub mod agones;
pub mod audit;
pub mod capacity;
mod cpu_load;
pub mod credits;
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
