//! The page on which a server reports its ticks, one small file per session: its layout ([`layout`]), its writer, and its reader.
//! The reader trusts neither the file nor the writer.
//! The server library writes the page and the program reads it. Both use this crate, so the page is in this crate.

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
pub use snapshot::{Faults, LastTick, Odd, PageHistogram, PageSlices, PageWaits, Snapshot};
pub use writer::{Counters, LONG_WAIT_OF_PERIOD, NAME_BYTES_MAX, PageWriter, TickEntry};
