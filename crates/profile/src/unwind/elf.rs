//! `Image`: the unwind tables of a program or library. Only these parts of a file are read.
//! Files are untrusted: each part has a size limit, and an invalid part is an error.

use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};

use crate::binaries::NotFound;

type Header = FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

/// The maximum number of bytes of one part. The tables of the largest programs have a tenth of this size.
const TABLE_BYTES_MAX: u64 = 256 << 20;
/// The maximum number of bytes after decompression.
const MINI_BYTES_MAX: u64 = 32 << 20;
/// The maximum number of sections, because the name of each is read.
const SECTIONS_MAX: usize = 4096;
const SEGMENTS_MAX: usize = 4096;
/// The maximum length of a section of notes. A build ID usually has 20 bytes, so a section with its note is short.
const NOTES_BYTES_MAX: u64 = 1 << 20;

/// A file that can't be used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The file was not found.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The file is not an ELF file.
    #[error("it is not a 64-bit ELF file of this byte order")]
    NoElf,
    /// A part of the file is invalid.
    #[error("its {0} is unreadable")]
    Part(&'static str),
    /// A part of the file is too large.
    #[error("its {0} is implausibly large")]
    TooLarge(&'static str),
    /// The file has no unwind table.
    #[error("it has no unwind table")]
    NoTable,
}

/// A segment of the file with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    offset: u64,
    length: u64,
    address: u64,
}

/// A part of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// The virtual address of the section in the file's own numbering.
    pub(super) address: u64,
    /// The contents of the section.
    pub(super) bytes: Vec<u8>,
}

/// The parts of a file for unwinding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    segments: Vec<Segment>,
    /// `.eh_frame`.
    pub(super) eh_frame: Option<Section>,
    /// `.eh_frame_hdr`, the index of `.eh_frame`.
    pub(super) eh_frame_hdr: Option<Section>,
    /// `.debug_frame`.
    pub(super) debug_frame: Option<Section>,
    /// `.gnu_debugdata`, packed.
    pub(super) mini_debug_info: Option<Vec<u8>>,
    /// The start of `.text`, which offsets in tables may refer to.
    pub(super) text: u64,
    /// The start of `.got`.
    pub(super) got: u64,
    /// The build ID of the file.
    pub(super) build_id: Option<Vec<u8>>,
}

impl Image {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file's architecture is not supported, or if the file's headers are invalid.
    pub(super) fn parse<'a, R: ReadRef<'a>>(data: R) -> Result<Image, Unusable> {
        let header = Header::parse(data).map_err(|_| Unusable::NoElf)?;
        if header.e_ident.data != elf::ELFDATA2LSB {
            return Err(Unusable::NoElf);
        }
        let mut image = Image::default();
        image.take_segments(header, data)?;
        image.take_sections(header, data)?;
        Ok(image)
    }

    fn take_segments<'a, R: ReadRef<'a>>(&mut self, header: &Header, data: R) -> Result<(), Unusable> {
        let segments = header.program_headers(ENDIAN, data).map_err(|_| Unusable::Part("list of segments"))?;
        if segments.len() > SEGMENTS_MAX {
            return Err(Unusable::TooLarge("list of segments"));
        }
        for segment in segments {
            let (offset, length) = segment.file_range(ENDIAN);
            if segment.p_type(ENDIAN) == elf::PT_LOAD && segment.p_flags(ENDIAN).contains(elf::PF_X) {
                self.segments.push(Segment { offset, length, address: segment.p_vaddr(ENDIAN) });
            } else if segment.p_type(ENDIAN) == elf::PT_NOTE && length <= NOTES_BYTES_MAX && self.build_id.is_none() {
                let Ok(Some(mut notes)) = segment.notes(ENDIAN, data) else { continue };
                while let Ok(Some(note)) = notes.next() {
                    if note.name() == elf::ELF_NOTE_GNU && note.n_type(ENDIAN) == elf::NT_GNU_BUILD_ID {
                        self.build_id = Some(note.desc().to_vec());
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn take_sections<'a, R: ReadRef<'a>>(&mut self, header: &Header, data: R) -> Result<(), Unusable> {
        let sections = header.sections(ENDIAN, data).map_err(|_| Unusable::Part("list of sections"))?;
        if sections.len() > SECTIONS_MAX {
            return Err(Unusable::TooLarge("list of sections"));
        }
        for section in sections.iter() {
            let Ok(name) = sections.section_name(ENDIAN, section) else { continue };
            if name == b".gnu_debugdata" && section.sh_size(ENDIAN) <= MINI_BYTES_MAX {
                self.mini_debug_info = section.data(ENDIAN, data).ok().map(<[u8]>::to_vec);
                continue;
            }
            let (place, what) = match name {
                b".eh_frame" => (&mut self.eh_frame, ".eh_frame"),
                b".eh_frame_hdr" => (&mut self.eh_frame_hdr, ".eh_frame_hdr"),
                b".debug_frame" => (&mut self.debug_frame, ".debug_frame"),
                b".text" => {
                    self.text = section.sh_addr(ENDIAN);
                    continue;
                }
                b".got" => {
                    self.got = section.sh_addr(ENDIAN);
                    continue;
                }
                _ => continue,
            };
            // Sections are compressed only for languages that keep frame pointers.
            let is_packed = section.sh_flags(ENDIAN).contains(elf::SHF_COMPRESSED);
            if section.sh_type(ENDIAN) == elf::SHT_NOBITS || is_packed {
                continue;
            }
            if section.sh_size(ENDIAN) > TABLE_BYTES_MAX {
                return Err(Unusable::TooLarge(what));
            }
            let bytes = section.data(ENDIAN, data).map_err(|_| Unusable::Part(what))?;
            *place = Some(Section { address: section.sh_addr(ENDIAN), bytes: bytes.to_vec() });
        }
        Ok(())
    }

    /// The virtual address of a file offset. None unless there is code at this offset.
    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        let segment = self
            .segments
            .iter()
            .find(|segment| offset.checked_sub(segment.offset).is_some_and(|within| within < segment.length))?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// The same image, as if code with this address had the same file offset.
    #[cfg(test)]
    pub(super) fn with_code(mut self, address: u64, length: u64) -> Image {
        self.segments.push(Segment { offset: address, length, address });
        self
    }

    /// Whether the file has any unwind table.
    pub(super) fn has_table(&self) -> bool {
        self.eh_frame.is_some() || self.debug_frame.is_some()
    }
}
