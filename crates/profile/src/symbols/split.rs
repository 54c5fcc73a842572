//! `Split`: what is known of lines in files of their own (split DWARF): one for each unit of a program (`.dwo`), or all of them packed beside it
//! (`PROGRAM.dwp`). The program names them with a number that is made of what is in them, and only what has this number is used.

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

/// No more files of units are tried for one program.
const FILES_MAX: usize = 4096;
/// No file of a unit is longer: they have some hundred kilobytes.
const FILE_MAX_BYTES: u64 = 256 << 20;
/// The kernel takes no longer path.
const PATH_MAX_BYTES: usize = 4096;

/// Reads sections of debug information, wherever they lie.
pub(super) type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// Opens a file where the program that names it is: on this machine, or in a container.
pub(super) type Open<'o> = &'o dyn Fn(&Path) -> Option<File>;

/// Where a program's units are.
#[derive(Clone, Copy)]
pub(super) struct Split<'o, 'a> {
    /// All of them in one file.
    pub(super) package: Option<&'a Image<'a, &'a Source>>,
    /// What opens files of single ones.
    pub(super) open: Open<'o>,
    /// The program.
    pub(super) program: &'o Path,
}

/// The file with all units of a program; of its own name, or of that with its separate debug information.
pub(super) fn package(open: Open<'_>, programs: &[&Path]) -> Option<Source> {
    programs.iter().find_map(|program| {
        let source = source(open(&package_path(program))?).ok()?;
        Image::parse(&source).is_ok().then_some(source)
    })
}

/// What it is called.
pub(super) fn package_path(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".dwp");
    name.into()
}

/// What is packed in one. All sections that its list tells of have to be there: where a unit lies in each is looked up together.
///
/// # Errors
/// If they are not where the file says, or too long.
pub(super) fn packed<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    left_bytes: &mut u64,
) -> Result<DwarfPackageSections<Cow<'a, [u8]>>, Odd> {
    DwarfPackageSections::load(|id| section(id, image, left_bytes))
}

fn section<'a, R: ReadRef<'a>>(id: SectionId, image: &Image<'a, R>, left: &mut u64) -> Result<Cow<'a, [u8]>, Odd> {
    id.dwo_name().map_or(Ok(Cow::Borrowed(&[])), |name| image.section(name, left))
}

/// Where what was read of one file stays.
type Place = OnceCell<DwarfSections<Vec<u8>>>;

/// The files of single units, each read when it is first asked for, and closed again: there may be more than a process may hold open.
pub(super) struct Units<'o> {
    open: Open<'o>,
    beside: PathBuf,
    /// A place for each, which does not move while others are read.
    read: OnceCell<Box<[Place]>>,
    left_files: Cell<usize>,
    left_bytes: Cell<u64>,
}

impl<'o> Units<'o> {
    pub(super) fn new(split: Split<'o, '_>) -> Units<'o> {
        Units {
            open: split.open,
            beside: split.program.parent().unwrap_or(Path::new("/")).to_owned(),
            read: OnceCell::new(),
            left_files: Cell::new(FILES_MAX),
            left_bytes: Cell::new(unpacked_max_bytes()),
        }
    }

    /// The unit that is asked for; none if there is no file with it.
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

    /// Where it was written when the program was built; and beside the program, where it may have been brought with it.
    fn paths(&self, wanted: &SplitDwarfLoad<Reader<'_>>) -> Vec<PathBuf> {
        let path = |bytes: &Reader<'_>| PathBuf::from(OsStr::from_bytes(bytes.slice()));
        let Some(name) = wanted.path.as_ref().map(path) else { return Vec::new() };
        let folder = wanted.comp_dir.as_ref().map(path).unwrap_or_default();
        let told = Some(folder.join(&name)).filter(|told| told.is_absolute());
        let near = name.file_name().map(|name| self.beside.join(name)).filter(|near| told.as_ref() != Some(near));
        let all = told.into_iter().chain(near);
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

/// Whether it is the unit of this number.
fn is_of(sections: &DwarfSections<Vec<u8>>, id: DwoId, endian: RunTimeEndian) -> bool {
    let dwarf = borrowed(sections, endian);
    let head = dwarf.units().next().ok().flatten();
    head.and_then(|head| dwarf.unit(head).ok()).is_some_and(|unit| unit.dwo_id == Some(id))
}

fn borrowed(sections: &DwarfSections<Vec<u8>>, endian: RunTimeEndian) -> Dwarf<Reader<'_>> {
    sections.borrow(|section| EndianSlice::new(section, endian))
}
