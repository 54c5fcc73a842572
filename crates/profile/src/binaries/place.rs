//! Finds where a file of a recording is now: on this machine, or in the root of a running process, such as a container's process.
//! No link is followed out of that root, and only regular files are opened.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use evenkeel_hostfs::proc::{self, ProcessStat, Stat, field};
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// The maximum number of bytes to read of one of the kernel's text files.
const TEXT_MAX_BYTES: u64 = 4 << 20;
/// A file's timestamp and a process's start count as equal up to this difference.
const SLACK: Duration = Duration::from_secs(2);

/// The error for a folder, a device or a pipe.
const NO_FILE: &str = "it is not a regular file";

/// Why a file could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotOpen {
    /// The file does not exist.
    Gone,
    /// The user may not read the file.
    Denied,
    /// The path is not a regular file, or reading failed.
    Other(String),
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The file.
    pub(crate) file: File,
    /// The owner of the file.
    pub(crate) uid: u32,
    /// When the file or its metadata was last changed (ctime).
    pub(crate) changed: SystemTime,
}

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    /// The pid of the process as seen from here.
    pub(crate) pid: u32,
    /// The user of the process.
    pub(crate) uid: u32,
    /// The pid of the process in its own pid namespace.
    pub(crate) own_pid: u32,
    /// Whether the process has another root directory than this process.
    pub(crate) has_own_root: bool,
}

/// Opens a regular file, and never waits for another process.
///
/// # Errors
/// If the file can't be opened, or is not a regular file.
pub(crate) fn open(path: &Path) -> Result<Opened, NotOpen> {
    // Opening a device may have an effect, and an untrusted recording may contain any path.
    if std::fs::metadata(path).is_ok_and(|known| !known.is_file()) {
        return Err(NotOpen::Other(NO_FILE.to_owned()));
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    file.map_err(|error| why(&error)).and_then(checked)
}

/// Opens a path as the process sees it.
///
/// # Errors
/// If the file can't be opened, or is not a regular file.
pub(crate) fn open_of(live: &Live, path: &str) -> Result<Opened, NotOpen> {
    let root = File::open(format!("/proc/{}/root", live.pid)).map_err(|error| why(&error))?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve);
    file.map_err(|errno| why(&errno.into())).and_then(|file| checked(file.into()))
}

fn why(error: &std::io::Error) -> NotOpen {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => NotOpen::Gone,
        std::io::ErrorKind::PermissionDenied => NotOpen::Denied,
        _ => NotOpen::Other(error.to_string()),
    }
}

fn checked(file: File) -> Result<Opened, NotOpen> {
    let known = file.metadata().map_err(|error| why(&error))?;
    if !known.is_file() {
        return Err(NotOpen::Other(NO_FILE.to_owned()));
    }
    let since_1970 = Duration::new(known.ctime().try_into().unwrap_or(0), known.ctime_nsec().try_into().unwrap_or(0));
    Ok(Opened { file, uid: known.uid(), changed: SystemTime::UNIX_EPOCH + since_1970 })
}

/// The live process with this pid. None if it started after the recording ended, because the kernel may have reused the pid.
pub(crate) fn live(pid: u32, recorded_until: Option<SystemTime>) -> Option<Live> {
    let status = text(&format!("/proc/{pid}/status"))?;
    let machine = proc::parse_stat(&text("/proc/stat")?)?;
    let started = started(&ProcessStat::read(pid)?, &machine)?;
    if recorded_until.is_some_and(|until| started > until + SLACK) {
        return None;
    }
    let (uid, own_pid) = parse_status(&status)?;
    let same = |what: &str| {
        let of = |who: &str| std::fs::read_link(format!("/proc/{who}/{what}")).ok();
        of(&pid.to_string()).is_none_or(|theirs| of("self") == Some(theirs))
    };
    let place = |path: &str| std::fs::metadata(path).ok().map(|root| (root.dev(), root.ino()));
    let root = place(&format!("/proc/{pid}/root/"));
    let has_own_root = !same("ns/mnt") || root.is_some() && root != place("/");
    Some(Live { pid, uid, own_pid, has_own_root })
}

/// Reads a short text file of the kernel.
pub(crate) fn text(path: &str) -> Option<String> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(TEXT_MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The user and the pid in the innermost pid namespace, from `/proc/PID/status`.
fn parse_status(status: &str) -> Option<(u32, u32)> {
    let words = |key: &str| field(status, key, ':').map(str::split_ascii_whitespace);
    let uid = words("Uid")?.nth(1)?.parse().ok()?;
    let own_pid = words("NSpid").or_else(|| words("Pid"))?.next_back()?.parse().ok()?;
    Some((uid, own_pid))
}

/// When a process was started.
fn started(process: &ProcessStat, machine: &Stat) -> Option<SystemTime> {
    let seconds = process.start_ticks / (1_000_000_000 / proc::TICK_NS);
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(machine.boot_s?.checked_add(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_status() {
        let status = "Name:\tserver\nPid:\t4711\nUid:\t0\t1000\t0\t0\nNSpid:\t4711\t17\n";
        assert_eq!(parse_status(status), Some((1000, 17)));
        assert_eq!(parse_status("Name:\tserver\nPid:\t4711\nUid:\t0\t0\t0\t0\n"), Some((0, 4711)));
        assert_eq!(parse_status("Uid:\n"), None);
        let process = ProcessStat { start_ticks: 500, ..ProcessStat::read(std::process::id()).unwrap() };
        let machine = Stat { boot_s: Some(1000), ..Stat::default() };
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1005);
        assert_eq!(started(&process, &machine), Some(at));
        assert_eq!(started(&process, &Stat::default()), None);
    }

    #[test]
    fn this_process_runs_and_one_started_later_is_another() {
        let own = std::process::id();
        let live_now = live(own, None).unwrap();
        assert_eq!((live_now.pid, live_now.has_own_root), (own, false));
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(live(own, Some(long_ago)), None);
        assert!(open_of(&live_now, "/proc/self/exe").is_err(), "links of the kernel's lead out of a root");
    }

    #[test]
    fn only_regular_files_are_opened() {
        assert!(matches!(open(Path::new("/dev/zero")), Err(NotOpen::Other(_))));
        assert!(matches!(open(Path::new("/")), Err(NotOpen::Other(_))));
        assert_eq!(open(Path::new("/nonexistent")).map(|_| ()), Err(NotOpen::Gone));
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(matches!(open(&pipe), Err(NotOpen::Other(_))), "a pipe without a writer is not waited for");
    }
}
