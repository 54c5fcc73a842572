//! Parses the records of perf_event_open(2), and reads and writes `perf.data` files.

pub mod bytes;
mod compressed;
mod features;
pub mod file;
pub mod kind;
pub mod layout;
pub mod record;
mod walk;
pub mod write;
