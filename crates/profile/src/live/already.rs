//! What was there before the recording began: names of threads and what is mapped, from /proc, as the records that the kernel would have
//! written.

use std::path::Path;

use crate::perf::layout::Layout;
use crate::perf::record::{MISC_USER, kind};
use crate::perf::write::record;

/// `misc`: what is mapped is no code (`PERF_RECORD_MISC_MMAP_DATA`).
const MISC_MMAP_DATA: u16 = 1 << 13;
/// `misc`: the CPU was in the kernel (`PERF_RECORD_MISC_KERNEL`).
const MISC_KERNEL: u16 = 1;
/// A name with the zero behind it (`TASK_COMM_LEN`).
const NAME_BYTES: usize = 16;
/// More of one process's is not read: /proc/sys/vm/max_map_count allows 65,530 unless somebody raised it.
const MAPS_MAX: usize = 1 << 17;
/// More records than this are not made of what was there before.
const BYTES_MAX: usize = 256 << 20;

/// Which mappings are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mappings {
    /// Of code.
    Code,
    /// All: an address of data is to be told by its mapping.
    All,
}

/// The processes that there are.
pub(super) fn processes() -> Vec<u32> {
    numbers(Path::new("/proc"))
}

/// The threads of a process; none if it is gone.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// A thread's name, as it is now.
pub(super) fn name(pid: u32, tid: u32) -> Option<Vec<u8>> {
    let mut name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    name.truncate(NAME_BYTES);
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    Some(name)
}

/// What is missing of those that were there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Processes whose mappings this user may not read.
    pub(super) denied: u64,
    /// Processes that there was no room for.
    pub(super) left_out: u64,
}

/// The records of these processes.
pub(super) fn records(pids: &[u32], mappings: Mappings, layout: &Layout) -> (Vec<u8>, Missing) {
    let mut bytes = Vec::new();
    let mut missing = Missing::default();
    for pid in pids {
        if bytes.len() > BYTES_MAX {
            missing.left_out += 1;
            continue;
        }
        for tid in threads(*pid) {
            let Some(name) = name(*pid, tid) else { continue };
            let mut body = [pid.to_ne_bytes(), tid.to_ne_bytes()].concat();
            body.extend(&name);
            body.resize(8 + NAME_BYTES, 0);
            bytes.extend(record(kind::COMM, 0, &body, layout).unwrap_or_default());
        }
        match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
            Ok(text) => {
                let maps = text.lines().take(MAPS_MAX).filter_map(parse_map);
                let wanted = maps.filter(|map| map.is_code || mappings == Mappings::All);
                bytes.extend(wanted.flat_map(|map| map.record(*pid, layout).unwrap_or_default()));
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => missing.denied += 1,
            // It has ended, or it is a thread of the kernel's.
            Err(_) => {}
        }
    }
    (bytes, missing)
}

/// The kernel's own code, by which perf knows that addresses are this kernel's; none if this user may not see where it is.
pub(super) fn kernel(layout: &Layout) -> Vec<u8> {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let Some((name, start, end)) = parse_kernel(&text) else { return Vec::new() };
    let mut body = [u32::MAX.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
    body.extend([start, end - start, start].iter().flat_map(|word| word.to_ne_bytes()));
    body.extend(format!("[kernel.kallsyms]{name}\0").bytes());
    record(kind::MMAP, MISC_KERNEL, &body, layout).unwrap_or_default()
}

/// Where the kernel's code begins, by which name, and where it ends.
fn parse_kernel(text: &str) -> Option<(&'static str, u64, u64)> {
    let at = |wanted: &str| {
        let of = |line: &str| {
            let mut parts = line.split_ascii_whitespace();
            let (address, _kind, name) = (parts.next()?, parts.next()?, parts.next()?);
            (name == wanted && parts.next().is_none()).then(|| u64::from_str_radix(address, 16).ok())?
        };
        text.lines().find_map(of).filter(|address| *address != 0)
    };
    let (name, start) = ["_text", "_stext"].into_iter().find_map(|name| Some((name, at(name)?)))?;
    let end = at("_etext").filter(|end| *end > start)?;
    Some((name, start, end))
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Map<'a> {
    start: u64,
    end: u64,
    file_offset: u64,
    device: (u32, u32),
    inode: u64,
    /// `PROT_*`: read 1, write 2, run 4.
    protection: u32,
    is_code: bool,
    path: &'a str,
}

/// A line of /proc/PID/maps.
fn parse_map(line: &str) -> Option<Map<'_>> {
    let (range, rest) = line.split_once(' ')?;
    let (rights, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (device, rest) = rest.split_once(' ')?;
    let (inode, path) = rest.split_once(' ').unwrap_or((rest, ""));
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let right = |letter: char, bit: u32| if rights.contains(letter) { bit } else { 0 };
    let (start, end) = (hex(start)?, hex(end)?);
    (start < end).then_some(())?;
    Some(Map {
        start,
        end,
        file_offset: hex(offset)?,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode: inode.parse().ok()?,
        protection: right('r', 1) | right('w', 2) | right('x', 4),
        is_code: rights.contains('x'),
        path: path.trim_start(),
    })
}

impl Map<'_> {
    /// As the kernel would have told it. Memory of no file has the name that the kernel gives it.
    fn record(&self, pid: u32, layout: &Layout) -> Option<Vec<u8>> {
        let mut body = [pid.to_ne_bytes(), pid.to_ne_bytes()].concat();
        body.extend([self.start, self.end - self.start, self.file_offset].iter().flat_map(|word| word.to_ne_bytes()));
        body.extend([self.device.0, self.device.1].iter().flat_map(|half| half.to_ne_bytes()));
        body.extend([self.inode, 0].iter().flat_map(|word| word.to_ne_bytes()));
        body.extend([self.protection, MAP_PRIVATE].iter().flat_map(|half| half.to_ne_bytes()));
        body.extend(if self.path.is_empty() { "//anon" } else { self.path }.bytes());
        body.push(0);
        let misc = MISC_USER | if self.is_code { 0 } else { MISC_MMAP_DATA };
        record(kind::MMAP2, misc, &body, layout)
    }
}

const MAP_PRIVATE: u32 = 2;
