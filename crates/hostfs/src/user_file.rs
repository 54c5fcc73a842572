//! `UserFile`: a file that the user names. Opening the file never waits, and reading it never takes more memory than the caller allows.
//!
//! A FIFO without a writer, a device and a sparse file are valid paths.
//! Each of these paths can make a plain `open` and `read` hang, or fill the memory.
//! All commands that read a file of the user use this module.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::SystemTime;

use evenkeel_sys::Errno;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::time::Timespec;

/// How long to wait for the writer of a FIFO. In `program > fifo & evenkeel … fifo`, the writer may open the FIFO after evenkeel.
const WRITER_WAIT: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Only files of at least this size are checked for holes. A smaller file uses little memory even with holes.
const HOLES_CHECKED_FROM_BYTES: u64 = 16 << 20;
/// The maximum number of extents of a file to examine.
const EXTENTS_MAX: usize = 65_536;
/// A file is refused if less than one part in this many is data, and the rest is holes.
const DATA_PART: u64 = 4;
/// The number of bytes that one `read` requests.
const PIECE_BYTES: usize = 64 << 10;
/// The major number of `/dev/null` and similar devices.
const MEMORY_MAJOR: u32 = 1;
/// `null`, `zero`, `full`, `random` and `urandom`. Opening them has no effect.
const HARMLESS_MINORS: [u32; 5] = [3, 5, 7, 8, 9];
/// `tty`, `ttyS` and the terminals of `devpts`.
const TERMINAL_MAJORS: [u32; 10] = [4, 5, 136, 137, 138, 139, 140, 141, 142, 143];
/// `ptmx` creates a new terminal each time it is opened, and no input will ever arrive there.
const NEW_TERMINAL: (u32, u32) = (5, 2);

/// Why a file of the user cannot be read. Each text fits at the end of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserFileError {
    /// The kernel refused to open or read the file.
    #[error("{0}")]
    Kernel(Errno),
    /// The file is a device, and opening it may have an effect on hardware.
    #[error("it is a device; evenkeel reads only files and pipes")]
    Device,
    /// The file is a named pipe without a writer.
    #[error("it is a pipe that no program has open for writing; start the program that writes to it first")]
    NoWriter,
    /// The file is endless: the kernel adds data, and each reader takes data away from others (`/proc/kmsg`, `trace_pipe`).
    #[error("the kernel adds to it while this machine runs; evenkeel reads only files with an end")]
    Endless,
    /// The file is longer than the caller allows.
    #[error("longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// Most of the file was never written.
    #[error(
        "only {data_bytes} of its {length_bytes} bytes are on disk: it is a sparse file, or its copy is not finished"
    )]
    Sparse {
        /// The number of bytes on disk.
        data_bytes: u64,
        /// The file's length.
        length_bytes: u64,
    },
    /// The file is not a regular file, so nothing can be appended to it.
    #[error("it is not a regular file")]
    NoFile,
    /// The file is not UTF-8.
    #[error("it is not text")]
    NoText,
}

impl From<Errno> for UserFileError {
    fn from(errno: Errno) -> UserFileError {
        UserFileError::Kernel(errno)
    }
}

impl From<UserFileError> for std::io::Error {
    fn from(error: UserFileError) -> std::io::Error {
        match error {
            UserFileError::Kernel(errno) => std::io::Error::from_raw_os_error(errno.raw()),
            other => std::io::Error::other(other),
        }
    }
}

impl UserFileError {
    /// Whether the kernel denied this user access. Another user may be able to read the file.
    pub fn is_denial(&self) -> bool {
        matches!(self, UserFileError::Kernel(errno) if errno.is_denial())
    }
}

/// An open file. Until now, at most its first bytes were read.
#[derive(Debug)]
pub struct UserFile {
    file: File,
    kind: Kind,
    modified: Option<SystemTime>,
    limit_bytes: u64,
    read: Vec<u8>,
    is_at_end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    Pipe,
    Other,
}

