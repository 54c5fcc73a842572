//! `Walk`: iterates over the records of a file. Some records are followed by data that is not a record.

use super::bytes::{Cursor, Malformed};
use super::record::{HEAD_BYTES, Head, kind};

/// A record in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// The position of the record from the beginning of the file.
    pub(super) offset: u64,
    /// The record's header.
    pub(super) head: Head,
    /// The whole record, including the header.
    pub(super) whole: &'a [u8],
    /// The record, and the bytes after it that belong to the record but are not a record themselves.
    pub(super) with_what_follows: &'a [u8],
}

impl<'a> Piece<'a> {
    /// The part after the header.
    pub(super) fn body(&self) -> Cursor<'a> {
        Cursor::new(self.whole.get(HEAD_BYTES..).unwrap_or_default(), self.offset.saturating_add(HEAD_BYTES as u64))
    }
}

/// A walk over records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a> {
    at: Cursor<'a>,
    is_cut_off: bool,
}

impl<'a> Walk<'a> {
    /// Iterates over the rest of `at`.
    pub(super) fn over(at: Cursor<'a>) -> Walk<'a> {
        Walk { at, is_cut_off: false }
    }

    /// Whether the walk ended because the last record is incomplete, and not because a record is invalid.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// The next record. None at the end.
    ///
    /// # Errors
    /// If the next record is incomplete or invalid. The walk then ends, because the position of the following record is unknown.
    pub(super) fn next(&mut self) -> Result<Option<Piece<'a>>, Malformed> {
        let left = self.at.left();
        if left == 0 {
            return Ok(None);
        }
        let offset = self.at.offset();
        if left < HEAD_BYTES {
            return Err(self.cut_off(HEAD_BYTES, left, offset));
        }
        let head = Head::parse(self.at.ahead(HEAD_BYTES), offset)?;
        if left < head.length {
            return Err(self.cut_off(head.length, left, offset));
        }
        let piece = Piece { offset, head, whole: self.at.ahead(head.length), with_what_follows: &[] };
        let length = head.length.saturating_add(behind(&piece)?);
        if left < length {
            return Err(self.cut_off(length, left, offset));
        }
        Ok(Some(Piece { with_what_follows: self.at.take(length)?, ..piece }))
    }

    fn cut_off(&mut self, length: usize, left: usize, offset: u64) -> Malformed {
        self.is_cut_off = true;
        Malformed { what: format!("a record of {length} bytes is cut off after {left}"), offset }
    }
}

/// How many of the bytes after a record belong to that record.
fn behind(piece: &Piece<'_>) -> Result<usize, Malformed> {
    let mut at = piece.body();
    let length = match piece.head.kind {
        kind::AUXTRACE => at.u64()?,
        // The length is padded to whole words.
        kind::HEADER_TRACING_DATA => u64::from(at.u32()?).next_multiple_of(8),
        _ => 0,
    };
    usize::try_from(length).map_err(|_| at.malformed(format!("a record announces {length} bytes behind it")))
}
