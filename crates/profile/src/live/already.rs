//! Writes records for what existed before the recording: thread names and mappings.
//! The state is read from /proc, and written in the kernel's form.

use std::io::BufRead;

use evenkeel_hostfs::proc;
use evenkeel_sys::schedstat;

use super::build_ids::{BuildIds, Mapped};
use crate::perf::layout::Layout;
use crate::perf::record::{MISC_MMAP_BUILD_ID, MISC_USER, kind};
use crate::perf::write::record;

/// `flags` of a mapping: writes to it are private to the process.
const MAP_PRIVATE: u32 = 2;
/// `misc`: the mapping is not of code (`PERF_RECORD_MISC_MMAP_DATA`).
const MISC_MMAP_DATA: u16 = 1 << 13;
/// `misc`: the CPU was in the kernel (`PERF_RECORD_MISC_KERNEL`).
const MISC_KERNEL: u16 = 1;
/// The length of a thread name including the terminating zero (`TASK_COMM_LEN`).
const NAME_BYTES: usize = 16;
/// The assumed length of the kernel's code if the real length is unknown.
/// No kernel is longer, and no kernel module lies within this length (x86-64, ARM64).
const KERNEL_BYTES: u64 = 64 << 20;
/// The maximum number of mappings to read of one process. The default of vm.max_map_count is 65,530.
const MAPS_MAX: usize = 1 << 17;
/// The maximum size of all these records, in bytes.
const BYTES_MAX: usize = 256 << 20;

/// Which mappings to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mappings {
    /// Only mappings of code.
    Code,
    /// All mappings, because addresses of data are looked up too.
    All,
}

/// The pids of all processes.
pub(super) fn processes() -> Vec<u32> {
    sorted(proc::processes())
}

/// The tids of a process's threads. Empty if the process has ended.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    sorted(proc::threads(pid))
}

/// The current name of a thread.
pub(super) fn name(pid: u32, tid: u32) -> Option<Vec<u8>> {
    let mut name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    name.truncate(NAME_BYTES);
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    Some(name)
}

/// The CPU time of a thread so far. 0 if the thread has ended, or if the kernel does not report the time.
pub(super) fn cpu_ns(tid: u32) -> u64 {
    schedstat::of_thread(tid).unwrap_or_default().0
}

/// The processes whose mappings are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Processes whose mappings the user may not read.
    pub(super) denied: Vec<u32>,
    /// The number of processes whose mappings are missing because of the limit on the records.
    pub(super) left_out: u64,
}

/// Whether to write the mappings of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The mappings are not needed.
    No,
    /// Write the mappings if they are readable. Failures are not reported.
    IfMay,
    /// Write the mappings, and report failures.
    Yes,
}

/// The records of these processes: the names of all threads, and the wanted mappings with build IDs.
pub(super) fn records(
    pids: &[u32],
    wants_maps: &dyn Fn(u32) -> Wanted,
    mappings: Mappings,
    layout: &Layout,
    build_ids: &mut BuildIds,
) -> (Vec<u8>, Missing) {
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
        let wanted = wants_maps(*pid);
        if wanted == Wanted::No {
            continue;
        }
        match std::fs::read(format!("/proc/{pid}/maps")) {
            Ok(text) => {
                // A path may contain any bytes.
                let text = String::from_utf8_lossy(&text);
                let maps = text.lines().take(MAPS_MAX).filter_map(parse_map);
                for map in maps.filter(|map| map.is_code || mappings == Mappings::All) {
                    let build_id = if map.is_code { build_ids.build_id(&map.mapped(*pid)) } else { None };
                    bytes.extend(map.record(*pid, build_id.as_deref(), layout).unwrap_or_default());
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                missing.denied.extend((wanted == Wanted::Yes).then_some(*pid));
            }
            // The process has ended, or it is a kernel thread.
            Err(_) => {}
        }
    }
    (bytes, missing)
}

