//! Reads the samples of a store in any order, even while it is being written.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::frame::{FORMAT, HEAD_BYTES, Head, SEGMENT_HEAD_BYTES, parse_format};
use super::index::{Block, parse_index};
use super::names::SegmentName;
use super::segment::{parse_segment, read_block, search_blocks};
use super::writer::segments;
use crate::sample::Sample;

/// The maximum length of a block, and of a segment that is searched without an index. The writer's segments and blocks are far shorter.
const SEARCHED_BYTES_MAX: u64 = 256 << 20;
const BLOCK_BYTES_MAX: u64 = 64 << 20;
const INDEX_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of samples between two entries of the index. If entries are missing, several blocks lie between two entries.
const SAMPLES_MAX: usize = 4096;

/// The maximum number of earlier segments to compare with the segment in which a sample was found.
/// A program that restarts again and again writes thousands of segments a day.
const COMPARED_MAX: usize = 16;

/// The position of a sample in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    segment: usize,
    block: usize,
    sample: usize,
}

/// A file with samples, and the path of its index.
#[derive(Clone, Debug)]
struct Segment {
    path: PathBuf,
    /// The path of the index. `None` for a dump of the flight recorder, which is searched.
    index: Option<PathBuf>,
    /// The day of the segment's samples. Empty for a dump.
    day: String,
}

/// Finds the segments of a folder. If `place` is a file, the file is the only segment.
fn found(place: &Path) -> Result<Vec<Segment>, StoreError> {
    if place.is_file() {
        return Ok(vec![Segment { path: place.to_owned(), index: None, day: String::new() }]);
    }
    let of = |name: SegmentName| Segment {
        path: place.join(name.to_string()),
        index: Some(place.join(name.index())),
        day: name.day,
    };
    Ok(segments(place)?.into_iter().map(of).collect())
}

/// A store to read.
#[derive(Debug)]
pub struct Replay {
    place: PathBuf,
    segments: Vec<Segment>,
    /// The number of the segment that was read last, and its blocks.
    blocks: Option<(usize, Vec<Block>)>,
    /// The numbers of the segment and block that were read last, and the samples of the block.
    samples: Option<(usize, usize, Vec<Sample>)>,
}

impl Replay {
    /// Opens the store in this folder, or one file with samples: a segment of a store, or a dump of the flight recorder.
    ///
    /// # Errors
    /// If the store can't be read, has no sample, or was written by a newer version.
    pub fn open(place: &Path) -> Result<Replay, StoreError> {
        let segments = found(place)?;
        let mut replay = Replay { place: place.to_owned(), segments, blocks: None, samples: None };
        if let Some(last) = replay.segments.last() {
            let path = last.path.clone();
            let file = File::open(&path).map_err(StoreError::read("open", &path))?;
            let mut head = [0; SEGMENT_HEAD_BYTES];
            let read = file.read_at(&mut head, 0).map_err(StoreError::read("read", &path))?;
            if let Some(format) = parse_format(&head[..read]).filter(|format| *format != FORMAT) {
                return Err(StoreError::Format { path, format });
            }
        }
        match replay.last() {
            Some(_) => Ok(replay),
            None => Err(StoreError::Empty { path: place.to_owned() }),
        }
    }

    /// Finds the samples that were written since the last call. After this, earlier positions may refer to other samples.
    ///
    /// # Errors
    /// The kernel's error from listing the folder.
    pub fn refresh(&mut self) -> Result<(), StoreError> {
        self.segments = found(&self.place)?;
        (self.blocks, self.samples) = (None, None);
        Ok(())
    }

    /// The position of the last sample.
    pub fn last(&mut self) -> Option<Position> {
        let end = Position { segment: self.segments.len(), block: 0, sample: 0 };
        self.previous(end)
    }

    /// The position of the first sample.
    pub fn first(&mut self) -> Option<Position> {
        for segment in 0..self.segments.len() {
            for block in 0..self.blocks(segment).len() {
                if !self.samples(segment, block).is_empty() {
                    return Some(Position { segment, block, sample: 0 });
                }
            }
        }
        None
    }

