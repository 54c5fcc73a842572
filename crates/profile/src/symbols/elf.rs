//! `Image`: an untrusted ELF file, and its functions by address.

use std::borrow::Cow;

use object::read::ReadRef;
use object::read::elf::{ElfFile, FileHeader, Sym};
use object::{Object, ObjectSection, ObjectSegment, SectionIndex, SectionKind, SegmentFlags, elf};

use super::plt::{self, Piece};
use crate::binaries::source::Odd;
use crate::binaries::{Links, mini_debug_info};

/// The maximum number of bytes to decompress from one file.
const UNPACKED_MAX_BYTES: u64 = 2 << 30;
/// The section that may have the names of a stripped program's own functions.
const MINI_DEBUG_INFO: &str = ".gnu_debugdata";
/// The maximum ratio of a section's decompressed size to its compressed size. Deflate can't exceed this ratio.
const PACKED_MAX_TIMES: u64 = 1100;

/// A function from the file's own table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol<'a> {
    /// The first address, in the file's own numbering.
    pub(crate) start: u64,
    /// The address after the function's last address.
    pub(crate) end: u64,
    /// The linker's name of the function.
    pub(crate) name: &'a [u8],
    rank: Rank,
}

/// Decides which of several names of one address is shown. `perf report` shows the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    has_size: bool,
    is_strong: bool,
    is_global: bool,
    fewer_underscores: std::cmp::Reverse<usize>,
    length: usize,
}

