//! `Source`: an untrusted file, read in pieces.
//! The file is never mapped into memory, because the kernel would kill this program if another process truncated the file.
//! The number of bytes to read is limited, whatever lengths the file claims.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use object::read::ReadCache;

/// The maximum length of a file that is read.
const FILE_MAX_BYTES: u64 = 8 << 30;

/// Why a file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Odd(pub(crate) String);

impl From<addr2line::gimli::Error> for Odd {
    fn from(error: addr2line::gimli::Error) -> Odd {
        Odd(error.to_string())
    }
}

impl From<object::Error> for Odd {
    fn from(error: object::Error) -> Odd {
        Odd(error.to_string())
    }
}

/// Reads at most a limited number of bytes of a file.
#[derive(Debug)]
pub(crate) struct Bounded {
    file: File,
    left_bytes: u64,
}

impl Read for Bounded {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(to)?;
        self.left_bytes = self.left_bytes.checked_sub(read as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(read)
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// A file whose parts are read on demand and cached.
pub(crate) type Source = ReadCache<Bounded>;

/// Wraps an open file, with a limit on the bytes to read.
///
/// # Errors
/// If the file is longer than the maximum.
pub(crate) fn source(file: File) -> Result<Source, Odd> {
    let length = file.metadata().map_err(|error| Odd(error.to_string()))?.len();
    if length > FILE_MAX_BYTES {
        return Err(Odd(format!("it has {length} bytes; no more than {FILE_MAX_BYTES} are read")));
    }
    // Sections of a valid file do not overlap. The limit allows one read of each section, and a second read of the names.
    Ok(ReadCache::new(Bounded { file, left_bytes: length.saturating_mul(2).saturating_add(1 << 20) }))
}
