//! Appends samples to a store.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::{Compress, Compression};
use rustix::fs::{FlockOperation, OFlags};

use super::compress::compress;
use super::error::StoreError;
use super::frame::{HEAD_BYTES, Head, SAMPLE_BYTES_MAX, segment_head};
use super::index::Block;
use super::names::{SegmentName, day_of};
use crate::sample::Sample;

/// The maximum number of samples in a block, and the maximum time that it covers. If a frame is damaged, at most this is lost.
const BLOCK_SAMPLES: u32 = 60;
const BLOCK_NS: u64 = 60_000_000_000;
/// The minimum size of a full segment, even if the limit of the store is small.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The number of segments in a full store. Deleting one segment then frees a small part of the store.
const SEGMENTS: u64 = 16;
const LOCK: &str = "lock";

/// The limits of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// For how many days samples are kept. Only days that have samples count.
    /// So a wrong clock cannot delete many days at once.
    pub keep_days: usize,
    /// The maximum size of the finished segments, in bytes. The open segment is not included.
    pub bytes_max: u64,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { keep_days: 30, bytes_max: 1 << 30 }
    }
}

/// A store that is open for writing.
#[derive(Debug)]
pub struct StoreWriter {
    dir: PathBuf,
    options: StoreOptions,
    /// The lock that excludes other writers.
    _lock: File,
    open: Option<OpenSegment>,
}

/// The open segment.
#[derive(Debug)]
struct OpenSegment {
    name: SegmentName,
    file: File,
    index: File,
    bytes: u64,
    block: Option<OpenBlock>,
}

/// The open block.
#[derive(Debug)]
struct OpenBlock {
    stream: Compress,
    samples: u32,
    /// The time of the first sample, in nanoseconds since 1970 UTC.
    began_ns: u64,
    /// The time of the last sample, in nanoseconds since 1970 UTC.
    realtime_ns: u64,
}

/// Locks a folder against other processes, until the returned file is dropped.
/// The folder is created if only the last part of its path is missing.
///
/// # Errors
/// If the folder can't be created, or if another process has locked it.
pub(crate) fn own_folder(dir: &Path, lock: &str) -> Result<File, StoreError> {
    match std::fs::DirBuilder::new().mode(0o750).create(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(StoreError::io("make the folder", dir)(error));
        }
        _ => {}
    }
    let file = append(&dir.join(lock))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::InUse { path: dir.to_owned() }),
        Err(errno) => Err(StoreError::io("lock", &dir.join(lock))(errno.into())),
    }
}

impl StoreWriter {
    /// Opens the store in this folder, which is created if only the last part of its path is missing.
    ///
    /// # Errors
    /// If the folder can't be opened, or if another process writes to it.
    pub fn open(dir: &Path, options: StoreOptions) -> Result<StoreWriter, StoreError> {
        let lock = own_folder(dir, LOCK)?;
        let mut writer = StoreWriter { dir: dir.to_owned(), options, _lock: lock, open: None };
        writer.retire()?;
        Ok(writer)
    }

