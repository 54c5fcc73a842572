//! `Walk`: one record after the other, as they lie in a file. Some are followed by bytes of their own that are no records.

use super::bytes::{Cursor, Malformed};
use super::record::{HEAD_BYTES, Head, kind};

/// A record in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// Where it begins, from the beginning of the file.
    pub(super) offset: u64,
    /// Its head.
    pub(super) head: Head,
    /// The whole record, head included.
    pub(super) whole: &'a [u8],
}

impl<'a> Piece<'a> {
    /// What comes after the head.
    pub(super) fn body(&self) -> Cursor<'a> {
        Cursor::new(self.whole.get(HEAD_BYTES..).unwrap_or_default(), self.offset.saturating_add(HEAD_BYTES as u64))
    }
}

/// A walk over records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a>(Cursor<'a>);

impl<'a> Walk<'a> {
    /// Over all that is left of `at`.
    pub(super) fn over(at: Cursor<'a>) -> Walk<'a> {
        Walk(at)
    }

    /// The next one; none at the end.
    ///
    /// # Errors
    /// If the next is cut off, or can't be. There is no way to go on then: nobody knows where the one after it begins.
    pub(super) fn next(&mut self) -> Result<Option<Piece<'a>>, Malformed> {
        if self.0.left() == 0 {
            return Ok(None);
        }
        let offset = self.0.offset();
        let cut_off = |length: usize, left: usize| Malformed {
            what: format!("a record of {length} bytes is cut off after {left}"),
            offset,
        };
        if self.0.left() < HEAD_BYTES {
            return Err(cut_off(HEAD_BYTES, self.0.left()));
        }
        let mut ahead = self.0;
        let head = Head::parse(ahead.take(HEAD_BYTES)?, offset)?;
        let left = self.0.left();
        let whole = self.0.take(head.length).map_err(|_| cut_off(head.length, left))?;
        let piece = Piece { offset, head, whole };
        let behind = behind(&piece)?;
        self.0.take(behind).map_err(|_| cut_off(head.length.saturating_add(behind), left))?;
        Ok(Some(piece))
    }
}

/// How many bytes follow a record that are no record.
fn behind(piece: &Piece<'_>) -> Result<usize, Malformed> {
    let mut at = piece.body();
    let length = match piece.head.kind {
        kind::AUXTRACE => at.u64()?,
        // It is padded to whole words.
        kind::HEADER_TRACING_DATA => u64::from(at.u32()?).next_multiple_of(8),
        _ => 0,
    };
    usize::try_from(length).map_err(|_| at.malformed(format!("{length} bytes are said to follow a record")))
}