impl UserFile {
    /// Opens a file, of which at most `limit_bytes` may be read.
    ///
    /// # Errors
    /// If the file does not exist or may not be read. If it is a device or a socket, longer than the limit, or mostly holes.
    pub fn open(path: &Path, limit_bytes: u64) -> Result<UserFile, UserFileError> {
        // Check the file before opening it, because opening a device may have an effect.
        let known = std::fs::metadata(path).map_err(|error| Errno::from(&error))?;
        kind(&known)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(Errno::from)?);
        UserFile::from_file(file, limit_bytes)
    }

    /// Checks an open file, which does not block.
    fn from_file(file: File, limit_bytes: u64) -> Result<UserFile, UserFileError> {
        // The path may now lead to another file, so check the open file again.
        let known = file.metadata().map_err(|error| Errno::from(&error))?;
        let kind = kind(&known)?;
        if kind == Kind::Regular {
            if known.len() > limit_bytes {
                return Err(UserFileError::TooLong { limit_bytes });
            }
            if known.len() > HOLES_CHECKED_FROM_BYTES {
                refuse_holes(&file, known.len())?;
            }
            if known.len() == 0 {
                refuse_endless(&file)?;
            }
        }
        let modified = known.modified().ok();
        let mut opened = UserFile { file, kind, modified, limit_bytes, read: Vec::new(), is_at_end: false };
        if kind == Kind::Pipe {
            opened.await_writer()?;
        }
        Ok(opened)
    }

    /// Lowers the limit for a file that is not a regular file, because its length is unknown.
    #[must_use]
    pub fn limit_stream(mut self, limit_bytes: u64) -> UserFile {
        if self.kind != Kind::Regular {
            self.limit_bytes = self.limit_bytes.min(limit_bytes);
        }
        self
    }

    /// When the file was last written. `None` if unknown.
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// The first `length` bytes, or the whole file if it is shorter. The caller can check the format before it reads the rest into memory.
    ///
    /// # Errors
    /// As for [`UserFile::into_bytes`].
    pub fn head(&mut self, length: usize) -> Result<&[u8], UserFileError> {
        while self.read.len() < length && !self.is_at_end {
            self.read_piece()?;
        }
        Ok(self.read.get(..length).unwrap_or(&self.read))
    }

    /// The whole content.
    ///
    /// # Errors
    /// If the kernel refuses, if the file is longer than the limit, or if it is a named pipe without a writer.
    pub fn into_bytes(mut self) -> Result<Vec<u8>, UserFileError> {
        if self.kind == Kind::Regular {
            let length = self.file.metadata().map_or(0, |known| known.len()).min(self.limit_bytes);
            let more = usize::try_from(length).unwrap_or(usize::MAX).saturating_sub(self.read.len());
            self.read.try_reserve_exact(more.saturating_add(PIECE_BYTES)).map_err(|_| Errno::NOMEM)?;
        }
        while !self.is_at_end {
            self.read_piece()?;
        }
        Ok(self.read)
    }

    /// Returns a reader that starts at the file's beginning, for a caller that holds only a part of the file in memory.
    pub fn into_reader(self) -> UserFileReader {
        UserFileReader { at: 0, passed_bytes: self.read.len() as u64, opened: self }
    }

    /// Waits for a writer of a pipe. A pipe that no process has open for writing looks as if it were at its end.
    fn await_writer(&mut self) -> Result<(), UserFileError> {
        if self.try_byte()? != Some(0) {
            return Ok(());
        }
        if let Some(events) = poll(&self.file, Some(WRITER_WAIT))? {
            // On a hangup without data, the writer opened and closed the pipe, and wrote nothing.
            self.is_at_end = events.contains(PollFlags::HUP) && !events.contains(PollFlags::IN);
            return Ok(());
        }
        if self.try_byte()? == Some(0) { Err(UserFileError::NoWriter) } else { Ok(()) }
    }

    /// Reads one byte if one is available. Returns zero at the end, and `None` if the read would have to wait.
    fn try_byte(&mut self) -> Result<Option<usize>, UserFileError> {
        let mut byte = [0; 1];
        match rustix::io::read(&self.file, &mut byte) {
            Ok(length) => {
                self.read.extend_from_slice(&byte[..length]);
                Ok(Some(length))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(errno) => Err(Errno::from(errno).into()),
        }
    }

    fn read_piece(&mut self) -> Result<(), UserFileError> {
        let before = self.read.len();
        self.read.try_reserve(PIECE_BYTES).map_err(|_| Errno::NOMEM)?;
        self.read.resize(before + PIECE_BYTES, 0);
        let read = read_waiting(&self.file, &mut self.read[before..]);
        self.read.truncate(before + read.unwrap_or(0));
        self.is_at_end = read? == 0;
        let is_too_long = self.read.len() as u64 > self.limit_bytes;
        if is_too_long { Err(UserFileError::TooLong { limit_bytes: self.limit_bytes }) } else { Ok(()) }
    }
}

/// A file of the user that is read in pieces. A read beyond the limit fails.
#[derive(Debug)]
pub struct UserFileReader {
    opened: UserFile,
    /// How many bytes of the head were returned.
    at: usize,
    /// How many bytes of the file were read, including the head.
    passed_bytes: u64,
}

impl Read for UserFileReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let UserFile { file, read, is_at_end, limit_bytes, .. } = &self.opened;
        let head = read.get(self.at..).unwrap_or_default();
        if !head.is_empty() || *is_at_end {
            let length = head.len().min(into.len());
            into[..length].copy_from_slice(&head[..length]);
            self.at += length;
            return Ok(length);
        }
        let length = read_waiting(file, into).map_err(UserFileError::from)?;
        self.passed_bytes += length as u64;
        let is_too_long = self.passed_bytes > *limit_bytes;
        if is_too_long { Err(UserFileError::TooLong { limit_bytes: *limit_bytes }.into()) } else { Ok(length) }
    }
}