    /// Appends a sample.
    ///
    /// # Errors
    /// If the sample can't be written, for example because the disk is full. Only this sample is lost then.
    pub fn append(&mut self, sample: &Sample) -> Result<(), StoreError> {
        let raw = serde_json::to_vec(sample)
            .map_err(|error| StoreError::io("encode a sample for", &self.dir)(error.into()))?;
        if raw.len() > SAMPLE_BYTES_MAX {
            return Err(StoreError::TooLarge { bytes: raw.len() });
        }
        let day = day_of(sample.at.realtime_ns);
        let bytes_max = (self.options.bytes_max / SEGMENTS).max(SEGMENT_BYTES_MIN);
        if self.open.as_ref().is_none_or(|open| open.name.day != day || open.bytes >= bytes_max) {
            self.open = None;
            self.open = Some(self.begin_segment(&day)?);
            self.retire()?;
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let written = open.append(&raw, sample.at.realtime_ns, &self.dir);
        if written.is_err() {
            // The compressor has already used the lost sample, so later samples need a new block.
            open.block = None;
        }
        written
    }

    /// Begins a new segment, because the writer never appends to a segment of an earlier run.
    fn begin_segment(&self, day: &str) -> Result<OpenSegment, StoreError> {
        let last = segments(&self.dir)?.into_iter().filter(|name| name.day == day).max();
        let mut name = match last {
            Some(last) => last.next(),
            None => Some(SegmentName { day: day.to_owned(), number: 0 }),
        };
        // If a file with this name already exists, try the next name.
        while let Some(free) = name {
            let path = self.dir.join(free.to_string());
            match created(&path) {
                Ok(file) => {
                    let index_path = self.dir.join(free.index());
                    let begun = begin(file, &path, &index_path, free);
                    if begun.is_err() {
                        // A full disk refuses the head, but not the empty file.
                        // Without this removal, each further sample would leave another empty segment.
                        let _ = std::fs::remove_file(&path);
                        let _ = std::fs::remove_file(&index_path);
                    }
                    return begun;
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => name = free.next(),
                Err(error) => return Err(StoreError::io("create", &path)(error)),
            }
        }
        let error = std::io::Error::other("a million segments are there already");
        Err(StoreError::io("create a segment in", &self.dir)(error))
    }

    /// Deletes segments beyond the limits, the oldest first, and never the current segment.
    fn retire(&mut self) -> Result<(), StoreError> {
        let names = segments(&self.dir)?;
        let current = self.open.as_ref().map(|open| open.name.clone());
        let mut days: Vec<&str> = names.iter().map(|name| name.day.as_str()).collect();
        days.dedup();
        let oldest = days.len().checked_sub(self.options.keep_days.max(1)).and_then(|at| days.get(at)).copied();
        let size =
            |name: &SegmentName| std::fs::metadata(self.dir.join(name.to_string())).map_or(0, |there| there.len());
        let mut total = names.iter().map(size).fold(0, u64::saturating_add);
        for name in &names {
            let is_old = oldest.is_some_and(|oldest| name.day.as_str() < oldest);
            if Some(name) == current.as_ref() || !(is_old || total > self.options.bytes_max) {
                continue;
            }
            total = total.saturating_sub(size(name));
            for file in [name.index(), name.to_string()] {
                let path = self.dir.join(file);
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(StoreError::io("delete", &path)(error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl OpenSegment {
    fn append(&mut self, raw: &[u8], realtime_ns: u64, dir: &Path) -> Result<(), StoreError> {
        // If the clock was set back, a new block begins. Readers search for the block that begins at or before a time.
        let is_over = |block: &OpenBlock| {
            block.samples >= BLOCK_SAMPLES
                || realtime_ns < block.realtime_ns
                || realtime_ns - block.began_ns >= BLOCK_NS
        };
        if self.block.as_ref().is_none_or(is_over) {
            let stream = Compress::new(Compression::default(), false);
            self.block = Some(OpenBlock { stream, samples: 0, began_ns: realtime_ns, realtime_ns });
        }
        let path = || dir.join(self.name.to_string());
        let Some(block) = &mut self.block else { return Ok(()) };
        let mut frame = vec![0; HEAD_BYTES];
        compress(&mut block.stream, raw, &mut frame).map_err(StoreError::io("compress a sample for", &path()))?;
        let payload = &frame[HEAD_BYTES..];
        if payload.len() > SAMPLE_BYTES_MAX {
            return Err(StoreError::TooLarge { bytes: payload.len() });
        }
        let head = Head {
            is_key: block.samples == 0,
            realtime_ns,
            raw_bytes: raw.len(),
            bytes: payload.len(),
            sum: crc32fast::hash(payload),
        };
        frame[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
        block.samples += 1;
        block.realtime_ns = realtime_ns;
        if let Err(error) = self.file.write_all(&frame) {
            // Cut off the incomplete frame. If that fails, readers search for the next frame after it.
            let _ = self.file.set_len(self.bytes);
            self.bytes = self.file.metadata().map_or(self.bytes, |there| there.len());
            return Err(StoreError::io("write", &path())(error));
        }
        if head.is_key {
            // If this write fails, the entry is missing, and readers search the segment instead.
            let _ = self.index.write_all(&Block { realtime_ns, at: self.bytes }.to_bytes());
            // Sync once per block. A power failure then costs at most one more block.
            // A sync after each sample would disturb the host.
            let _ = self.file.sync_data();
        }
        self.bytes += frame.len() as u64;
        Ok(())
    }
}

/// Writes the head of a new segment, and creates its index.
fn begin(mut file: File, path: &Path, index_path: &Path, name: SegmentName) -> Result<OpenSegment, StoreError> {
    let index = append(index_path)?;
    index.set_len(0).map_err(StoreError::io("empty", index_path))?;
    file.write_all(&segment_head()).map_err(StoreError::io("write", path))?;
    Ok(OpenSegment { name, file, index, bytes: segment_head().len() as u64, block: None })
}

fn created(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    OpenOptions::new().append(true).create_new(true).mode(0o640).custom_flags(flags.bits() as i32).open(path)
}

fn append(path: &Path) -> Result<File, StoreError> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(flags.bits() as i32).open(path);
    file.map_err(StoreError::io("open", path))
}

/// The segments of a folder, sorted by name.
pub(super) fn segments(dir: &Path) -> Result<Vec<SegmentName>, StoreError> {
    /// The maximum number of files to list. No store has more.
    const ENTRIES_MAX: usize = 100_000;
    let entries = std::fs::read_dir(dir).map_err(StoreError::read("read the folder", dir))?;
    let names = entries.take(ENTRIES_MAX).flatten().filter_map(|entry| SegmentName::parse(entry.file_name().to_str()?));
    let mut names: Vec<SegmentName> = names.collect();
    names.sort_unstable();
    Ok(names)
}
