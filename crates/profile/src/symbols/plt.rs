//! Names the stubs that call into libraries, which no symbol table lists.
//! Each stub jumps through a slot in a table of addresses, and the relocation of that slot names the function.
//! Like `perf report`, evenkeel shows such a stub as `name@plt`.

use std::collections::HashMap;

use object::read::ReadRef;
use object::{Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget};

use crate::binaries::source::Odd;

/// The length of a stub, in bytes.
pub(crate) const PIECE_BYTES: usize = 16;
/// The maximum number of relocations. No real program has this many.
const SLOTS_MAX: usize = 4_000_000;
/// The maximum number of bytes to read of a table.
const TABLE_MAX_BYTES: u64 = 16 << 20;

/// A stub: its address, and the name of the function that it calls.
pub(crate) type Piece<'a> = (u64, &'a [u8]);

/// The stubs of a file. Each stub is 16 bytes long.
///
/// # Errors
/// If the tables of the file are not where its headers say.
pub(crate) fn pieces<'a, R: ReadRef<'a>>(file: &object::File<'a, R>) -> Result<Vec<Piece<'a>>, Odd> {
    let mut found = Vec::new();
    let slot_of: fn(&[u8], u64) -> Option<u64> = match file.architecture() {
        Architecture::X86_64 => slot_x86_64,
        Architecture::Aarch64 => slot_aarch64,
        _ => return Ok(found),
    };
    let tables = [".plt", ".plt.sec", ".plt.got"].into_iter().filter_map(|name| file.section_by_name(name));
    let tables: Vec<_> = tables.filter(|table| table.size() <= TABLE_MAX_BYTES).collect();
    if tables.is_empty() {
        return Ok(found);
    }
    let slots = slots(file);
    for table in tables {
        let start = table.address();
        for (at, piece) in table.data()?.chunks(PIECE_BYTES).enumerate() {
            let address = start.wrapping_add((at * PIECE_BYTES) as u64);
            if let Some(name) = slot_of(piece, address).and_then(|slot| slots.get(&slot)) {
                found.push((address, *name));
            }
        }
    }
    Ok(found)
}

/// The name of the function whose address is in each slot.
fn slots<'a, R: ReadRef<'a>>(file: &object::File<'a, R>) -> HashMap<u64, &'a [u8]> {
    let (Some(relocations), Some(symbols)) = (file.dynamic_relocations(), file.dynamic_symbol_table()) else {
        return HashMap::new();
    };
    let named = relocations.take(SLOTS_MAX).filter_map(|(slot, relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let name = symbols.symbol_by_index(index).ok()?.name_bytes().ok()?;
        (!name.is_empty()).then_some((slot, name))
    });
    named.collect()
}

/// The slot of a stub on x86-64: `jmp *slot(%rip)`, after an optional marker of a valid jump target. Padding follows.
fn slot_x86_64(piece: &[u8], address: u64) -> Option<u64> {
    const JUMP: [u8; 2] = [0xff, 0x25];
    const JUMP_BYTES: usize = 6;
    let at = piece.windows(JUMP_BYTES).position(|bytes| bytes.starts_with(&JUMP))?;
    let distance = i32::from_le_bytes(piece.get(at + 2..at + JUMP_BYTES)?.try_into().ok()?);
    // The distance counts from the next instruction.
    Some(address.wrapping_add((at + JUMP_BYTES) as u64).wrapping_add_signed(distance.into()))
}

/// The slot of a stub on aarch64: `adrp x16, page`, then `ldr x17, [x16, offset]`.
fn slot_aarch64(piece: &[u8], address: u64) -> Option<u64> {
    const PAGE_BYTES: u64 = 4096;
    let words = piece.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let words: Vec<u32> = words.collect();
    let at = words.windows(2).position(
        |two| matches!(two, [page, load] if page & 0x9f00_001f == 0x9000_0010 && load & 0xffc0_03ff == 0xf940_0211),
    )?;
    let (page, load) = (*words.get(at)?, *words.get(at + 1)?);
    let pages = i64::from((((page >> 5) & 0x7_ffff) << 2 | (page >> 29) & 3) << 11) << 32 >> 43;
    let from = address.wrapping_add(at as u64 * 4) & !(PAGE_BYTES - 1);
    let slot = u64::from((load >> 10) & 0xfff) * 8;
    Some(from.wrapping_add_signed(pages.wrapping_mul(PAGE_BYTES as i64)).wrapping_add(slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_where_its_piece_jumps() {
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x75, 0x2f, 0, 0, 0x0f, 0x1f, 0x44, 0, 0];
        assert_eq!(slot_x86_64(&marked, 0x1050), Some(0x1050 + 11 + 0x2f75));
        let plain = [0xff, 0x25, 0xfa, 0xff, 0xff, 0xff, 0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
        assert_eq!(slot_x86_64(&plain, 0x1020), Some(0x1020));
        assert_eq!(slot_x86_64(&[0x90; 16], 0x1020), None);
        let words = |words: [u32; 4]| words.map(u32::to_le_bytes).concat();
        // `adrp x16`, 16 pages forward; `ldr x17, [x16, #0xfa8]`; `add x16, x16, #0xfa8`; `br x17`.
        let piece = words([0x9000_0090, 0xf947_d611, 0x913e_a210, 0xd61f_0220]);
        assert_eq!(slot_aarch64(&piece, 0x5d0), Some(0x1_0fa8));
        // The same instructions, with a target one page back.
        let piece = words([0xf0ff_fff0, 0xf947_d611, 0x913e_a210, 0xd61f_0220]);
        assert_eq!(slot_aarch64(&piece, 0x45d0), Some(0x3000 + 0xfa8));
        assert_eq!(slot_aarch64(&[0; 16], 0), None);
        assert_eq!(slot_aarch64(&[], u64::MAX), None);
    }
}
