//! The index of a segment: when and where each of its blocks begins.

/// The length of an entry, which has a time, an offset and a checksum.
pub(super) const ENTRY_BYTES: usize = 20;
/// The maximum number of entries to read. With one block per minute, this number is enough for a year.
const ENTRIES_MAX: usize = 525_600;

/// A block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// When the first sample of the block was taken, in nanoseconds since 1970 UTC.
    pub(super) realtime_ns: u64,
    /// The offset of the first frame of the block.
    pub(super) at: u64,
}

impl Block {
    pub(super) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.realtime_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..16]);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// Parses the entries of an index. An incomplete last entry is left out.
/// `None` if an entry is damaged, or if the entries are not sorted. The caller must then search the segment.
pub(super) fn parse_index(bytes: &[u8]) -> Option<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    for entry in bytes.chunks_exact(ENTRY_BYTES).take(ENTRIES_MAX) {
        let word = |at: usize| entry.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let sum = u32::from_le_bytes(entry.get(16..20)?.try_into().ok()?);
        if sum != crc32fast::hash(&entry[..16]) {
            return None;
        }
        let block = Block { realtime_ns: word(0)?, at: word(8)? };
        if blocks.last().is_some_and(|last| last.at >= block.at) {
            return None;
        }
        blocks.push(block);
    }
    Some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_entry_is_left_out_and_a_damaged_one_refuses_all() {
        let blocks = [Block { realtime_ns: 9, at: 16 }, Block { realtime_ns: 5, at: 99 }];
        let bytes: Vec<u8> = blocks.iter().flat_map(|block| block.to_bytes()).collect();
        assert_eq!(parse_index(&bytes), Some(blocks.to_vec()));
        assert_eq!(parse_index(&bytes[..ENTRY_BYTES + 7]), Some(blocks[..1].to_vec()));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(parse_index(&changed), None, "byte {at}");
        }
        assert_eq!(parse_index(&[bytes[ENTRY_BYTES..].to_vec(), bytes].concat()), None);
    }
}