    /// The position of the last sample that was taken at or before this time, in nanoseconds since 1970 UTC.
    /// If the clock was set back, samples that were written later have earlier times.
    /// Each day has its own segments, so only the segments of one day are compared.
    pub fn at(&mut self, realtime_ns: u64) -> Option<Position> {
        let mut best: Option<(u64, Position)> = None;
        // The time at which the block after the examined block begins.
        let mut next_ns = None;
        for segment in (0..self.segments.len()).rev() {
            let is_near = |(_, found): (u64, Position)| {
                self.segments[found.segment].day == self.segments[segment].day
                    && segment.saturating_add(COMPARED_MAX) >= found.segment
            };
            if best.is_some_and(|found| !is_near(found)) {
                break;
            }
            let blocks = self.blocks(segment).to_vec();
            for (block, begins_ns) in blocks.iter().map(|block| block.realtime_ns).enumerate().rev() {
                let ends_with_a_step = next_ns.replace(begins_ns).is_some_and(|next_ns| next_ns < begins_ns);
                let may_be_later = best.is_none_or(|(found_ns, _)| begins_ns > found_ns || ends_with_a_step);
                if begins_ns > realtime_ns || !may_be_later {
                    continue;
                }
                let mut times = self.samples(segment, block).iter().map(|sample| sample.at.realtime_ns).enumerate();
                let last = times.rfind(|(_, at_ns)| *at_ns <= realtime_ns);
                if let Some((sample, at_ns)) =
                    last.filter(|(_, at_ns)| best.is_none_or(|(found_ns, _)| *at_ns > found_ns))
                {
                    best = Some((at_ns, Position { segment, block, sample }));
                }
            }
        }
        best.map(|(_, found)| found)
    }

    /// The sample at this position.
    pub fn sample(&mut self, at: Position) -> Option<Sample> {
        self.samples(at.segment, at.block).get(at.sample).cloned()
    }

    /// The samples at and just before this position, to make a model.
    /// The first sample of a store is paired with itself, so its model has no rates.
    pub fn pair(&mut self, at: Position) -> Option<(Sample, Sample)> {
        let after = self.sample(at)?;
        let before = self.previous(at).and_then(|before| self.sample(before)).unwrap_or_else(|| after.clone());
        Some((before, after))
    }

    /// The position of the sample before this position.
    pub fn previous(&mut self, at: Position) -> Option<Position> {
        if at.sample > 0 {
            return Some(Position { sample: at.sample - 1, ..at });
        }
        let Position { mut segment, mut block, .. } = at;
        loop {
            while block > 0 {
                block -= 1;
                if let Some(sample) = self.samples(segment, block).len().checked_sub(1) {
                    return Some(Position { segment, block, sample });
                }
            }
            segment = segment.checked_sub(1)?;
            block = self.blocks(segment).len();
        }
    }

    /// The position of the sample after this position.
    pub fn next(&mut self, at: Position) -> Option<Position> {
        let Position { mut segment, mut block, sample } = at;
        if sample + 1 < self.samples(segment, block).len() {
            return Some(Position { sample: sample + 1, ..at });
        }
        while segment < self.segments.len() {
            block += 1;
            if block >= self.blocks(segment).len() {
                (segment, block) = (segment + 1, 0);
            }
            if !self.samples(segment, block).is_empty() {
                return Some(Position { segment, block, sample: 0 });
            }
        }
        None
    }

    /// Takes the first sample of each block, from the oldest to the newest, and the last sample. A block holds a minute or less, so this
    /// reads long stores fast. Blocks that can't be read are left out.
    pub fn each_block(&mut self, mut take: impl FnMut(Sample)) {
        let mut newest = None;
        for segment in 0..self.segments.len() {
            for block in 0..self.blocks(segment).len() {
                if let Some(sample) = self.first_of(segment, block) {
                    newest = Some(sample.at);
                    take(sample);
                }
            }
        }
        let last = self.last().and_then(|at| self.sample(at));
        if let Some(last) = last.filter(|last| Some(last.at) != newest) {
            take(last);
        }
    }

