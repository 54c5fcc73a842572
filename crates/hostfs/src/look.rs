//! Limits that the readings of all roots share: which paths are valid, and how much is read.

use std::io::Read;

use evenkeel_sys::Errno;

/// The maximum size of one reading, in bytes.
/// Files under /proc and /sys that evenkeel reads are far smaller, even with 4,096 CPUs.
/// A longer reading is refused with `EFBIG` instead of being held in memory.
pub const MAX_LOOK_BYTES: usize = 4 << 20;

/// Reads at most [`MAX_LOOK_BYTES`] of an open file.
pub(crate) fn read_text(file: std::fs::File) -> Result<String, Errno> {
    let mut bytes = Vec::new();
    file.take(MAX_LOOK_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| Errno::from(&error))?;
    if bytes.len() > MAX_LOOK_BYTES {
        return Err(Errno::FBIG);
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Paths must be absolute: a relative path would depend on where the program was started.
pub(crate) fn absolute(path: &str) -> Result<&str, Errno> {
    if path.starts_with('/') && !path.contains('\0') { Ok(path) } else { Err(Errno::INVAL) }
}
