//! `BuildIds`: the build IDs of files that were mapped before the recording.
//! The IDs are read from the mapped files themselves, so replaced files are recognized. For later mappings, the kernel writes build IDs.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use evenkeel_sys::clock;
use object::LittleEndian;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};

use crate::binaries::place;
use crate::perf::write::BuildId;
use crate::symbols::parse_build_id;

/// The maximum number of files to read.
const FILES_MAX: usize = 8192;
/// The maximum time for reading, because a file may be on a network file system.
const READ_NS_MAX: u64 = 1_000_000_000;
/// The maximum number of program headers, and the maximum number of bytes of notes.
const SEGMENTS_MAX: usize = 4096;
const NOTES_BYTES_MAX: u64 = 1 << 20;
/// The maximum length of a build ID in a record (`BUILD_ID_SIZE_MAX`).
const ID_BYTES_MAX: usize = 20;

/// A mapping from /proc/PID/maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped<'m> {
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Major and minor number of the file's device.
    pub(super) device: (u32, u32),
    pub(super) inode: u64,
    pub(super) path: &'m str,
}

/// Identifies a file: major and minor number of the device, and the inode number.
type Inode = ((u32, u32), u64);

/// The build IDs that were read, by file.
#[derive(Debug, Default)]
pub(super) struct BuildIds {
    by_file: HashMap<Inode, Option<Vec<u8>>>,
    /// The build ID by path. None if several files have this path, as in containers.
    by_path: BTreeMap<String, Option<Vec<u8>>>,
    began_ns: Option<u64>,
    left_out: u64,
}

impl BuildIds {
    /// The build ID of a mapped file. None if the file has no build ID or is unreadable.
    pub(super) fn build_id(&mut self, mapped: &Mapped<'_>) -> Option<Vec<u8>> {
        if !mapped.path.starts_with('/') || mapped.inode == 0 {
            return None;
        }
        let file = (mapped.device, mapped.inode);
        let found = match self.by_file.get(&file) {
            Some(known) => known.clone(),
            None => {
                let began_ns = *self.began_ns.get_or_insert_with(clock::monotonic_ns);
                if self.by_file.len() >= FILES_MAX || clock::monotonic_ns() - began_ns > READ_NS_MAX {
                    self.left_out += 1;
                    return None;
                }
                let found = opened(mapped).and_then(of_file);
                self.by_file.insert(file, found.clone());
                found
            }
        };
        let of_path = self.by_path.entry(mapped.path.to_owned()).or_insert_with(|| found.clone());
        if *of_path != found {
            *of_path = None;
        }
        found
    }

    /// The number of mappings whose file was not read, because a limit was reached.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The build IDs by path, for the table in the `perf.data` file, including the kernel's.
    pub(super) fn table(&self) -> Vec<BuildId> {
        let kernel = std::fs::read("/sys/kernel/notes").ok().as_deref().and_then(parse_build_id);
        let kernel = kernel.map(|id| BuildId { path: "[kernel.kallsyms]".to_owned(), id, is_kernel: true });
        let files = self.by_path.iter().filter_map(|(path, id)| {
            // The path of a deleted file may now lead to another file.
            let id = id.clone().filter(|_| !path.ends_with(" (deleted)"))?;
            Some(BuildId { path: path.clone(), id, is_kernel: false })
        });
        kernel.into_iter().chain(files).filter(|one| one.id.len() <= ID_BYTES_MAX).collect()
    }
}

/// Opens exactly the mapped file.
/// The kernel's link is used if permitted. Otherwise, the path as the process sees it is used, if the same file is still there.
fn opened(mapped: &Mapped<'_>) -> Option<File> {
    let Mapped { pid, start, end, device, inode, path } = *mapped;
    let held = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    if let Ok(opened) = place::open(Path::new(&held)) {
        return Some(opened.file);
    }
    let file = place::open(Path::new(&format!("/proc/{pid}/root{path}"))).ok()?.file;
    let about = file.metadata().ok()?;
    let of = (rustix::fs::major(about.dev()), rustix::fs::minor(about.dev()));
    (of == device && about.ino() == inode).then_some(file)
}

/// Reads the build ID of an ELF file with this machine's byte order. Only its header, program headers and notes are read.
fn of_file(file: File) -> Option<Vec<u8>> {
    of_data(&ReadCache::new(file))
}

fn of_data<'a, R: ReadRef<'a>>(data: R) -> Option<Vec<u8>> {
    let found = match object::FileKind::parse(data).ok()? {
        object::FileKind::Elf64 => of_header::<FileHeader64<LittleEndian>, R>(data),
        object::FileKind::Elf32 => of_header::<FileHeader32<LittleEndian>, R>(data),
        _ => None,
    };
    found.filter(|id| !id.is_empty())
}

fn of_header<'a, Header: FileHeader<Endian = LittleEndian>, R: ReadRef<'a>>(data: R) -> Option<Vec<u8>> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, data).ok()?.iter().take(SEGMENTS_MAX) {
        let (_, length) = segment.file_range(endian);
        if segment.p_type(endian) != elf::PT_NOTE || length > NOTES_BYTES_MAX {
            continue;
        }
        let Ok(Some(mut notes)) = segment.notes(endian, data) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The mapping of our own program, and its build ID.
    fn own() -> (String, Vec<u8>) {
        let path = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with(path.to_str().unwrap())).unwrap().to_owned();
        (line, std::fs::read(path).unwrap())
    }

    fn mapped(line: &str) -> Mapped<'_> {
        let map = super::super::already::parse_map(line).unwrap();
        map.mapped(std::process::id())
    }

    #[test]
    fn a_mapped_file_is_read_by_what_is_mapped_and_not_by_its_name() {
        let (line, bytes) = own();
        let expected = of_data(bytes.as_slice());
        assert!(expected.as_ref().is_some_and(|id| (8..=20).contains(&id.len())), "{expected:?}");
        let mut ids = BuildIds::default();
        assert_eq!(ids.build_id(&mapped(&line)), expected);
        let path = std::env::current_exe().unwrap();
        let own = |ids: &BuildIds| ids.table().into_iter().find(|one| path.to_str() == Some(&one.path));
        assert_eq!(own(&ids).map(|one| one.id), expected);
        // Another file has the same path, as in a container. So the path alone identifies neither of the two files.
        let map = mapped(&line);
        let other = Mapped { start: 1, end: 2, inode: map.inode + 1, ..map };
        assert_eq!(ids.build_id(&other), None, "it is not the file that is at its path");
        assert_eq!(own(&ids), None);
        for other in [Mapped { path: "[vdso]", ..map }, Mapped { path: "", ..map }, Mapped { inode: 0, ..map }] {
            assert_eq!(ids.build_id(&other), None, "{other:?} is not a file");
        }
        assert_eq!(ids.left_out(), 0);
    }

    proptest! {
        /// A header with arbitrary values.
        #[test]
        fn no_file_makes_it_panic(at in 0_usize..1024, with in prop::collection::vec(any::<u8>(), 1..64), length in 0_usize..4096) {
            static OWN: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
            let mut bytes = OWN.get_or_init(|| own().1)[..length.max(at + 64)].to_vec();
            bytes.splice(at..at + with.len(), with);
            let _ = of_data(bytes.as_slice());
        }
    }
}
