//! The bytes of a segment: its head, and the heads of its frames. All numbers are little-endian.

/// The number of the current format.
pub(super) const FORMAT: u32 = 1;
/// The first bytes of a segment.
const MAGIC: [u8; 8] = *b"ekwatch\n";
/// The first bytes of a frame.
pub(super) const FRAME_MAGIC: [u8; 4] = *b"ekwf";

/// The length of a segment's head: magic, format, checksum.
pub(super) const SEGMENT_HEAD_BYTES: usize = 16;
/// The length of a frame's head.
pub(super) const HEAD_BYTES: usize = 32;
/// The maximum length of a sample, before and after compression. A sample of 64 servers on 256 CPUs is shorter than a megabyte.
pub(super) const SAMPLE_BYTES_MAX: usize = 8 << 20;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Whether the frame begins a block. Only the first frame of a block can be read without an earlier frame.
    pub(super) is_key: bool,
    /// When the sample was taken, in nanoseconds since 1970 UTC.
    pub(super) realtime_ns: u64,
    /// The length of the sample before compression.
    pub(super) raw_bytes: usize,
    /// The length of the compressed sample, which follows the head.
    pub(super) bytes: usize,
    /// The checksum of the compressed sample.
    pub(super) sum: u32,
}

impl Head {
    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&FRAME_MAGIC);
        bytes[4] = u8::from(self.is_key);
        bytes[8..16].copy_from_slice(&self.realtime_ns.to_le_bytes());
        // Samples are shorter than SAMPLE_BYTES_MAX.
        bytes[16..20].copy_from_slice(&(self.raw_bytes as u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&(self.bytes as u32).to_le_bytes());
        bytes[24..28].copy_from_slice(&self.sum.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses the head at the beginning of these bytes. None if its checksum is wrong, or if its lengths exceed the limits.
    pub(super) fn parse(bytes: &[u8]) -> Option<Head> {
        let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..4] != FRAME_MAGIC || head[4] > 1 || head[5..8] != [0; 3] || word(28) != crc32fast::hash(&head[..28]) {
            return None;
        }
        let (raw_bytes, bytes) = (word(16) as usize, word(20) as usize);
        let is_sane = raw_bytes <= SAMPLE_BYTES_MAX && bytes <= SAMPLE_BYTES_MAX;
        let realtime_ns = u64::from(word(8)) | u64::from(word(12)) << 32;
        is_sane.then_some(Head { is_key: head[4] == 1, realtime_ns, raw_bytes, bytes, sum: word(24) })
    }
}

/// The head of a segment.
pub fn segment_head() -> [u8; SEGMENT_HEAD_BYTES] {
    let mut bytes = [0; SEGMENT_HEAD_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The format number of a segment. `None` if the segment's head is incomplete or damaged. The frames may still be readable.
pub(super) fn parse_format(bytes: &[u8]) -> Option<u32> {
    let head: &[u8; SEGMENT_HEAD_BYTES] = bytes.first_chunk()?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    (head[..8] == MAGIC && word(12) == crc32fast::hash(&head[..12])).then(|| word(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_and_every_changed_bit_is_noticed() {
        let head = Head { is_key: true, realtime_ns: u64::MAX - 7, raw_bytes: 9, bytes: 5, sum: 77 };
        let bytes = head.to_bytes();
        assert_eq!(Head::parse(&bytes), Some(head));
        for bit in 0..HEAD_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::parse(&changed), None, "bit {bit}");
        }
        assert_eq!(Head::parse(&bytes[..31]), None);
        assert_eq!(Head::parse(&Head { bytes: SAMPLE_BYTES_MAX + 1, ..head }.to_bytes()), None);
        assert_eq!((parse_format(&segment_head()), parse_format(b"ekwatch")), (Some(FORMAT), None));
    }
}
