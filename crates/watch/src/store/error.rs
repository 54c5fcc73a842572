//! The errors of a store.

use std::path::{Path, PathBuf};

use evenkeel_sys::Errno;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The kernel refused to write or create a file or folder.
    #[error("{tried} {}: {}", path.display(), words(error))]
    Io {
        /// The operation, such as `open`.
        tried: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// A file or folder that can't be read.
    #[error("{tried} {}: {}", path.display(), words(error))]
    Read {
        /// The operation, such as `open`.
        tried: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// Another process writes to the store.
    #[error("{} is in use: another evenkeel writes to it", path.display())]
    InUse {
        /// The folder of the store.
        path: PathBuf,
    },
    /// The store has no sample.
    #[error("{} {}", path.display(), if path.is_dir() { "has no sample" } else { "is neither a store nor a dump of the flight recorder" })]
    Empty {
        /// The folder of the store.
        path: PathBuf,
    },
    /// A sample that is too large to be stored.
    #[error("a sample of {bytes} bytes is too large for the store")]
    TooLarge {
        /// The length of the sample in bytes.
        bytes: usize,
    },
    /// A newer version of evenkeel wrote the file.
    #[error("{} has format {format}, and this evenkeel knows {known}", path.display(), known = super::frame::FORMAT)]
    Format {
        /// The file.
        path: PathBuf,
        /// The format number in the file.
        format: u32,
    },
}

/// The kernel's error as evenkeel always prints it: its meaning and its name.
fn words(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => Errno::from(error).to_string(),
        None => error.to_string(),
    }
}

impl StoreError {
    pub(super) fn io(tried: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
        let path = path.to_owned();
        move |error| StoreError::Io { tried, path, error }
    }

    pub(super) fn read(tried: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
        let path = path.to_owned();
        move |error| StoreError::Read { tried, path, error }
    }
}
