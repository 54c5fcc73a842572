//! What the kernel records (perf_event_open(2)), taken apart: its records, and the files that `perf record` and we write them into.

pub mod bytes;
mod compressed;
mod features;
pub mod file;
pub mod kind;
pub mod layout;
pub mod record;
mod walk;
pub mod write;
