//! `Cursor` parses untrusted bytes from the front. If bytes are missing, it returns an error with the position.

/// An error in untrusted bytes, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at byte {offset}")]
pub struct Malformed {
    /// The error.
    pub what: String,
    /// The place of the error, in bytes from the beginning of the file.
    pub offset: u64,
}

/// A position in bytes that are being parsed.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    offset: u64,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of `bytes`. `offset` is the offset of `bytes` in the file.
    pub fn new(bytes: &'a [u8], offset: u64) -> Cursor<'a> {
        Cursor { bytes, at: 0, offset }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The position, in bytes from the beginning of the file.
    pub fn offset(&self) -> u64 {
        self.offset.saturating_add(self.at as u64)
    }

    /// An error at this position.
    pub fn malformed(&self, what: impl Into<String>) -> Malformed {
        Malformed { what: what.into(), offset: self.offset() }
    }

    /// Takes the next `length` bytes.
    ///
    /// # Errors
    /// If fewer bytes are left.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let rest = &self.bytes[self.at..];
        let taken = rest
            .get(..length)
            .ok_or_else(|| self.malformed(format!("{length} bytes are needed, and {} are left", rest.len())))?;
        self.at += length;
        Ok(taken)
    }

    /// The next bytes, or the remaining bytes if there are fewer. The position does not move.
    pub fn ahead(&self, length: usize) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        &rest[..length.min(rest.len())]
    }

    /// The next two bytes, as a number of this machine's byte order.
    ///
    /// # Errors
    /// If fewer bytes are left.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_ne_bytes)
    }

    /// The next four bytes, as a number of this machine's byte order.
    ///
    /// # Errors
    /// If fewer bytes are left.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    /// The next eight bytes, as a number of this machine's byte order.
    ///
    /// # Errors
    /// If fewer bytes are left.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Takes `count` words of eight bytes. The count is untrusted.
    ///
    /// # Errors
    /// If fewer words are left.
    pub fn words(&mut self, count: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(8));
        let length = length.filter(|length| *length <= self.left());
        self.take(length.ok_or_else(|| {
            self.malformed(format!("{count} words are announced, but {} bytes are left", self.left()))
        })?)
    }

    /// Text up to a zero byte, or up to the end of the bytes.
    pub fn text(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| self.malformed("a number is cut off"))
    }
}
