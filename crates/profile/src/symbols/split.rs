//! `Split`: split DWARF. Each unit of a program has its own file (`.dwo`), or one package has all units (`PROGRAM.dwp`).
//! The program names each unit by an ID, and only a unit with that ID is used.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use addr2line::SplitDwarfLoad;
use addr2line::gimli::{Dwarf, DwarfPackageSections, DwarfSections, DwoId, EndianSlice, RunTimeEndian, SectionId};
use object::read::ReadRef;

use super::elf::{Image, unpacked_max_bytes};
use crate::binaries::source::{Odd, Source, source};

/// The maximum number of unit files of one program.
const FILES_MAX: usize = 4096;
/// The maximum length of a unit file in bytes. Usual files have some hundred kilobytes.
const FILE_MAX_BYTES: u64 = 256 << 20;
/// The kernel's limit for paths.
const PATH_MAX_BYTES: usize = 4096;

/// Reads sections of debug information.
pub(super) type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// Opens a file next to the program, on this machine or in a container.
pub(super) type Open<'o> = &'o dyn Fn(&Path) -> Option<File>;

/// The units of a program.
#[derive(Clone, Copy)]
pub(super) struct Split<'o, 'a> {
    /// The package with all units.
    pub(super) package: Option<&'a Image<'a, &'a Source>>,
    /// Opens single unit files.
    pub(super) open: Open<'o>,
    /// The program.
    pub(super) program: &'o Path,
}

/// Opens the package of a program. The package is named after the program or after its debug file.
pub(super) fn package(open: Open<'_>, programs: &[&Path]) -> Option<Source> {
    programs.iter().find_map(|program| {
        let source = source(open(&package_path(program))?).ok()?;
        Image::parse(&source).is_ok().then_some(source)
    })
}

/// The name of the package.
pub(super) fn package_path(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".dwp");
    name.into()
}

/// Reads a package. All sections in its index must exist, because a unit's offsets in all sections are looked up together.
///
/// # Errors
/// If a section is missing or too long.
pub(super) fn packed<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    left_bytes: &mut u64,
) -> Result<DwarfPackageSections<Cow<'a, [u8]>>, Odd> {
    DwarfPackageSections::load(|id| section(id, image, left_bytes))
}

fn section<'a, R: ReadRef<'a>>(id: SectionId, image: &Image<'a, R>, left: &mut u64) -> Result<Cow<'a, [u8]>, Odd> {
    id.dwo_name().map_or(Ok(Cow::Borrowed(&[])), |name| image.section(name, left))
}

/// The sections of one unit file.
type Place = OnceCell<DwarfSections<Vec<u8>>>;

/// The unit files of a program. Each file is read on demand and closed at once, because a process may open only a limited number of files.
pub(super) struct Units<'o> {
    open: Open<'o>,
    program_folder: PathBuf,
    /// A slot for each unit. Slots do not move while other units are read.
    read: OnceCell<Box<[Place]>>,
    left_files: Cell<usize>,
    left_bytes: Cell<u64>,
}

impl<'o> Units<'o> {
    pub(super) fn new(split: Split<'o, '_>) -> Units<'o> {
        Units {
            open: split.open,
            program_folder: split.program.parent().unwrap_or(Path::new("/")).to_owned(),
            read: OnceCell::new(),
            left_files: Cell::new(FILES_MAX),
            left_bytes: Cell::new(unpacked_max_bytes()),
        }
    }

    /// The requested unit. None if its file was not found.
    pub(super) fn load<'s>(
        &'s self,
        wanted: &SplitDwarfLoad<Reader<'s>>,
        endian: RunTimeEndian,
    ) -> Option<Dwarf<Reader<'s>>> {
        let sections = self.paths(wanted).into_iter().find_map(|path| self.read(&path, wanted.dwo_id, endian))?;
        let places = self.read.get_or_init(|| std::iter::repeat_with(OnceCell::new).take(FILES_MAX).collect());
        let place = places.iter().find(|place| place.get().is_none())?;
        let mut unit = borrowed(place.get_or_init(|| sections), endian);
        unit.make_dwo(&wanted.parent);
        Some(unit)
    }

    /// The paths at which a unit's file may be: where the build wrote it, and next to the program.
    fn paths(&self, wanted: &SplitDwarfLoad<Reader<'_>>) -> Vec<PathBuf> {
        let path = |bytes: &Reader<'_>| PathBuf::from(OsStr::from_bytes(bytes.slice()));
        let Some(name) = wanted.path.as_ref().map(path) else { return Vec::new() };
        let folder = wanted.comp_dir.as_ref().map(path).unwrap_or_default();
        let named = Some(folder.join(&name)).filter(|named| named.is_absolute());
        let near =
            name.file_name().map(|name| self.program_folder.join(name)).filter(|near| named.as_ref() != Some(near));
        let all = named.into_iter().chain(near);
        all.filter(|path| path.as_os_str().len() < PATH_MAX_BYTES).collect()
    }

    fn read(&self, path: &Path, id: DwoId, endian: RunTimeEndian) -> Option<DwarfSections<Vec<u8>>> {
        self.left_files.set(self.left_files.get().checked_sub(1)?);
        let file = (self.open)(path)?;
        let length = file.metadata().ok()?.len();
        let mut left_bytes = self.left_bytes.get().checked_sub(length).filter(|_| length <= FILE_MAX_BYTES)?;
        let source = source(file).ok()?;
        let image = Image::parse(&source).ok()?;
        let sections = DwarfSections::load(|id| section(id, &image, &mut left_bytes).map(Cow::into_owned)).ok();
        self.left_bytes.set(left_bytes);
        sections.filter(|sections| is_of(sections, id, endian))
    }
}

/// Whether these sections are of the unit with this ID.
fn is_of(sections: &DwarfSections<Vec<u8>>, id: DwoId, endian: RunTimeEndian) -> bool {
    let dwarf = borrowed(sections, endian);
    let head = dwarf.units().next().ok().flatten();
    head.and_then(|head| dwarf.unit(head).ok()).is_some_and(|unit| unit.dwo_id == Some(id))
}

fn borrowed(sections: &DwarfSections<Vec<u8>>, endian: RunTimeEndian) -> Dwarf<Reader<'_>> {
    sections.borrow(|section| EndianSlice::new(section, endian))
}
