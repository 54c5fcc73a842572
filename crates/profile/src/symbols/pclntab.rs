//! `GoFunctions`: the function table of Go's runtime (`.gopclntab`), which stripped programs keep.
//! The parser reads the formats 1.18 and 1.20, which Go 1.18 and later write.

use std::borrow::Cow;

/// The magic numbers of the two formats. The fields that are used here have the same places in both formats.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Longer names are cut off at this length.
const NAME_BYTES_MAX: usize = 4096;
/// The length of an entry: the function's offset in the code, and the offset of its description.
const ENTRY_BYTES: usize = 8;

/// The functions of a program.
#[derive(Clone, Copy, Debug)]
pub struct GoFunctions<'a> {
    is_little: bool,
    text_start: u64,
    count: usize,
    /// The list of functions and their descriptions. The offsets in the list count from its start.
    list: &'a [u8],
    names: &'a [u8],
}

/// Parses the table. `text_start` is the start of Go's code, which the tables of later Go versions lack. None if the table is invalid.
pub fn parse_pclntab(table: &[u8], text_start: u64) -> Option<GoFunctions<'_>> {
    let magic: [u8; 4] = table.get(..4)?.try_into().ok()?;
    let is_little = MAGICS.contains(&u32::from_le_bytes(magic));
    if !is_little && !MAGICS.contains(&u32::from_be_bytes(magic)) {
        return None;
    }
    let &[0, 0, 1 | 2 | 4, word_bytes @ (4 | 8)] = table.get(4..8)? else { return None };
    let word = |at: usize| -> Option<u64> {
        let from = 8 + at * usize::from(word_bytes);
        let bytes = table.get(from..from + usize::from(word_bytes))?;
        let mut wide = [0; 8];
        if is_little {
            wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(u64::from_le_bytes(wide))
        } else {
            wide.get_mut(8 - bytes.len()..)?.copy_from_slice(bytes);
            Some(u64::from_be_bytes(wide))
        }
    };
    let part = |at: usize| table.get(usize::try_from(word(at)?).ok()?..);
    let (given_start, names, list) = (word(2)?, part(3)?, part(7)?);
    let count = usize::try_from(word(0)?).ok()?;
    // The end address of the last function follows the last entry.
    let list_bytes = count.checked_mul(ENTRY_BYTES)?.checked_add(4)?;
    list.get(..list_bytes).filter(|_| count > 0)?;
    let text_start = if given_start == 0 { text_start } else { given_start };
    Some(GoFunctions { is_little, text_start, count, list, names })
}

impl<'a> GoFunctions<'a> {
    /// The function at an address, in the file's own numbering.
    pub fn at(&self, address: u64) -> Option<Cow<'a, str>> {
        let offset = u32::try_from(address.checked_sub(self.text_start)?).ok()?;
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.number(middle * ENTRY_BYTES)? > offset { high = middle } else { low = middle + 1 }
        }
        let entry = low.checked_sub(1)? * ENTRY_BYTES;
        if offset >= self.number(entry + ENTRY_BYTES)? {
            return None;
        }
        let described = usize::try_from(self.number(entry + 4)?).ok()?;
        // A description begins with the start of the function (4 bytes), then the offset of its name.
        let name = usize::try_from(self.number(described.checked_add(4)?)?).ok()?;
        let name = self.names.get(name..)?;
        let name = name.get(..name.len().min(NAME_BYTES_MAX))?.split(|byte| *byte == 0).next()?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name))
    }

    fn number(&self, at: usize) -> Option<u32> {
        let bytes = self.list.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }
}