/// A parsed image.
#[derive(Debug)]
pub(crate) struct Image<'a, R: ReadRef<'a>> {
    file: object::File<'a, R>,
    /// The build ID of the file.
    pub(crate) build_id: Option<&'a [u8]>,
    /// The separate debug file, and its checksum.
    pub(crate) debug_link: Option<(&'a [u8], u32)>,
    /// The shared debug file (dwz), and its build ID.
    pub(crate) shared_link: Option<(&'a [u8], &'a [u8])>,
}

impl<'a, R: ReadRef<'a>> Image<'a, R> {
    /// Parses the headers of a file.
    ///
    /// # Errors
    /// If the file is not an ELF file, or its headers are invalid.
    pub(crate) fn parse(data: R) -> Result<Image<'a, R>, Odd> {
        let kind = object::FileKind::parse(data)?;
        if !matches!(kind, object::FileKind::Elf32 | object::FileKind::Elf64) {
            return Err(Odd("it is no ELF file".to_owned()));
        }
        let file = object::File::parse(data)?;
        let build_id = file.build_id()?.filter(|id| !id.is_empty());
        let debug_link = file.gnu_debuglink()?;
        let shared_link = file.gnu_debugaltlink()?;
        Ok(Image { file, build_id, debug_link, shared_link })
    }

    /// The build ID, and the separate debug file that belongs to the file.
    pub(crate) fn links(&self) -> Links {
        Links {
            build_id: self.build_id.map(<[u8]>::to_vec),
            debug_link: self.debug_link.map(|(name, checksum)| (name.to_vec(), checksum)),
        }
    }

    /// The small ELF file with the names of the program's own functions, decompressed. None if the section is missing or damaged.
    pub(crate) fn mini_debug_info(&self) -> Option<Vec<u8>> {
        let section = self.section(MINI_DEBUG_INFO, &mut unpacked_max_bytes()).ok()?;
        mini_debug_info(&section)
    }

    /// Whether the file is little-endian.
    pub(crate) fn is_little_endian(&self) -> bool {
        self.file.is_little_endian()
    }

    /// The virtual address of a file offset. If two segments share a page of the file, the segment with code counts.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let mut found = None;
        for segment in self.file.segments() {
            let (start, length) = segment.file_range();
            if offset < start || offset - start >= length {
                continue;
            }
            let address = segment.address().wrapping_add(offset - start);
            let is_code = matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & elf::PF_X.0 != 0);
            if is_code {
                return Some(address);
            }
            found = found.or(Some(address));
        }
        found
    }

    /// The virtual address of a file offset. None if the offset is not in a segment with code.
    pub(crate) fn code_address_of(&self, offset: u64) -> Option<u64> {
        self.address_of(offset).filter(|address| self.offset_of(*address) == Some(offset))
    }

    /// The file offset of the code at this address, in the file's own numbering.
    pub(crate) fn offset_of(&self, address: u64) -> Option<u64> {
        self.file.segments().find_map(|segment| {
            let is_code = matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & elf::PF_X.0 != 0);
            let ((start, length), into) = (segment.file_range(), address.checked_sub(segment.address())?);
            (is_code && into < length).then(|| start.checked_add(into)).flatten()
        })
    }

    /// The virtual address of a section. None if the file has no section of this name.
    pub(crate) fn section_address(&self, name: &str) -> Option<u64> {
        self.file.section_by_name(name).map(|section| section.address())
    }

    /// Whether the file has a table with the names of its own functions, not only of exported functions.
    pub(crate) fn has_own_names(&self) -> bool {
        match &self.file {
            object::File::Elf32(file) => !file.elf_symbol_table().is_empty(),
            object::File::Elf64(file) => !file.elf_symbol_table().is_empty(),
            _ => false,
        }
    }

    /// Whether the file maps its code to source lines.
    pub(crate) fn has_lines(&self) -> bool {
        let section = self.file.section_by_name(".debug_info");
        section.is_some_and(|section| section.size() > 0 && section.kind() != SectionKind::UninitializedData)
    }

    /// The functions of the file, sorted by address, one for each address.
    ///
    /// # Errors
    /// If the offsets of the file's tables are invalid.
    pub(crate) fn functions(&self) -> Result<Vec<Symbol<'a>>, Odd> {
        self.all_functions().map(settled)
    }

    /// The functions of the file, and the functions of the small ELF file that [`Image::mini_debug_info`] decompresses.
    /// The small file has the local functions, but not the exported functions.
    ///
    /// # Errors
    /// If the offsets of this file's tables are invalid. A damaged small file has no functions.
    pub(crate) fn functions_with<'b>(&self, mini: Option<&Image<'b, &'b [u8]>>) -> Result<Vec<Symbol<'b>>, Odd>
    where
        'a: 'b,
    {
        self.all_functions_with(mini).map(settled)
    }

    /// As [`Image::functions_with`], but with all names of each function.
    ///
    /// # Errors
    /// If the offsets of this file's tables are invalid.
    pub(crate) fn all_functions_with<'b>(&self, mini: Option<&Image<'b, &'b [u8]>>) -> Result<Vec<Symbol<'b>>, Odd>
    where
        'a: 'b,
    {
        let mut found: Vec<Symbol<'b>> = self.all_functions()?;
        found.extend(mini.and_then(|mini| mini.all_functions().ok()).into_iter().flatten());
        Ok(found)
    }

    /// As [`Image::functions`], but with all names of each function.
    ///
    /// # Errors
    /// If the offsets of the file's tables are invalid.
    pub(crate) fn all_functions(&self) -> Result<Vec<Symbol<'a>>, Odd> {
        let mut found = Vec::new();
        match &self.file {
            object::File::Elf32(file) => symbols(file, &mut found)?,
            object::File::Elf64(file) => symbols(file, &mut found)?,
            _ => {}
        }
        Ok(found)
    }

    /// The stubs that call into libraries. Each stub has the name of the function that it calls.
    ///
    /// # Errors
    /// If the offsets of the file's tables are invalid.
    pub(crate) fn calls(&self) -> Result<Vec<Piece<'a>>, Odd> {
        plt::pieces(&self.file)
    }

    /// The start and end of a section in memory, in the file's own numbering.
    pub(crate) fn section_place(&self, name: &str) -> Option<(u64, u64)> {
        let section = self.file.section_by_name(name)?;
        Some((section.address(), section.address().checked_add(section.size())?))
    }

    /// The decompressed contents of a section. Empty if the file has no section of this name.
    ///
    /// # Errors
    /// If the offset of the section is invalid, or if its decompressed contents exceed `left_bytes`.
    pub(crate) fn section(&self, name: &str, left_bytes: &mut u64) -> Result<Cow<'a, [u8]>, Odd> {
        let Some(section) = self.file.section_by_name(name) else { return Ok(Cow::Borrowed(&[])) };
        if section.kind() == SectionKind::UninitializedData {
            return Ok(Cow::Borrowed(&[]));
        }
        let packed = section.compressed_data()?;
        let is_packed = packed.format != object::CompressionFormat::None;
        let bytes = if is_packed { packed.uncompressed_size } else { packed.data.len() as u64 };
        let most = (packed.data.len() as u64).saturating_mul(PACKED_MAX_TIMES);
        let left = left_bytes.checked_sub(bytes).filter(|_| !is_packed || bytes <= most);
        *left_bytes = left.ok_or_else(|| Odd(format!("its section {name} says that it has {bytes} bytes")))?;
        Ok(packed.decompress()?)
    }
}

