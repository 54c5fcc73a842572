//! A host as files: everything evenkeel reads of a host or writes to it goes through here.
//!
//! [`Root`] reads, from one of three sources behind one type: the live machine, a mounted root such as `/host`, or a
//! captured machine held in memory. It remembers every look, refusals included, so that a capture is no more than
//! "probe, then print what was seen". [`HostWriter`] writes, and can be had only from a live or a captured root.
//!
//! What takes unsafe code to ask (ioctls, mappings) is in `evenkeel-sys`, behind safe functions.
#![forbid(unsafe_code)]

pub mod asleep;
mod capture;
pub mod cgroup;
pub mod characters;
mod draft;
mod entry;
mod ethtool;
mod fake_kernel;
mod image;
mod inside;
mod kernel_config;
mod kernel_log;
mod look;
mod metadata;
mod mounted;
mod package;
mod pseudo;
mod refusal;
mod root;
pub mod scratch;
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
