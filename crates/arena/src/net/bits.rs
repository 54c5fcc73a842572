//! Numbers of few bits, packed one after the other into a datagram. The first bit is the lowest of the first byte.

use crate::net::error::WireError;

/// Appends bits to bytes.
#[derive(Debug)]
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    /// A writer that begins after the existing bytes.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, held: 0, count: 0 }
    }

    /// Appends the lowest `bits` of `value`; at most 32.
    pub fn put(&mut self, value: u32, bits: u32) {
        let bits = bits.min(32);
        let value = u64::from(value) & ((1 << bits) - 1);
        self.held |= value << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.out.push(self.held as u8);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// Appends one bit.
    pub fn flag(&mut self, flag: bool) {
        self.put(flag.into(), 1);
    }

    /// Appends the lowest `bits` of a number that may be negative.
    pub fn signed(&mut self, value: i32, bits: u32) {
        self.put(value as u32, bits);
    }

    /// Fills the last byte with zeros.
    pub fn end(self) {
        if self.count > 0 {
            self.out.push(self.held as u8);
        }
    }
}

/// Reads bits from bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    /// A reader that begins at the first bit of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads a number of `bits`; at most 32.
    ///
    /// # Errors
    /// If fewer bits are left.
    pub fn get(&mut self, bits: u32) -> Result<u32, WireError> {
        let bits = bits.min(32);
        let (first, shift) = (self.at / 8, self.at % 8);
        self.at += bits as usize;
        if self.at > self.bytes.len() * 8 {
            return Err(WireError::Length);
        }
        let mut held = 0_u64;
        for (index, byte) in self.bytes[first..].iter().take(5).enumerate() {
            held |= u64::from(*byte) << (8 * index);
        }
        Ok((held >> shift & ((1 << bits) - 1)) as u32)
    }

    /// Reads one bit.
    ///
    /// # Errors
    /// If no bit is left.
    pub fn flag(&mut self) -> Result<bool, WireError> {
        self.get(1).map(|bit| bit == 1)
    }

    /// Reads a number of `bits` that may be negative.
    ///
    /// # Errors
    /// If fewer bits are left.
    pub fn signed(&mut self, bits: u32) -> Result<i32, WireError> {
        let unused = 32 - bits.clamp(1, 32);
        self.get(bits).map(|value| (value << unused) as i32 >> unused)
    }

    /// Checks that only the zeros that fill the last byte are left.
    ///
    /// # Errors
    /// If there is more.
    pub fn end(mut self) -> Result<(), WireError> {
        let left = (self.bytes.len() * 8).saturating_sub(self.at);
        if left >= 8 {
            return Err(WireError::Length);
        }
        if self.get(left as u32)? == 0 { Ok(()) } else { Err(WireError::Range) }
    }
}

/// Whether a number, with its sign, fits into this many bits.
pub fn fits(value: i32, bits: u32) -> bool {
    let half = 1_i32 << (bits.clamp(1, 31) - 1);
    (-half..half).contains(&value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_numbers_are_read_back(numbers in prop::collection::vec((any::<u32>(), 0u32..=32, any::<bool>()), 0..60)) {
            let mut bytes = vec![7];
            let mut writer = BitWriter::new(&mut bytes);
            for (value, bits, signed) in &numbers {
                if *signed { writer.signed(*value as i32, *bits) } else { writer.put(*value, *bits) }
            }
            writer.end();
            let total: u32 = numbers.iter().map(|(_, bits, _)| bits).sum();
            prop_assert_eq!(bytes.len(), 1 + total.div_ceil(8) as usize, "no bit more");
            let mut reader = BitReader::new(&bytes[1..]);
            for (value, bits, signed) in &numbers {
                let mask = ((1_u64 << bits) - 1) as u32;
                if *signed {
                    let got = reader.signed(*bits).unwrap();
                    prop_assert_eq!(got as u32 & mask, value & mask);
                    prop_assert!(*bits == 0 || *bits == 32 || fits(got, *bits));
                } else {
                    prop_assert_eq!(reader.get(*bits), Ok(value & mask));
                }
            }
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn reading_past_the_end_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..8), reads in prop::collection::vec(0u32..40, 0..20)) {
            let mut reader = BitReader::new(&bytes);
            let mut left = bytes.len() as u32 * 8;
            for bits in reads {
                let wanted = bits.min(32);
                let got = reader.get(bits);
                prop_assert_eq!(got.is_ok(), wanted <= left);
                if got.is_err() { break; }
                left -= wanted;
            }
        }
    }
}