/// The maximum number of bytes to decompress from one file.
pub(crate) fn unpacked_max_bytes() -> u64 {
    UNPACKED_MAX_BYTES
}

/// The functions of the file's own table. Without that table, the functions of the table of exported functions.
fn symbols<'a, Elf: FileHeader, R: ReadRef<'a>>(
    file: &ElfFile<'a, Elf, R>,
    into: &mut Vec<Symbol<'a>>,
) -> Result<(), Odd> {
    let (endian, data) = (file.endian(), file.data());
    let own = file.elf_symbol_table();
    let is_own = !own.is_empty();
    let table = if is_own { own } else { file.elf_dynamic_symbol_table() };
    if table.is_empty() {
        return Ok(());
    }
    let sections = file.elf_section_table();
    let strings = sections.section(table.string_section())?;
    let strings = object::read::elf::SectionHeader::data(strings, endian, data)?;
    for symbol in table.iter() {
        let kind = symbol.st_type();
        let is_function = matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC);
        if !is_function && kind != elf::STT_NOTYPE {
            continue;
        }
        let place = symbol.st_shndx(endian);
        let index = SectionIndex(usize::from(place.0));
        // Symbols without a type count only if they are in code, because they are labels in assembly.
        let section =
            if place.0 >= elf::SHN_LORESERVE || place == elf::SHN_UNDEF { None } else { sections.section(index).ok() };
        let flags = section.map(|section| object::read::elf::SectionHeader::sh_flags(section, endian).0);
        if place == elf::SHN_UNDEF || flags.is_none_or(|flags| flags & elf::SHF_EXECINSTR.0 == 0) {
            continue;
        }
        let section_end = section.map_or(0, |section| {
            let start: u64 = object::read::elf::SectionHeader::sh_addr(section, endian).into();
            start.saturating_add(object::read::elf::SectionHeader::sh_size(section, endian).into())
        });
        let from = usize::try_from(symbol.st_name(endian)).unwrap_or(usize::MAX);
        let name = strings.get(from..).and_then(|rest| rest.split(|byte| *byte == 0).next()).unwrap_or_default();
        // Names that begin with `$` mark code and data on ARM.
        if name.is_empty() || name.starts_with(b"$") {
            continue;
        }
        let (start, size): (u64, u64) = (symbol.st_value(endian).into(), symbol.st_size(endian).into());
        // A function without a size ends where the next one begins.
        // If the table has only exported functions, the next function in the table is too far away.
        if size == 0 && !is_own {
            continue;
        }
        let rank = Rank {
            has_size: size > 0,
            is_strong: symbol.st_bind() != elf::STB_WEAK,
            is_global: symbol.st_bind() == elf::STB_GLOBAL,
            fewer_underscores: std::cmp::Reverse(name.iter().take_while(|byte| **byte == b'_').count()),
            length: name.len(),
        };
        let end = if size > 0 { start.saturating_add(size) } else { section_end };
        into.push(Symbol { start, end, name, rank });
    }
    Ok(())
}

/// Sorts functions by address, and keeps one for each address. A function without a size ends where the next one begins.
fn settled(mut found: Vec<Symbol<'_>>) -> Vec<Symbol<'_>> {
    found.sort_by(|one, other| (one.start, other.rank).cmp(&(other.start, one.rank)));
    found.dedup_by_key(|symbol| symbol.start);
    let next: Vec<u64> = found.iter().skip(1).map(|symbol| symbol.start).collect();
    for (symbol, next) in found.iter_mut().zip(next) {
        if !symbol.rank.has_size {
            symbol.end = symbol.end.min(next);
        }
    }
    found
}

/// The function at an address, among the functions of [`Image::functions`].
/// Functions may be nested, so at most a limited number of functions is examined.
pub(crate) fn function_at<'s, 'a>(functions: &'s [Symbol<'a>], address: u64) -> Option<&'s Symbol<'a>> {
    const NESTED_MAX: usize = 16;
    let behind = functions.partition_point(|symbol| symbol.start <= address);
    functions[..behind].iter().rev().take(NESTED_MAX).find(|symbol| address < symbol.end)
}
