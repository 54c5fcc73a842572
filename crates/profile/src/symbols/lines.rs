//! `Lines`: which source a place in code is of, and which functions the compiler put into which (DWARF).

use std::borrow::Cow;

use addr2line::gimli::{DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use addr2line::{Context, LookupResult};
use object::read::ReadRef;

use super::demangle::demangle;
use super::elf::{Image, Odd, unpacked_max_bytes};
use crate::names::Function;

/// No more functions than this are told to lie within one.
const INLINED_MAX: usize = 64;
/// No more names, and the same for paths, than so many letters.
const PATH_MAX: usize = 1024;

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// What is known of lines, unpacked.
pub(crate) struct Sections<'a> {
    own: DwarfSections<Cow<'a, [u8]>>,
    shared: Option<DwarfSections<Cow<'a, [u8]>>>,
    endian: RunTimeEndian,
}

impl<'a> Sections<'a> {
    /// Of an image, and of what it shares with others where that is in a file of its own.
    ///
    /// # Errors
    /// If they are not where the file says, or too long.
    pub(crate) fn of<R: ReadRef<'a>>(image: &Image<'a, R>, shared: Option<&Image<'a, R>>) -> Result<Sections<'a>, Odd> {
        let mut left_bytes = unpacked_max_bytes();
        let own = DwarfSections::load(|id| wanted(id, image, &mut left_bytes))?;
        let shared = shared.map(|image| DwarfSections::load(|id| wanted(id, image, &mut left_bytes))).transpose()?;
        let endian = if image.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        Ok(Sections { own, shared, endian })
    }

    /// Ready to be asked.
    ///
    /// # Errors
    /// If they contradict themselves.
    pub(crate) fn lines(&self) -> Result<Lines<'_>, Odd> {
        let dwarf = self.own.borrow_with_sup(self.shared.as_ref(), |section| EndianSlice::new(section, self.endian));
        Ok(Lines(Context::from_dwarf(dwarf).map_err(|error| Odd(error.to_string()))?))
    }
}

/// What is asked for lines and functions; the others stay in the file.
fn wanted<'a, R: ReadRef<'a>>(id: SectionId, image: &Image<'a, R>, left: &mut u64) -> Result<Cow<'a, [u8]>, Odd> {
    match id {
        SectionId::DebugMacinfo
        | SectionId::DebugMacro
        | SectionId::DebugNames
        | SectionId::DebugTypes
        | SectionId::DebugLoc
        | SectionId::DebugLocLists => Ok(Cow::Borrowed(&[])),
        id => image.section(id.name(), left),
    }
}

/// Lines, ready to be asked.
pub(crate) struct Lines<'a>(Context<Reader<'a>>);

impl Lines<'_> {
    /// The functions at an address, from the outermost on, each but the first put into the one before it; none where nothing is told. The first
    /// has its name only where it is told; each has the line that it was at.
    pub(crate) fn at(&self, address: u64) -> Vec<Function> {
        let mut frames = match self.0.find_frames(address) {
            LookupResult::Output(Ok(frames)) => frames,
            // Parts of it that lie in files of their own (split DWARF) are not looked for.
            LookupResult::Output(Err(_)) | LookupResult::Load { .. } => return Vec::new(),
        };
        let mut found = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok().map(|raw| demangle(&raw)));
            let location = frame.location.as_ref();
            let file = location.and_then(|location| location.file).map(|file| file.chars().take(PATH_MAX).collect());
            let line = location.and_then(|location| location.line).unwrap_or(0);
            found.push(Function { name: name.unwrap_or_default(), file, line, is_inlined: true });
            if found.len() >= INLINED_MAX {
                break;
            }
        }
        found.reverse();
        if let Some(outermost) = found.first_mut() {
            outermost.is_inlined = false;
        }
        found.retain(|function| !function.is_inlined || !function.name.is_empty());
        found
    }
}