/// The whole content of a file that the user names.
///
/// # Errors
/// As [`UserFile::open`] and [`UserFile::into_bytes`].
pub fn read(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, UserFileError> {
    UserFile::open(path, limit_bytes)?.into_bytes()
}

/// The whole text of a file that the user names.
///
/// # Errors
/// As [`read`]. Also fails if the file is not UTF-8.
pub fn read_text(path: &Path, limit_bytes: u64) -> Result<String, UserFileError> {
    String::from_utf8(read(path, limit_bytes)?).map_err(|_| UserFileError::NoText)
}

/// Opens a regular file of the user to append to it. This never waits.
///
/// # Errors
/// If the file does not exist, is not a regular file, or may not be written.
pub fn open_to_append(path: &Path) -> Result<File, UserFileError> {
    let known = std::fs::metadata(path).map_err(|error| Errno::from(&error))?;
    if !known.is_file() {
        return Err(UserFileError::NoFile);
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(Errno::from)?);
    let known = file.metadata().map_err(|error| Errno::from(&error))?;
    if known.is_file() { Ok(file) } else { Err(UserFileError::NoFile) }
}

/// The kind of the file, if reading it does no harm.
fn kind(known: &std::fs::Metadata) -> Result<Kind, UserFileError> {
    let file_type = known.file_type();
    if file_type.is_file() {
        return Ok(Kind::Regular);
    }
    if file_type.is_fifo() {
        return Ok(Kind::Pipe);
    }
    if file_type.is_block_device() {
        return Err(UserFileError::Device);
    }
    if file_type.is_char_device() {
        let (major, minor) = (rustix::fs::major(known.rdev()), rustix::fs::minor(known.rdev()));
        let is_harmless = major == MEMORY_MAJOR && HARMLESS_MINORS.contains(&minor) || TERMINAL_MAJORS.contains(&major);
        return if is_harmless && (major, minor) != NEW_TERMINAL {
            Ok(Kind::Other)
        } else {
            Err(UserFileError::Device)
        };
    }
    // For a folder or a socket, the kernel returns an error when a program opens or reads it.
    Ok(Kind::Other)
}

/// Reads the available bytes, and waits if no writer has written yet. Zero means the end.
fn read_waiting(file: &File, into: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::read(file, &mut *into) {
            Ok(length) => return Ok(length),
            Err(rustix::io::Errno::AGAIN) => drop(poll(file, None)?),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Waits until there is something to read, or until all writers have gone. `None` if neither happens within `limit`.
fn poll(file: &File, limit: Option<Timespec>) -> Result<Option<PollFlags>, Errno> {
    loop {
        let mut polled = [PollFd::new(file, PollFlags::IN)];
        match rustix::event::poll(&mut polled, limit.as_ref()) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(polled[0].revents())),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Refuses an endless file of the kernel, before any byte of it is read.
/// For a file with an end, `poll` reports at once that it can be read and written, however it was opened.
/// For an endless file, `poll` reports at most that it can be read.
fn refuse_endless(file: &File) -> Result<(), UserFileError> {
    let mut polled = [PollFd::new(file, PollFlags::IN | PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_endless = match rustix::event::poll(&mut polled, Some(&at_once)) {
        Ok(_) => !polled[0].revents().contains(PollFlags::OUT),
        Err(_) => false,
    };
    if is_endless { Err(UserFileError::Endless) } else { Ok(()) }
}

/// Refuses a file that consists mostly of holes. Holes read as zeros, and would use memory although they use no disk.
fn refuse_holes(file: &File, length_bytes: u64) -> Result<(), UserFileError> {
    let (mut at, mut hole_bytes) = (0, 0_u64);
    for _ in 0..EXTENTS_MAX {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // No data follows, so the rest of the file is a hole.
            Err(rustix::io::Errno::NXIO) => length_bytes,
            // Not every file system can report its holes.
            Err(_) => break,
        };
        hole_bytes = hole_bytes.saturating_add(data.saturating_sub(at));
        match rustix::fs::seek(file, SeekFrom::Hole(data)) {
            Ok(hole) if hole > at && hole < length_bytes => at = hole,
            _ => break,
        }
    }
    let data_bytes = length_bytes.saturating_sub(hole_bytes);
    rustix::fs::seek(file, SeekFrom::Start(0)).map_err(Errno::from)?;
    if data_bytes < length_bytes / DATA_PART { Err(UserFileError::Sparse { data_bytes, length_bytes }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use evenkeel_testkit::wait_until;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn fifo() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        (folder, path)
    }

    #[test]
    fn unreadable_files_are_refused_with_their_reason() {
        let of = |path: &str| read(Path::new(path), MIB).map(|bytes| bytes.len());
        assert_eq!(of("/nonexistent"), Err(Errno::NOENT.into()));
        assert_eq!(of("/"), Err(Errno::ISDIR.into()));
        assert_eq!(of("/dev/zero"), Err(UserFileError::TooLong { limit_bytes: MIB }));
        assert_eq!(of("/dev/null"), Ok(0));
        if Path::new("/dev/kmsg").exists() {
            assert_eq!(
                of("/dev/kmsg"),
                Err(UserFileError::Device),
                "it has no end, and waits for the kernel's next line"
            );
        }
        assert!(of("/proc/self/status").unwrap() > 0, "its length is said to be zero");
    }

    /// Regression: reading any of these files never ended, and reading `/proc/kmsg` took its messages away.
    #[test]
    fn what_has_no_end_is_refused_before_it_is_read() {
        let of = |path: &str| read(Path::new(path), MIB).map(|bytes| bytes.len());
        if Path::new("/dev/ptmx").exists() {
            assert_eq!(of("/dev/ptmx"), Err(UserFileError::Device));
        }
        match of("/proc/kmsg") {
            Err(UserFileError::Kernel(errno)) if errno.is_denial() => {
                evenkeel_testkit::skipped("only root may open /proc/kmsg");
            }
            read => assert_eq!(read, Err(UserFileError::Endless)),
        }
        for path in ["/proc/cpuinfo", "/proc/sys/vm/swappiness", "/sys/devices/system/cpu/online"] {
            assert!(of(path).unwrap() > 0, "{path} has an end");
        }
        assert_eq!(read(tempfile::NamedTempFile::new().unwrap().path(), MIB), Ok(Vec::new()));
    }

    #[test]
    fn a_pipe_without_a_writer_is_refused() {
        let (_folder, path) = fifo();
        assert_eq!(read(&path, MIB), Err(UserFileError::NoWriter));
        assert_eq!(open_to_append(&path).map(|_| ()), Err(UserFileError::NoFile));
    }

    #[test]
    fn a_pipe_is_read_to_its_end_however_long_its_writer_takes() {
        for text in ["", "x", "some lines\n"] {
            let (_folder, path) = fifo();
            let mut writer = File::options().read(true).write(true).open(&path).unwrap();
            let reader = std::thread::spawn({
                let path = path.clone();
                move || read_text(&path, MIB)
            });
            let has_it_open = |entry: std::io::Result<std::fs::DirEntry>| {
                entry.ok().and_then(|entry| std::fs::read_link(entry.path()).ok()).is_some_and(|target| target == path)
            };
            let open = || std::fs::read_dir("/proc/self/fd").unwrap().map(has_it_open).filter(|it| *it);
            wait_until("the reader", || open().count() == 2);
            writer.write_all(text.as_bytes()).unwrap();
            drop(writer);
            assert_eq!(reader.join().unwrap(), Ok(text.to_owned()));
        }
    }

    #[test]
    fn a_head_is_read_before_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let long: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
        std::fs::write(&path, &long).unwrap();
        let mut file = UserFile::open(&path, MIB).unwrap();
        assert_eq!(file.head(4).unwrap(), [0, 1, 2, 3]);
        assert_eq!(file.head(100_000).unwrap(), &long[..100_000]);
        assert_eq!(file.into_bytes().unwrap(), long);
        assert_eq!(UserFile::open(&path, MIB).unwrap().head(1 << 20).unwrap(), long);
        assert_eq!(read(&path, 200_000).unwrap(), long);
        assert_eq!(read(&path, 199_999), Err(UserFileError::TooLong { limit_bytes: 199_999 }));
        assert_eq!(read_text(&path, MIB), Err(UserFileError::NoText));
        let (mut piecewise, mut opened) = (Vec::new(), UserFile::open(&path, 200_000).unwrap());
        opened.head(1000).unwrap();
        opened.into_reader().read_to_end(&mut piecewise).unwrap();
        assert_eq!(piecewise, long);
    }

    #[test]
    fn a_reader_stops_at_the_limit() {
        let mut zeros = UserFile::open(Path::new("/dev/zero"), MIB).unwrap().into_reader();
        let mut taken = Vec::new();
        let refused = zeros.read_to_end(&mut taken).unwrap_err();
        assert_eq!(refused.to_string(), format!("longer than {MIB} bytes"));
        assert!(taken.len() as u64 <= MIB, "{}", taken.len());
    }

    #[test]
    fn a_sparse_file_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        std::fs::write(&path, "PERFILE2").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        let refused = read(&path, 1 << 41);
        if !matches!(refused, Err(UserFileError::Sparse { length_bytes, .. }) if length_bytes == 1 << 40) {
            panic!("{refused:?}");
        }
    }
}
