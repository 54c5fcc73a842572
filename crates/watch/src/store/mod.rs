//! The store: samples on disk, as compressed and checksummed files that only grow. [`StoreWriter`] appends, [`Replay`] reads.
//!
//! A folder holds segments, `DAY-NUMBER.watch`. Each segment has an index of its blocks, `DAY-NUMBER.index`.
//! A segment is a sequence of frames. A frame has a head with its own checksum, and then one compressed sample.
//! The samples of a block share one stream of compression, because consecutive samples are nearly equal.
//! Each frame is written by one call, and can be read as soon as it is written.
//!
//! A writer that is killed, or that finds the disk full, leaves at most one incomplete frame.
//! Readers search for the next head after the incomplete frame, and writers continue after it with a new block.
//! So an incomplete frame loses only itself. A damaged frame also loses the rest of its block, at most a minute.
//! The index only saves time: if it is missing or wrong, readers search the segment.

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
