//! Measures how long a small write takes to reach the disk, and shows whether that disk is also the boot disk.
//! The load is light, because servers with a tick rarely wait for disks, and should not.

mod volume;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use evenkeel_hostfs::Root;
use evenkeel_hostfs::scratch::{self, Done};
use evenkeel_sys::clock;
use serde::Serialize;

pub use volume::{Shared, Volume};

use crate::{Lost, MeterError, Samples, Unit, Watch};

/// The size of the file that is overwritten again and again: 4 MiB.
const FILE_BYTES: u64 = 4 << 20;
/// The settings of the disk meter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory whose disk to measure.
    pub directory: PathBuf,
    /// The size of one write in bytes.
    pub block_bytes: usize,
    /// How long to measure each method, in nanoseconds.
    pub each_ns: u64,
    /// The maximum number of writes per method.
    pub writes_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { directory: PathBuf::from("/var/tmp"), block_bytes: 4096, each_ns: 1_500_000_000, writes_max: 2000 }
    }
}

/// The report of the disk meter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The volume of the directory. None if its mount cannot be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Volume>,
    /// The volume of `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Volume>,
    /// Whether the directory's volume and the boot volume share a file system or a disk.
    pub shared: Shared,
    /// The size of one write in bytes.
    pub block_bytes: usize,
    /// Writes to a file opened with `O_DSYNC`.
    pub sync_write: Samples,
    /// Writes, each followed by fdatasync(2).
    pub write_and_sync: Samples,
}

/// Runs the measurement. Where the file system supports it, the file has no name.
/// Elsewhere the file is unlinked at once. So nothing remains, however the measurement ends.
/// # Errors
/// Fails if no file can be made in the directory, or if a write fails.
pub fn run(settings: &Settings, watch: &Watch<'_>) -> Result<Report, MeterError> {
    let root = Root::live();
    if settings.block_bytes == 0 || settings.block_bytes as u64 > FILE_BYTES {
        return Err(MeterError::wrong_use("block size", format!("must be from 1 to {FILE_BYTES} bytes")));
    }
    let data = Volume::find(&settings.directory, &root);
    let boot = Volume::find(Path::new("/"), &root);
    let shared = data.as_ref().zip(boot.as_ref()).map_or(Shared::Unknown, |(data, boot)| data.shares(boot));
    let plain = Scratch::made(&settings.directory, Done::InMemory)?;
    let sync = Scratch::made(&settings.directory, Done::OnDisk)?;
    let block = vec![0x5a; settings.block_bytes];
    let sync_write = watch.part(0.0, 0.5, |part| {
        timed(settings, part, "sync_write_ns", |at| {
            sync.file.write_all_at(&block, at).map_err(|error| sync.failed(&error))
        })
    })?;
    let write_and_sync = watch.part(0.5, 1.0, |part| {
        let write = |at| plain.file.write_all_at(&block, at).and_then(|()| plain.file.sync_data());
        timed(settings, part, "write_and_sync_ns", |at| write(at).map_err(|error| plain.failed(&error)))
    })?;
    Ok(Report { data, boot, shared, block_bytes: settings.block_bytes, sync_write, write_and_sync })
}

fn timed(
    settings: &Settings,
    watch: &Watch<'_>,
    name: &str,
    mut write: impl FnMut(u64) -> Result<(), MeterError>,
) -> Result<Samples, MeterError> {
    let conditions =
        [("directory", settings.directory.display().to_string()), ("block_bytes", settings.block_bytes.to_string())];
    let mut samples = Samples::new(name, Unit::Ns, conditions);
    let blocks = FILE_BYTES / settings.block_bytes as u64;
    let start_ns = clock::monotonic_ns();
    for turn in 0..settings.writes_max {
        let passed_ns = clock::monotonic_ns() - start_ns;
        if passed_ns >= settings.each_ns || watch.stopped() {
            break;
        }
        watch.progress(passed_ns as f64 / settings.each_ns.max(1) as f64, "sync writes");
        let before_ns = clock::monotonic_ns();
        // Write in order, over blocks that already exist on the disk, like a log or a journal.
        write(turn % blocks * settings.block_bytes as u64)?;
        samples.record(clock::monotonic_ns() - before_ns);
    }
    Ok(samples)
}

/// A file without a name.
struct Scratch {
    file: File,
    directory: PathBuf,
}

impl Scratch {
    fn made(directory: &Path, done: Done) -> Result<Scratch, MeterError> {
        let what = || format!("make a file to write to in {}", directory.display());
        let file = scratch::file(directory, done).map_err(|errno| MeterError::refused(what(), errno))?;
        let scratch = Scratch { file, directory: directory.to_owned() };
        // The first write to a block allocates the block, which would be slower than the writes to measure.
        let fill = || -> std::io::Result<()> {
            let part = vec![0xa5; 1 << 20];
            for at in (0..FILE_BYTES).step_by(part.len()) {
                scratch.file.write_all_at(&part, at)?;
            }
            scratch.file.sync_all()
        };
        fill().map_err(|error| scratch.failed(&error))?;
        Ok(scratch)
    }

    fn failed(&self, error: &std::io::Error) -> MeterError {
        MeterError::refused(format!("write to a file in {}", self.directory.display()), error)
    }
}

impl Report {
    /// The methods that were not measured.
    pub fn lost(&self) -> Lost {
        let empty =
            [&self.sync_write, &self.write_and_sync].into_iter().filter(|samples| samples.histogram.count() == 0);
        Lost::new(empty.count() as u64, "stopped before the first write")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn writes_are_timed_and_no_file_remains() {
        let directory = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let watch = Watch::new(&stop, &|_, _| {});
        let settings = Settings {
            directory: directory.path().to_owned(),
            writes_max: 5,
            each_ns: 60_000_000_000,
            ..Settings::default()
        };
        let report = run(&settings, &watch).unwrap();
        assert_eq!((report.sync_write.histogram.count(), report.write_and_sync.histogram.count()), (5, 5));
        assert_eq!((report.lost().count, report.data.is_some()), (0, true));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let odd = Settings { directory: "/evenkeel-has-no-such-directory".into(), ..settings.clone() };
        let refused = run(&odd, &watch).unwrap_err().to_string();
        assert!(refused.starts_with("make a file to write to in /evenkeel-has-no-such-directory: "), "{refused}");
        assert!(run(&Settings { block_bytes: 0, ..settings }, &watch).is_err());
    }
}
