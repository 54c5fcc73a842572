//! `Packer` and `Packed`: the records of a window, compressed if the window requests it.
//! Compressed switch records take an eighth of the memory.

use std::borrow::Cow;
use std::fmt;
use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Compresses the records of each read separately.
pub(super) struct Packer {
    stream: Compress,
    /// One buffer for all reads.
    /// If each read had a new buffer that is shrunk later, each buffer would leave a hole in the heap.
    /// Compression would then save no memory.
    scratch: Vec<u8>,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    pub(super) fn new() -> Packer {
        Packer { stream: Compress::new(Compression::fast(), false), scratch: Vec::new() }
    }
}

/// The records of one read.
#[derive(Debug)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    /// The length of the records before compression. None if they are not compressed.
    unpacked_bytes: Option<usize>,
}

impl Packed {
    /// Compresses the records. Stores them unchanged without a packer, or if compression does not make them smaller.
    pub(super) fn new(records: &[u8], packer: Option<&mut Packer>) -> Packed {
        if let Some(Packer { stream, scratch }) = packer {
            stream.reset();
            scratch.clear();
            scratch.reserve(records.len());
            // The buffer is as large as the input. If the compressed form does not fit, it is not used.
            let ended = stream.compress_vec(records, scratch, FlushCompress::Finish);
            if matches!(ended, Ok(Status::StreamEnd)) {
                return Packed { bytes: scratch.as_slice().into(), unpacked_bytes: Some(records.len()) };
            }
        }
        Packed { bytes: records.to_vec(), unpacked_bytes: None }
    }

    /// The memory that these records take, in bytes.
    pub(super) fn room_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn records(&self) -> io::Result<Cow<'_, [u8]>> {
        let Some(length) = self.unpacked_bytes else { return Ok(Cow::Borrowed(&self.bytes)) };
        // Reserve one byte more, so that the decoder can detect the end.
        let mut records = Vec::with_capacity(length.saturating_add(1));
        Decompress::new(false).decompress_vec(&self.bytes, &mut records, FlushDecompress::Finish)?;
        match records.len() == length {
            true => Ok(Cow::Owned(records)),
            false => Err(io::Error::other("the records of a read are damaged")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_and_repeated_records_take_less_room() {
        let switches: Vec<u8> = (0..2_000_u64)
            .flat_map(|at| [14, 7 + at % 3, at.wrapping_mul(977_131), 1].map(u64::to_ne_bytes))
            .flatten()
            .collect();
        let noise: Vec<u8> = (1..5_000_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        let mut packer = Packer::new();
        for records in [&switches, &noise, &Vec::new(), &switches] {
            let packed = Packed::new(records, Some(&mut packer));
            assert_eq!(packed.records().unwrap(), records.as_slice());
            assert!(packed.room_bytes() <= records.len() + 8, "{} of {}", packed.room_bytes(), records.len());
            assert_eq!(Packed::new(records, None).records().unwrap(), records.as_slice());
        }
        let packed = Packed::new(&switches, Some(&mut packer));
        assert!(packed.room_bytes() * 3 < switches.len(), "{} of {}", packed.room_bytes(), switches.len());
        let damaged = Packed { bytes: packed.bytes[..100].to_vec(), ..packed };
        assert!(damaged.records().is_err());
    }
}
