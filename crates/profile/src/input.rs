//! Recordings out of files, whatever wrote them: what a file is, is told by what it begins with.

use crate::perf::bytes::Malformed;
use crate::perf::file::PerfFile;
use crate::recording::Recording;
use crate::text::{self, BadLine};
use crate::unwind::Unwind;

/// Why a recording could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is no recording that is known here.
    #[error("{0}")]
    NotKnown(&'static str),
    /// It is a `perf.data` file, and something is wrong with it.
    #[error(transparent)]
    Data(#[from] Malformed),
    /// It is text, and not that of `perf script`.
    #[error(transparent)]
    Text(#[from] BadLine),
}

/// What files begin with that are often tried, and what to do about them.
const OTHERS: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "it is compressed with gzip: decompress it first"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd: decompress it first"),
    (b"\xfd7zXZ\0", "it is compressed with xz: decompress it first"),
    (b"PERFFILE", "it was written by perf of before 2014, in a form that is not read here"),
    (b"\x7fELF", "it is a program, and no recording"),
];

/// Reads a recording: a `perf.data` file, of disk or of a pipe, or what `perf script` printed. Where samples carry pieces of the user's stack,
/// `unwind` follows them.
///
/// # Errors
/// If it is neither, or is damaged, with the place.
pub fn read(bytes: &[u8], unwind: &mut dyn Unwind) -> Result<Recording, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::NotKnown("it is empty"));
    }
    if bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP") {
        return Ok(PerfFile::parse(bytes)?.recording(unwind)?);
    }
    if let Some((_, what)) = OTHERS.iter().find(|(beginning, _)| bytes.starts_with(beginning)) {
        return Err(ReadError::NotKnown(what));
    }
    if bytes.iter().take(4096).any(|byte| *byte == 0) {
        return Err(ReadError::NotKnown("it is neither a perf.data file nor text that perf script printed"));
    }
    Ok(text::parse(bytes)?)
}
