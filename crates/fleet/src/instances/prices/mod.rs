//! Prices of instance types, from files of the clouds: read in one pass, in memory that the catalogue bounds, whatever the size of the file.

mod amazon;
mod azure;
mod book;
mod csv;
mod google;
mod json;

use std::io::{BufRead, BufReader, Read};

use crate::records::BYTE_ORDER_MARK;
pub use book::{Price, PriceBook, PriceError, PriceFile, PricesWanted};

impl PriceBook {
    /// Adds the prices of a file: Amazon's price list (JSON or CSV) or spot price history, Azure's retail prices, Google's SKUs,
    /// or CSV with the columns `instance_type` and `usd_per_hour`, and optionally `region`.
    ///
    /// A file without a wanted price is no error, because a page of a long list may have none. See [`PriceBook::refuse_empty`].
    ///
    /// # Errors
    /// If the file can't be read, or has another format.
    pub fn add(&mut self, name: &str, source: impl Read) -> Result<(), PriceError> {
        self.begin(name);
        let mut source = BufReader::with_capacity(1 << 16, source);
        if source.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
            source.consume(BYTE_ORDER_MARK.len());
        }
        let first = loop {
            let piece = source.fill_buf()?;
            let blank = piece.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            match piece.get(blank) {
                Some(byte) => break Some(*byte),
                None if piece.is_empty() => break None,
                None => source.consume(blank),
            }
        };
        match first {
            Some(b'{' | b'[') => json::read(source, self)?,
            _ => csv::read(source, self)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
