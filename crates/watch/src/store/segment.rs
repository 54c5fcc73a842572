//! Reads the frames of a segment. Any input gives samples and a count of damaged bytes, in bounded memory.

use flate2::{Decompress, FlushDecompress, Status};

use super::frame::{FRAME_MAGIC, HEAD_BYTES, Head};
use super::index::Block;
use crate::sample::Sample;

/// The maximum number of samples in a block, and the maximum total size of these samples. If a block has more samples, the rest is ignored.
pub(super) const BLOCK_SAMPLES_MAX: usize = 64;
const BLOCK_BYTES_MAX: usize = 64 << 20;

/// What could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// The number of incomplete or damaged frames.
    pub frames: u64,
    /// The number of complete frames that can't be read, because an earlier frame of their block is damaged.
    pub orphans: u64,
}

/// The samples of a segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The samples in the order in which they were written.
    pub samples: Vec<Sample>,
    /// What could not be read.
    pub damage: Damage,
}

/// Reads at most `samples_max` samples of a segment. For small segments and tests.
pub fn parse_segment(bytes: &[u8], samples_max: usize) -> Parsed {
    let mut parsed = Parsed::default();
    let mut at = 0;
    while let Some(found) = next_key(bytes, at) {
        let room = samples_max.saturating_sub(parsed.samples.len());
        if room == 0 {
            break;
        }
        let block = read_block(&bytes[found..]);
        parsed.samples.extend(block.samples.into_iter().take(room));
        parsed.damage.frames += block.damage.frames;
        parsed.damage.orphans += block.damage.orphans;
        at = found + block.bytes.max(1);
    }
    parsed
}

/// Finds the blocks of a segment by searching for the heads of their first frames.
pub(super) fn search_blocks(bytes: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while let Some(found) = next_key(bytes, at) {
        let Some(head) = Head::parse(&bytes[found..]) else { break };
        blocks.push(Block { realtime_ns: head.realtime_ns, at: found as u64 });
        at = found + HEAD_BYTES;
    }
    blocks
}

/// The offset of the next frame that begins a block.
fn next_key(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at = next_head(bytes, at)?;
        if Head::parse(&bytes[at..]).is_some_and(|head| head.is_key) {
            return Some(at);
        }
        at += HEAD_BYTES;
    }
}

/// The offset of the next head with a valid checksum.
fn next_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(rest) = bytes.get(at..) {
        let found = rest.windows(FRAME_MAGIC.len()).position(|window| window == FRAME_MAGIC)?;
        at += found;
        if Head::parse(&bytes[at..]).is_some() {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// A block.
#[derive(Debug, Default)]
pub(super) struct ReadBlock {
    pub(super) samples: Vec<Sample>,
    damage: Damage,
    /// The length from the block's first frame to the first frame of the next block.
    bytes: usize,
}

/// Reads the block at the beginning of these bytes.
pub(super) fn read_block(bytes: &[u8]) -> ReadBlock {
    let mut block = ReadBlock::default();
    let mut stream = Some(Decompress::new(false));
    let mut at = 0;
    let mut raw_bytes = 0_usize;
    while let Some(head) = Head::parse(&bytes[at..]) {
        if head.is_key && at > 0 {
            break;
        }
        raw_bytes = raw_bytes.saturating_add(head.raw_bytes);
        let payload = bytes.get(at + HEAD_BYTES..at + HEAD_BYTES + head.bytes);
        let payload = payload.filter(|payload| crc32fast::hash(payload) == head.sum);
        let is_bounded = block.samples.len() < BLOCK_SAMPLES_MAX && raw_bytes <= BLOCK_BYTES_MAX;
        match (payload, &mut stream) {
            (Some(payload), Some(open)) if is_bounded => match sample(open, payload, head.raw_bytes) {
                Some(sample) => block.samples.push(sample),
                None => {
                    block.damage.frames += 1;
                    stream = None;
                }
            },
            (Some(_), _) => block.damage.orphans += 1,
            (None, _) => {
                // The frame is incomplete or damaged, so its length may be wrong. Continue the search right after its head.
                block.damage.frames += 1;
                stream = None;
                match next_head(bytes, at + HEAD_BYTES) {
                    Some(next) => at = next,
                    None => at = bytes.len(),
                }
                continue;
            }
        }
        at += HEAD_BYTES + head.bytes;
        // A complete frame is followed by another frame. If no valid head follows, that frame is incomplete.
        if at < bytes.len() && Head::parse(&bytes[at..]).is_none() {
            block.damage.frames += 1;
            stream = None;
            at = next_head(bytes, at).unwrap_or(bytes.len());
        }
    }
    block.bytes = at;
    block
}

/// Decompresses the next sample of a stream. None if that fails.
fn sample(stream: &mut Decompress, payload: &[u8], raw_bytes: usize) -> Option<Sample> {
    let mut raw = Vec::with_capacity(raw_bytes);
    let begun = stream.total_in();
    loop {
        let taken = usize::try_from(stream.total_in() - begun).ok()?;
        let before = (taken, raw.len());
        let status = stream.decompress_vec(payload.get(taken..)?, &mut raw, FlushDecompress::Sync).ok()?;
        let taken = usize::try_from(stream.total_in() - begun).ok()?;
        let is_done = taken == payload.len() && raw.len() == raw_bytes;
        if is_done {
            return serde_json::from_slice(&raw).ok();
        }
        // The length in the frame's head limits the buffer. If neither input nor output advances, no more data will come.
        if status == Status::StreamEnd || before == (taken, raw.len()) {
            return None;
        }
    }
}
