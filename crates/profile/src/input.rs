//! Reads recordings of any supported format. A file's first bytes show its format.

use crate::perf::bytes::Malformed;
use crate::perf::file::PerfFile;
use crate::recording::Recording;
use crate::text::{self, BadLine};
use crate::unwind::Unwind;

/// Why a recording could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is not a known recording format.
    #[error("{0}")]
    NotKnown(&'static str),
    /// The `perf.data` file is invalid.
    #[error(transparent)]
    Data(#[from] Malformed),
    /// The text is not from `perf script`.
    #[error(transparent)]
    Text(#[from] BadLine),
}

/// The first bytes of files that users often try, with advice for each.
const OTHERS: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "it is compressed with gzip: decompress it first"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd: decompress it first"),
    (b"\xfd7zXZ\0", "it is compressed with xz: decompress it first"),
    (b"PERFFILE", "it was written by a perf from before 2014, whose format evenkeel does not read"),
    (b"\x7fELF", "it is a program, not a recording"),
];

/// Checks by the first bytes of a file whether it may be a recording.
///
/// # Errors
/// If the file cannot be a recording.
pub fn check_head(head: &[u8]) -> Result<(), ReadError> {
    if head.is_empty() {
        return Err(ReadError::NotKnown("it is empty"));
    }
    if is_perf_data(head) {
        return Ok(());
    }
    if let Some((_, what)) = OTHERS.iter().find(|(beginning, _)| head.starts_with(beginning)) {
        return Err(ReadError::NotKnown(what));
    }
    if head.iter().take(4096).any(|byte| *byte == 0) {
        return Err(ReadError::NotKnown("it is neither a perf.data file nor the output of perf script"));
    }
    Ok(())
}

fn is_perf_data(head: &[u8]) -> bool {
    head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP")
}

/// Reads a recording: a `perf.data` file, written to disk or to a pipe, or the output of `perf script`.
/// If samples contain parts of the user's stack, `unwind` unwinds them.
///
/// # Errors
/// If the file has none of these formats, or is damaged. The error has the position.
pub fn read(bytes: &[u8], unwind: &mut dyn Unwind) -> Result<Recording, ReadError> {
    check_head(bytes)?;
    match is_perf_data(bytes) {
        true => Ok(PerfFile::parse(bytes)?.recording(unwind)?),
        false => Ok(text::parse(bytes)?),
    }
}
