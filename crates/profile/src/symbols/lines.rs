//! `Lines`: source lines and inlined functions from DWARF.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use addr2line::gimli::{
    Dwarf, DwarfPackage, DwarfPackageSections, DwarfSections, EndianSlice, RunTimeEndian, SectionId,
};
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use object::read::ReadRef;

use super::demangle::demangle;
use super::elf::{Image, unpacked_max_bytes};
use super::split::{self, Reader, Split, Units};
use crate::binaries::source::Odd;
use crate::names::Function;

/// The maximum number of inlined functions at one address.
const INLINED_MAX: usize = 64;
/// The maximum length of a name or path, in characters.
const PATH_MAX: usize = 1024;

/// The sections for lines, decompressed.
pub(crate) struct Sections<'a> {
    own: DwarfSections<Cow<'a, [u8]>>,
    shared: Option<DwarfSections<Cow<'a, [u8]>>>,
    package: Option<DwarfPackageSections<Cow<'a, [u8]>>>,
    units: Units<'a>,
    endian: RunTimeEndian,
}

impl<'a> Sections<'a> {
    /// Reads the sections of an image, of its shared file (dwz), and of its split units.
    ///
    /// # Errors
    /// If the sections are not where the file says, or are too long.
    pub(super) fn read<'i: 'a, R: ReadRef<'i>>(
        image: &Image<'i, R>,
        shared: Option<&Image<'i, R>>,
        split: Split<'a, 'a>,
    ) -> Result<Sections<'a>, Odd> {
        let mut left_bytes = unpacked_max_bytes();
        let own = DwarfSections::load(|id| wanted(id, image, &mut left_bytes))?;
        let shared = shared.map(|image| DwarfSections::load(|id| wanted(id, image, &mut left_bytes))).transpose()?;
        let endian = if image.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        // A damaged package is ignored. The other debug information is still used.
        let package = split.package.and_then(|image| split::packed(image, &mut left_bytes).ok());
        Ok(Sections { own, shared, package, units: Units::new(split), endian })
    }

    /// Prepares the lookup.
    ///
    /// # Errors
    /// If the sections are inconsistent.
    pub(crate) fn lines(&self) -> Result<Lines<'_>, Odd> {
        let dwarf = self.own.borrow_with_sup(self.shared.as_ref(), |section| EndianSlice::new(section, self.endian));
        let nothing = EndianSlice::new(&[], self.endian);
        let package = self.package.as_ref();
        let package = package.map(|package| package.borrow(|section| EndianSlice::new(section, self.endian), nothing));
        // A package with an inconsistent index is ignored.
        let package = package.and_then(Result::ok);
        Ok(Lines { context: Context::from_dwarf(dwarf)?, package, sections: self, units: RefCell::default() })
    }
}

/// The sections that lookups need.
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

/// Lines, ready for lookups.
pub(crate) struct Lines<'a> {
    context: Context<Reader<'a>>,
    package: Option<DwarfPackage<Reader<'a>>>,
    sections: &'a Sections<'a>,
    /// The split units that were requested so far, by ID. None if a unit was not found.
    units: RefCell<HashMap<u64, Option<Unit<'a>>>>,
}

type Unit<'a> = Arc<Dwarf<Reader<'a>>>;

impl<'a> Lines<'a> {
    /// Whether any split unit was found.
    pub(crate) fn has_split(&self) -> bool {
        self.units.borrow().values().any(Option::is_some)
    }

    /// Loads a split unit, from the package or from a separate file.
    fn unit(&self, wanted: &SplitDwarfLoad<Reader<'a>>) -> Option<Unit<'a>> {
        let find = || {
            let packed =
                self.package.as_ref().and_then(|package| package.find_cu(wanted.dwo_id, &wanted.parent).ok()?);
            packed.or_else(|| self.sections.units.load(wanted, self.sections.endian)).map(Arc::new)
        };
        self.units.borrow_mut().entry(wanted.dwo_id.0).or_insert_with(find).clone()
    }

    /// The functions at an address, outermost first, each with its source line.
    /// Each function after the first is inlined into the previous function.
    /// Empty if unknown. The first function may lack a name.
    pub(crate) fn at(&self, address: u64) -> Vec<Function> {
        let mut asked = self.context.find_frames(address);
        let frames = loop {
            asked = match asked {
                LookupResult::Output(frames) => break frames,
                // The line is known even if the split unit is missing.
                LookupResult::Load { load, continuation } => continuation.resume(self.unit(&load)),
            };
        };
        let Ok(mut frames) = frames else { return Vec::new() };
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