/// The start of Go's code, from the runtime's `moduledata` (section `.go.module` from Go 1.26 on).
/// None if the start is missing, or if the loader fills it in.
pub(super) fn parse_text_start(module: &[u8], table_at: u64, text: (u64, u64)) -> Option<u64> {
    /// The number of words before the start of the code.
    /// The words are the address of the table, six slices of three words, one address, and the first and last address of functions.
    const WORDS: usize = 22;
    let word = |at: usize| Some(u64::from_le_bytes(module.get(at * 8..at * 8 + 8)?.try_into().ok()?));
    let (start, end) = (word(WORDS)?, word(WORDS + 1)?);
    (word(0)? == table_at && text.0 <= start && start < end && end <= text.1).then_some(start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table with these functions, each ten bytes long.
    fn table(magic: u32, word_bytes: u8, is_little: bool, given_start: u64, names: &[&str]) -> Vec<u8> {
        let number = |value: u32| if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
        let word = |value: u64| match (word_bytes, is_little) {
            (4, _) => number(value as u32).to_vec(),
            (_, true) => value.to_le_bytes().to_vec(),
            (_, false) => value.to_be_bytes().to_vec(),
        };
        let head_bytes = 8 + 8 * u64::from(word_bytes);
        let text: Vec<u8> = names.iter().flat_map(|name| [name.as_bytes(), &[0]].concat()).collect();
        let list_at = head_bytes + text.len() as u64;
        let mut bytes = [&number(magic)[..], &[0, 0, 1, word_bytes]].concat();
        for value in [names.len() as u64, 0, given_start, head_bytes, 0, 0, 0, list_at] {
            bytes.extend(word(value));
        }
        bytes.extend(text);
        let described_at = names.len() as u32 * 8 + 4;
        for at in 0..names.len() as u32 {
            bytes.extend([number(at * 10), number(described_at + at * 8)].concat());
        }
        bytes.extend(number(names.len() as u32 * 10));
        let mut name_at = 0;
        for (at, name) in (0_u32..).zip(names) {
            bytes.extend([number(at * 10), number(name_at)].concat());
            name_at += name.len() as u32 + 1;
        }
        bytes
    }

    #[test]
    fn functions_are_found_by_their_address() {
        let names = ["runtime.text", "main.(*World).findPath", "", "main.main"];
        for (magic, word_bytes, is_little) in [
            (MAGICS[0], 8, true),
            (MAGICS[1], 8, true),
            (MAGICS[1], 4, true),
            (MAGICS[1], 8, false),
            (MAGICS[0], 4, false),
        ] {
            for (in_table, given) in [(0, 0x40_1000), (0x40_1000, 7)] {
                let bytes = table(magic, word_bytes, is_little, in_table, &names);
                let found = parse_pclntab(&bytes, given).unwrap();
                let at = |offset: u64| found.at(0x40_1000_u64.wrapping_add(offset)).map(Cow::into_owned);
                let rows = [
                    (0, Some(names[0])),
                    (9, Some(names[0])),
                    (10, Some(names[1])),
                    (19, Some(names[1])),
                    (20, None),
                    (39, Some(names[3])),
                    (40, None),
                    (u64::MAX, None),
                    (1 << 40, None),
                ];
                for (offset, name) in rows {
                    assert_eq!(at(offset).as_deref(), name, "{offset} of {magic:x}, {word_bytes}");
                }
            }
        }
        let bytes = table(MAGICS[0], 8, true, 0, &names);
        assert!(parse_pclntab(&bytes[..60], 0).is_none() && parse_pclntab(&[], 0).is_none());
        assert!(parse_pclntab(&table(0xffff_fffa, 8, true, 0, &names), 0).is_none(), "that of Go 1.16");
        assert!(parse_pclntab(&table(MAGICS[0], 8, true, 0, &[]), 0).is_none());
    }

    #[test]
    fn the_start_of_the_code_must_be_in_code() {
        let module = |table: u64, start: u64, end: u64| -> Vec<u8> {
            let mut words = vec![7_u64; 26];
            (words[0], words[22], words[23]) = (table, start, end);
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let of = |bytes: &[u8]| parse_text_start(bytes, 0x5000, (0x1000, 0x4000));
        assert_eq!(of(&module(0x5000, 0x1200, 0x4000)), Some(0x1200));
        for (table, start, end) in
            [(0x5001, 0x1200, 0x4000), (0x5000, 0xfff, 0x4000), (0x5000, 0x1200, 0x4001), (0x5000, 0, 0)]
        {
            assert_eq!(of(&module(table, start, end)), None);
        }
        assert_eq!(of(&module(0x5000, 0x1200, 0x4000)[..190]), None);
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(
            at in 0_usize..200,
            with in prop::collection::vec(any::<u8>(), 1..24),
            length in 0_usize..300,
            addresses in prop::collection::vec(any::<u64>(), 1..8),
        ) {
            let mut bytes = table(MAGICS[1], 8, true, 0, &["a", "b.c", "d"]);
            let end = (at + with.len()).min(bytes.len());
            bytes.splice(at.min(end)..end, with);
            bytes.truncate(length);
            if let Some(found) = parse_pclntab(&bytes, 0x1000) {
                for address in addresses.into_iter().chain(0xff0..0x1030) {
                    let _ = found.at(address);
                }
            }
        }
    }
}
