//! The files of a host: evenkeel reads and writes a host only through this crate.
//!
//! [`Root`] reads from one of three sources: the live machine, a mounted root such as `/host`, or a captured machine in memory.
//! A root records every reading, including refusals, so a capture is the printed record of a probe.
//! [`HostWriter`] writes. Only live and captured roots have a writer.
//!
//! Requests that need unsafe code (ioctls, mappings) are in `evenkeel-sys`, behind safe functions.
#![forbid(unsafe_code)]

mod capture;
pub mod cgroup;
pub mod characters;
mod draft;
mod entry;
mod ethtool;
mod fake_kernel;
mod image;
mod inside;
pub mod json_words;
mod kernel_config;
mod kernel_log;
mod look;
mod metadata;
mod mounted;
mod package;
pub mod proc;
mod pseudo;
mod refusal;
mod root;
pub mod scratch;
pub mod sleep_deadline;
pub mod timer_files;
mod tree;
pub mod user_file;
mod writer;

pub use capture::{Capture, CaptureError, LoadError, MAX_CAPTURE_BYTES};
pub use entry::Entry;
pub use image::Image;
pub use look::MAX_LOOK_BYTES;
pub use refusal::{Refusal, Why};
pub use root::{Root, RootError, RootKind};
pub use tree::{MAX_FILE_BYTES, Tree, TreeError};
pub use writer::{HeldLatency, HostWriter, ReadOnlyHost, WriteError};