/// The mapping of the kernel's code, by which perf recognizes kernel addresses. Empty if the user may not see its address.
pub(super) fn kernel(layout: &Layout) -> Vec<u8> {
    let symbols = std::fs::File::open("/proc/kallsyms").map(std::io::BufReader::new);
    let Some((name, start)) = symbols.ok().and_then(parse_kernel_start) else { return Vec::new() };
    let length = std::fs::read_to_string("/proc/iomem").ok().and_then(|text| parse_kernel_length(&text));
    let length = length.unwrap_or(KERNEL_BYTES);
    let mut body = [u32::MAX.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
    body.extend([start, length, start].iter().flat_map(|word| word.to_ne_bytes()));
    body.extend(format!("[kernel.kallsyms]{name}\0").bytes());
    record(kind::MMAP, MISC_KERNEL, &body, layout).unwrap_or_default()
}

/// The start of the kernel's code, and the symbol there.
/// The symbol is near the beginning of the file, so only the first lines are read.
/// The file has about 200,000 lines, and the kernel generates each line when it is read.
fn parse_kernel_start(text: impl BufRead) -> Option<(&'static str, u64)> {
    const LINES_MAX: usize = 20_000;
    let mut other = None;
    for line in text.lines().take(LINES_MAX).map_while(Result::ok) {
        let mut parts = line.split_ascii_whitespace();
        let (Some(address), Some(_kind), Some(name)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let address = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0);
        match name {
            "_text" => return address.map(|address| ("_text", address)),
            "_stext" => other = address.map(|address| ("_stext", address)),
            _ => {}
        }
    }
    other
}

/// The length of the kernel's code in bytes, from its physical addresses. None if the user may not see these addresses.
fn parse_kernel_length(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.ends_with(": Kernel code"))?;
    let (start, end) = line.trim_start().split_once(" : ")?.0.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    hex(end)?.checked_sub(hex(start)?).filter(|length| *length > 0)?.checked_add(1)
}

fn sorted(numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut found: Vec<u32> = numbers.collect();
    found.sort_unstable();
    found
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Map<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    file_offset: u64,
    device: (u32, u32),
    pub(super) inode: u64,
    /// `PROT_*` bits: read 1, write 2, execute 4.
    protection: u32,
    pub(super) is_code: bool,
    pub(super) path: &'a str,
}

/// Parses a line of /proc/PID/maps.
pub(super) fn parse_map(line: &str) -> Option<Map<'_>> {
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