    /// The first sample of a block, without the others.
    fn first_of(&mut self, segment: usize, block: usize) -> Option<Sample> {
        let begin = self.blocks(segment).get(block)?.at;
        let file = File::open(&self.segments.get(segment)?.path).ok()?;
        let length = HEAD_BYTES + Head::parse(&read(&file, begin, HEAD_BYTES as u64)?)?.bytes;
        read_block(&read(&file, begin, length as u64)?).samples.pop()
    }

    /// The blocks of a segment. Empty if the segment can't be read.
    fn blocks(&mut self, segment: usize) -> &[Block] {
        if self.blocks.as_ref().is_none_or(|(of, _)| *of != segment) {
            let blocks = self.segments.get(segment).map(read_blocks).unwrap_or_default();
            self.blocks = Some((segment, blocks));
        }
        self.blocks.as_ref().map_or(&[], |(_, blocks)| blocks)
    }

    /// The samples of a block. Empty if the block can't be read.
    fn samples(&mut self, segment: usize, block: usize) -> &[Sample] {
        if self.samples.as_ref().is_none_or(|(of, at, _)| (*of, *at) != (segment, block)) {
            let samples = self.read_samples(segment, block).unwrap_or_default();
            self.samples = Some((segment, block, samples));
        }
        self.samples.as_ref().map_or(&[], |(_, _, samples)| samples)
    }

    fn read_samples(&mut self, segment: usize, block: usize) -> Option<Vec<Sample>> {
        let blocks = self.blocks(segment);
        let begin = blocks.get(block)?.at;
        let next = blocks.get(block + 1).map(|block| block.at);
        let file = File::open(&self.segments.get(segment)?.path).ok()?;
        let end = match next {
            Some(next) => next,
            None => file.metadata().ok()?.len(),
        };
        let bytes = read(&file, begin, end.saturating_sub(begin).min(BLOCK_BYTES_MAX))?;
        Some(parse_segment(&bytes, SAMPLES_MAX).samples)
    }
}

/// Finds the blocks of a segment with its index, or else by a search.
fn read_blocks(segment: &Segment) -> Vec<Block> {
    let Ok(file) = File::open(&segment.path) else { return Vec::new() };
    let Ok(length) = file.metadata().map(|there| there.len()) else { return Vec::new() };
    let index = segment.index.as_ref().and_then(|index| File::open(index).ok());
    let index = index.and_then(|file| read(&file, 0, INDEX_BYTES_MAX));
    if let Some(blocks) = index.as_deref().and_then(parse_index)
        && blocks.first().is_some_and(|first| first.at == SEGMENT_HEAD_BYTES as u64)
        && let Some(last) = blocks.last()
        && last.at < length
        && length - last.at <= BLOCK_BYTES_MAX
    {
        // Also find the blocks that were written after the last entry of the index.
        let rest = read(&file, last.at, length - last.at).unwrap_or_default();
        let found = search_blocks(&rest);
        if found.first().is_some_and(|first| first.at == 0 && first.realtime_ns == last.realtime_ns) {
            let later = found.iter().skip(1).map(|block| Block { at: block.at + last.at, ..*block });
            return blocks.iter().copied().chain(later).collect();
        }
    }
    read(&file, 0, length.min(SEARCHED_BYTES_MAX)).map(|bytes| search_blocks(&bytes)).unwrap_or_default()
}

/// Reads at most this many bytes of a file, starting at `from`.
fn read(file: &File, from: u64, bytes_max: u64) -> Option<Vec<u8>> {
    let length = file.metadata().ok()?.len().saturating_sub(from).min(bytes_max);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(filled);
    Some(bytes)
}
