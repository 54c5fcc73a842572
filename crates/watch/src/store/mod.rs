//! The store: samples on disk, as compressed and checksummed files that only grow. [`StoreWriter`] appends, [`Replay`] reads.
//!
//! A folder holds segments, `DAY-NUMBER.watch`, and next to each an index of its blocks, `DAY-NUMBER.index`. A segment is a sequence of
//! frames. A frame has a head with its own checksum, then one sample, compressed. The samples of a block share one stream of compression,
//! because a sample is nearly equal to the one before it. Each frame is written by one call and can be read as soon as it is written.
//!
//! A writer that is killed, or finds the disk full, leaves at most one torn frame. Readers search for the next head after the torn frame,
//! and writers continue behind it with a new block. So a torn frame loses only itself, and a damaged one the rest of its block, at most a
//! minute. The index only saves time: without it, or if it is wrong, the segment is searched.

mod compress;
mod error;
mod frame;
mod index;
mod names;
mod replay;
mod segment;
mod writer;

pub use compress::encode_alone;
pub use error::StoreError;
pub use frame::segment_head;
pub use names::{SegmentName, day_of};
pub use replay::{Position, Replay};
pub use segment::{Damage, Parsed, parse_segment};
pub(crate) use writer::own_folder;
pub use writer::{StoreOptions, StoreWriter};
