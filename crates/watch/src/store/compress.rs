//! Converts a sample to a frame.

use std::path::Path;

use flate2::{Compress, Compression, FlushCompress};

use super::error::StoreError;
use super::frame::{HEAD_BYTES, Head, SAMPLE_BYTES_MAX};
use crate::sample::Sample;

/// Encodes a sample as a frame that can be read without an earlier frame.
///
/// # Errors
/// If the sample is too large.
pub fn encode_alone(sample: &Sample) -> Result<Vec<u8>, StoreError> {
    let failed = |error: std::io::Error| StoreError::io("encode", Path::new("a sample"))(error);
    let raw = serde_json::to_vec(sample).map_err(|error| failed(error.into()))?;
    let mut frame = vec![0; HEAD_BYTES];
    compress(&mut Compress::new(Compression::fast(), false), &raw, &mut frame).map_err(failed)?;
    let payload = &frame[HEAD_BYTES..];
    if raw.len().max(payload.len()) > SAMPLE_BYTES_MAX {
        return Err(StoreError::TooLarge { bytes: raw.len() });
    }
    let head = Head {
        is_key: true,
        realtime_ns: sample.at.realtime_ns,
        raw_bytes: raw.len(),
        bytes: payload.len(),
        sum: crc32fast::hash(payload),
    };
    frame[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
    Ok(frame)
}

/// Compresses with a flush, so that a reader can decompress all of the data.
pub(super) fn compress(stream: &mut Compress, raw: &[u8], frame: &mut Vec<u8>) -> std::io::Result<()> {
    let begun = stream.total_in();
    loop {
        let taken = usize::try_from(stream.total_in() - begun).unwrap_or(usize::MAX);
        let rest = raw.get(taken..).unwrap_or_default();
        frame.reserve(rest.len() / 2 + 1024);
        stream.compress_vec(rest, frame, FlushCompress::Sync).map_err(std::io::Error::other)?;
        let taken = usize::try_from(stream.total_in() - begun).unwrap_or(usize::MAX);
        // If space is left in the buffer, everything was flushed.
        if taken >= raw.len() && frame.len() < frame.capacity() {
            return Ok(());
        }
    }
}
