//! The state on disk. Each write replaces the whole file, syncs it and renames it, so a power cut leaves either the old or the new state.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use evenkeel_hostfs::user_file;

use super::state::{BYTES_MAX, BootsState, InvalidBoots, parse};

/// Why a state can't be stored or read. The message continues a sentence that begins with "failed to".
#[derive(Debug, thiserror::Error)]
pub enum BootsFileError {
    /// The kernel refused an access to the file.
    #[error("{doing} {path}: {why}")]
    Io {
        /// What evenkeel tried to do.
        doing: &'static str,
        /// The path of the file.
        path: String,
        /// The error of the kernel.
        why: std::io::Error,
    },
    /// Another user could have written the file.
    #[error("trust the trial over boots in {path}: {why}")]
    Unsafe {
        /// The path of the file.
        path: String,
        /// Why the file is not trusted.
        why: String,
    },
    /// The file's content is invalid.
    #[error("read the trial over boots in {path}: {why}")]
    Damaged {
        /// The path of the file.
        path: String,
        /// What is invalid.
        why: InvalidBoots,
    },
}

/// Reads the state file. None if it does not exist. The file contains commands that root runs, so its owner must be root or this user.
///
/// # Errors
/// Fails if the file can't be read, if other users can write to it, or if its content is invalid.
pub fn read(path: &Path) -> Result<Option<BootsState>, BootsFileError> {
    let named = || path.display().to_string();
    let io = |doing, why| BootsFileError::Io { doing, path: named(), why };
    let seen = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        seen => seen.map_err(|why| io("look at", why))?,
    };
    // The owner of `/proc/self` is the user that this process runs as.
    let owner = std::fs::metadata("/proc/self").map_err(|why| io("look at", why))?.uid();
    let why = if !seen.is_file() {
        Some("it is not a plain file".to_owned())
    } else if seen.uid() != 0 && seen.uid() != owner {
        Some(format!("it belongs to user {}", seen.uid()))
    } else if seen.mode() & 0o022 != 0 {
        Some("others may write to it".to_owned())
    } else {
        None
    };
    if let Some(why) = why {
        return Err(BootsFileError::Unsafe { path: named(), why });
    }
    let bytes = user_file::read(path, BYTES_MAX).map_err(|error| io("read", error.into()))?;
    parse(&bytes).map(Some).map_err(|why| BootsFileError::Damaged { path: named(), why })
}

/// Replaces the state file. The new content is on disk when this function returns.
///
/// # Errors
/// Fails if the file can't be written. The earlier file then remains.
pub fn write(path: &Path, state: &BootsState) -> Result<(), BootsFileError> {
    let io = |doing, why| BootsFileError::Io { doing, path: path.display().to_string(), why };
    let text = state.text().map_err(|why| BootsFileError::Damaged { path: path.display().to_string(), why })?;
    let new = path.with_extension("new");
    // A killed evenkeel may have left this file. Remove and create it, so that a link at its path is not followed.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io("remove the old temporary file of", error));
        }
        _ => {}
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&new, path))
        .and_then(|()| File::open(path.parent().unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()))
        .map_err(|why| io("keep the trial over boots in", why))
}
