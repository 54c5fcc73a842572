//! The page on which a server tells what its ticks are doing, one small file a session: what stands where ([`layout`]), who writes it, and
//! how it is read by somebody who trusts neither the file nor its writer. It is here, below both, since the library for servers writes it
//! and the program reads it.

pub mod layout;
mod owner;
mod prometheus;
mod reader;
pub mod sequence;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

pub use layout::{Count, HISTOGRAMS, PAGE_BYTES};
pub use owner::{Owner, State, parse_boot, parse_start};
pub use prometheus::prometheus;
pub use reader::{PageError, Session, TelemetryReader, folders, sessions};
pub use snapshot::{Faults, LastTick, Odd, PageHistogram, PageSlices, Snapshot};
pub use writer::{Counters, NAME_BYTES_MAX, PageWriter, TickEntry};
