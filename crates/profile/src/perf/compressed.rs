//! Records that `perf record -z` compressed with zstd.
//! The compressed bytes of all these records are one stream. An inner record may begin in one outer record and end in the next.
//! perf flushes the stream and never ends it, so its last frame has no last block.

use std::io::Read as _;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::bytes::{Cursor, Malformed};
use super::features::Compression;
use super::record::{HEAD_BYTES, Head, kind};
use super::walk::{Piece, Walk};

/// The maximum number of bytes that are unpacked from one file.
const UNPACKED_MAX_BYTES: u64 = 4 << 30;
/// The maximum ratio of unpacked to packed size. The contents of records vary, so real files have a smaller ratio.
const PACKED_MAX_TIMES: u64 = 256;
/// This many bytes are allowed in addition, because a file with few records may exceed the maximum ratio.
const UNPACKED_FREE_BYTES: u64 = 1 << 20;
/// The number of bytes that are unpacked at once.
const STEP_BYTES: usize = 1 << 20;
/// The missing end of an unfinished frame: an empty last block, and a checksum, which is not compared.
const END: &[u8] = &[1, 0, 0, 0, 0, 0, 0];

/// All records of a file with compressed records: first the records that were not compressed, then the decompressed records.
#[derive(Debug)]
pub(super) struct Unpacked {
    /// The records, one after the other.
    pub(super) bytes: Vec<u8>,
    /// The reason why records at the end are missing, if any are missing.
    pub(super) caveat: Option<String>,
}

/// Whether a record contains compressed records.
pub(super) fn is_packed(head: Head) -> bool {
    matches!(head.kind, kind::COMPRESSED | kind::COMPRESSED2)
}

/// Whether any of these records is compressed. Reads only the headers of the records.
pub(super) fn has_packed(data: Cursor<'_>) -> bool {
    let mut walk = Walk::over(data);
    while let Ok(Some(piece)) = walk.next() {
        if is_packed(piece.head) {
            return true;
        }
    }
    false
}

/// Decompresses the records of a file. If `may_be_cut_off`, an invalid end is left out.
///
/// # Errors
/// If the records are invalid, or exceed the limit. The error has the position.
pub(super) fn unpacked(
    data: Cursor<'_>,
    method: Option<Compression>,
    may_be_cut_off: bool,
) -> Result<Unpacked, Malformed> {
    let (mut packed, mut bytes) = (Vec::new(), Vec::new());
    let (mut first, mut caveat) = (None, None);
    let mut walk = Walk::over(data);
    loop {
        let piece = match walk.next() {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(malformed) if may_be_cut_off => {
                caveat = Some(malformed.to_string());
                break;
            }
            Err(malformed) => return Err(malformed),
        };
        match payload(&piece)? {
            Some(payload) => {
                first.get_or_insert(piece.offset);
                packed.extend_from_slice(payload);
            }
            None => bytes.extend_from_slice(piece.with_what_follows),
        }
    }
    let offset = first.unwrap_or(data.offset());
    let wrong = |what: String| Malformed { what: format!("its records are compressed, and {what}"), offset };
    if let Some(Compression::Other(number)) = method {
        return Err(wrong(format!("by a method that is not known here (number {number})")));
    }
    let limit_bytes = (packed.len() as u64).saturating_mul(PACKED_MAX_TIMES).saturating_add(UNPACKED_FREE_BYTES);
    let is_cut = unpack(&packed, limit_bytes.min(UNPACKED_MAX_BYTES), &mut bytes).map_err(wrong)?;
    let cut = || "the last of its compressed records is cut off".to_owned();
    Ok(Unpacked { bytes, caveat: caveat.or_else(|| is_cut.then(cut)) })
}

/// The compressed bytes of a record. None if the record is not compressed.
fn payload<'a>(piece: &Piece<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    let mut at = piece.body();
    match piece.head.kind {
        kind::COMPRESSED => at.take(piece.head.length - HEAD_BYTES).map(Some),
        kind::COMPRESSED2 => {
            // The bytes after this length are padding.
            let length = usize::try_from(at.u64()?).unwrap_or(usize::MAX);
            at.take(length).map(Some)
        }
        _ => Ok(None),
    }
}

/// Decompresses a stream. Returns whether its end is cut off.
fn unpack(mut packed: &[u8], limit_bytes: u64, into: &mut Vec<u8>) -> Result<bool, String> {
    let begin = into.len() as u64;
    // Also count the bytes that the decoder still holds back, because a window may be a hundred times the limit.
    let mut steps = 0_u64;
    let mut decoder = FrameDecoder::new();
    while !packed.is_empty() {
        let Some(frame) = Frame::at(packed)? else { return Ok(true) };
        let (whole, rest) = packed.split_at(frame.length);
        let mut source = whole.chain(if frame.is_ended { &[][..] } else { END });
        let odd = |error: &dyn std::fmt::Display| format!("can't be decompressed: {error}");
        decoder.reset(&mut source).map_err(|error| odd(&error))?;
        while !decoder.is_finished() {
            decoder
                .decode_blocks(&mut source, BlockDecodingStrategy::UptoBytes(STEP_BYTES))
                .map_err(|error| odd(&error))?;
            steps += 1;
            let at_least = (steps - u64::from(decoder.is_finished())).saturating_mul(STEP_BYTES as u64);
            if at_least.max(into.len() as u64 - begin + decoder.can_collect() as u64) > limit_bytes {
                return Err(format!("would be more than {limit_bytes} bytes"));
            }
            decoder.collect_to_writer(&mut *into).map_err(|error| odd(&error))?;
        }
        packed = rest;
        if !frame.is_ended {
            return Ok(!packed.is_empty());
        }
    }
    Ok(false)
}

/// The extent of a zstd frame (RFC 8878, 3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    /// The length up to the end of the last complete block, or up to the end of the frame.
    length: usize,
    /// Whether the last block of the frame is present.
    is_ended: bool,
}

impl Frame {
    /// The frame at the beginning of `bytes`. None if even the frame's header is incomplete.
    fn at(bytes: &[u8]) -> Result<Option<Frame>, String> {
        const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
        let Some((magic, _)) = bytes.split_at_checked(MAGIC.len()) else { return Ok(None) };
        if magic != MAGIC {
            return Err("are not a zstd stream".to_owned());
        }
        let Some(descriptor) = bytes.get(MAGIC.len()).copied().map(usize::from) else { return Ok(None) };
        let is_single = descriptor >> 5 & 1;
        let has_checksum = descriptor >> 2 & 1 == 1;
        let size_bytes = [is_single, 2, 4, 8][descriptor >> 6];
        let dictionary_bytes = [0, 1, 2, 4][descriptor & 3];
        let mut length = MAGIC.len() + 1 + (1 - is_single) + dictionary_bytes + size_bytes;
        if bytes.len() < length {
            return Ok(None);
        }
        while let Some([low, middle, high]) = bytes.get(length..).and_then(|rest| rest.first_chunk()) {
            let head = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
            let (is_last, block, size) = (head & 1 == 1, head >> 1 & 3, head >> 3);
            // Block type 1 is a single byte that is repeated.
            let size = if block == 1 { 1 } else { size };
            let checksum_bytes = if is_last && has_checksum { 4 } else { 0 };
            let end = length + 3 + size + checksum_bytes;
            if bytes.len() < end {
                break;
            }
            length = end;
            if is_last {
                return Ok(Some(Frame { length, is_ended: true }));
            }
        }
        Ok(Some(Frame { length, is_ended: false }))
    }
}