impl<'m> Map<'m> {
    /// The mapped file, for this process.
    pub(super) fn mapped(&self, pid: u32) -> Mapped<'m> {
        let Map { start, end, device, inode, path, .. } = *self;
        Mapped { pid, start, end, device, inode, path }
    }

    /// The mapping as a record in the kernel's format: with the file's build ID, or with the file's device and inode.
    /// For anonymous memory, the record has the name that the kernel uses.
    fn record(&self, pid: u32, build_id: Option<&[u8]>, layout: &Layout) -> Option<Vec<u8>> {
        /// The field has four bytes for the ID's length, and then this many bytes for the ID.
        const BUILD_ID_BYTES: usize = 20;
        let build_id = build_id.filter(|id| id.len() <= BUILD_ID_BYTES);
        let mut body = [pid.to_ne_bytes(), pid.to_ne_bytes()].concat();
        body.extend([self.start, self.end - self.start, self.file_offset].iter().flat_map(|word| word.to_ne_bytes()));
        match build_id {
            Some(id) => {
                body.extend([id.len() as u8, 0, 0, 0]);
                body.extend_from_slice(id);
                body.resize(body.len() + BUILD_ID_BYTES - id.len(), 0);
            }
            None => {
                body.extend([self.device.0, self.device.1].iter().flat_map(|half| half.to_ne_bytes()));
                body.extend([self.inode, 0].iter().flat_map(|word| word.to_ne_bytes()));
            }
        }
        body.extend([self.protection, MAP_PRIVATE].iter().flat_map(|half| half.to_ne_bytes()));
        body.extend(if self.path.is_empty() { "//anon" } else { self.path }.bytes());
        body.push(0);
        let of_id = if build_id.is_some() { MISC_MMAP_BUILD_ID } else { 0 };
        let misc = MISC_USER | of_id | if self.is_code { 0 } else { MISC_MMAP_DATA };
        record(kind::MMAP2, misc, &body, layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::layout::sample;
    use crate::perf::record::{self, What};

    #[test]
    fn a_mapping_becomes_the_record_that_the_kernel_would_have_written() {
        let layout = Layout { sample_type: sample::TID | sample::TIME, flags: 1 << 18, ..Layout::default() };
        let table = [
            (
                "55d0c0a00000-55d0c0a25000 r-xp 00002000 fe:00 1234                       /usr/bin/da sh (deleted)",
                Some((0x55d0_c0a0_0000, 0x25000, 0x2000, "/usr/bin/da sh (deleted)", true)),
            ),
            ("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ", Some((0x7f00_0000_0000, 0x1000, 0, "//anon", false))),
            ("7ffc0000-7ffd0000 r-xp 00000000 00:00 0 [vdso]", Some((0x7ffc_0000, 0x10000, 0, "[vdso]", true))),
            ("2000-1000 r-xp 00000000 00:00 0 ", None),
            ("1000-2000 r-xp 00000000 00", None),
            ("", None),
        ];
        for (line, expected) in table {
            let map = parse_map(line);
            let bytes = map.as_ref().and_then(|map| map.record(7, None, &layout));
            let said = bytes.as_deref().map(|bytes| record::parse(bytes, &layout, 0).unwrap());
            let seen = said.map(|record| match record.what {
                What::Mapped(mapped) => {
                    let path = std::str::from_utf8(mapped.path).unwrap();
                    assert!(mapped.pid == 7 && !mapped.is_kernel);
                    (mapped.start, mapped.length, mapped.file_offset, path)
                }
                what => panic!("{what:?}"),
            });
            assert_eq!(seen, expected.map(|(start, length, offset, path, _)| (start, length, offset, path)), "{line}");
            assert_eq!(map.as_ref().map(|map| map.is_code), expected.map(|(.., is_code)| is_code));
            for id in [&[7; 20][..], &[1, 2, 3, 4, 5, 6, 7, 8]] {
                let Some(bytes) = map.as_ref().and_then(|map| map.record(7, Some(id), &layout)) else { continue };
                let What::Mapped(mapped) = record::parse(&bytes, &layout, 0).unwrap().what else { panic!("{line}") };
                assert_eq!((mapped.build_id, mapped.start), (Some(id), expected.unwrap().0), "{line}");
            }
        }
    }

    #[test]
    fn we_are_among_those_that_were_there() {
        let layout = Layout { sample_type: sample::TID, flags: 1 << 18, ..Layout::default() };
        let us = std::process::id();
        assert!(processes().contains(&us));
        let mut ids = BuildIds::default();
        let (bytes, missing) = records(&[us, u32::MAX], &|_| Wanted::Yes, Mappings::Code, &layout, &mut ids);
        assert_eq!(missing, Missing::default(), "one that has ended is not missing");
        let program = std::env::current_exe().unwrap();
        let (mut named, mut mapped, mut rest) = (0, 0, bytes.as_slice());
        while !rest.is_empty() {
            let length = record::Head::parse(rest, 0).unwrap().length;
            match record::parse(rest, &layout, 0).unwrap().what {
                What::Named { pid, .. } => named += usize::from(pid == us),
                What::Mapped(map) => mapped += usize::from(map.path == program.as_os_str().as_encoded_bytes()),
                what => panic!("{what:?}"),
            }
            rest = &rest[length..];
        }
        assert!(named >= 2 && mapped >= 1, "{named} names, {mapped} pieces of our program");
    }

    #[test]
    fn the_kernels_place_is_read_if_this_user_may_see_it() {
        let start = |text: &str| parse_kernel_start(text.as_bytes());
        assert_eq!(start("0 A cpu\nff00 T _stext\nff00 T _text\n"), Some(("_text", 0xff00)));
        assert_eq!(start("ff00 T _stext\nff10 T other\n"), Some(("_stext", 0xff00)));
        assert_eq!(start("0000 T _text\n"), None, "the kernel hides it from this user");
        let length = |text: &str| parse_kernel_length(text);
        assert_eq!(length("00000000-00000fff : Reserved\n  01000000-021fffff : Kernel code\n"), Some(0x120_0000));
        assert_eq!(length("  00000000-00000000 : Kernel code\n"), None);
        assert_eq!(length("  x-y : Kernel code\n"), None);
    }
}
