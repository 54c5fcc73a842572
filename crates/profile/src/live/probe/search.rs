//! Finds a function in a file by its linker name or source name, and checks whether a function begins at an offset.

use std::collections::BTreeMap;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, RunTimeEndian, UnwindSection};
use object::read::ReadRef;

use crate::binaries::source::Odd;
use crate::symbols::demangle;
use crate::symbols::elf::{Image, Symbol, unpacked_max_bytes};

/// The maximum number of similar names in an error message.
const NEAR_MAX: usize = 5;
/// The maximum number of letters by which a similar name may differ.
const TYPOS_MAX: usize = 3;
/// Longer names are not compared letter by letter.
const COMPARED_MAX: usize = 80;
/// Suffixes of copies that the compiler makes, and that callers call instead of the function.
const COPIES: [&str; 3] = [".constprop.", ".isra.", ".part."];

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Near {
    /// One function, at this address.
    Here(u64),
    /// Several functions, by address.
    Several(BTreeMap<u64, String>),
    /// No function has the name. These names are similar.
    None(Vec<String>),
}

/// How well the name of a function matches the request. Only the functions with the best kind of match count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    /// The name for the linker equals the request.
    Raw,
    /// The name in the source equals the request.
    Written,
    /// The name in the source equals the request, but the function is a copy made by the compiler.
    Copy,
    /// The last parts of the name in the source equal the request: `World::tick` for `game::World::tick`.
    Tail,
}

/// Finds a function among all names of a file.
pub(super) fn by_name(functions: &[Symbol<'_>], asked: &str) -> Near {
    let mut best: Option<Match> = None;
    let mut found = BTreeMap::new();
    for symbol in functions {
        let raw = String::from_utf8_lossy(symbol.name);
        let written = demangle(&raw);
        let Some(how) = matched(asked, &raw, &written) else { continue };
        if best.is_none_or(|best| how < best) {
            (best, found) = (Some(how), BTreeMap::new());
        }
        if best == Some(how) {
            found.entry(symbol.start).or_insert(written);
        }
    }
    match found.first_key_value() {
        Some((address, _)) if found.len() == 1 => Near::Here(*address),
        Some(_) => Near::Several(found),
        None => Near::None(near(asked, functions.iter().map(|symbol| String::from_utf8_lossy(symbol.name)))),
    }
}

fn matched(asked: &str, raw: &str, written: &str) -> Option<Match> {
    let is_tail = |name: &str| name.strip_suffix(asked).is_some_and(|before| before.ends_with("::"));
    let whole = COPIES.iter().find_map(|copy| written.find(copy)).map_or(written, |at| &written[..at]);
    if raw == asked {
        Some(Match::Raw)
    } else if written == asked {
        Some(Match::Written)
    } else if whole == asked {
        Some(Match::Copy)
    } else {
        is_tail(whole).then_some(Match::Tail)
    }
}

/// Similar names: first names that contain the request, then names that differ by a few letters, nearest first.
fn near<'n>(asked: &str, names: impl Iterator<Item = std::borrow::Cow<'n, str>>) -> Vec<String> {
    let last = |name: &str| name.rsplit("::").next().unwrap_or(name).to_lowercase();
    let asked = last(asked);
    let mut found: Vec<(usize, String)> = Vec::new();
    for raw in names {
        let name = demangle(&raw);
        let own = last(&name);
        if own.len() > COMPARED_MAX || asked.len() > COMPARED_MAX {
            continue;
        }
        let typos = strsim::osa_distance(&asked, &own);
        let is_near = typos <= TYPOS_MAX.min(asked.len() / 2) || own.contains(&asked);
        if is_near && !found.iter().any(|(_, known)| *known == name) {
            found.push((typos, name));
            found.sort();
            found.truncate(NEAR_MAX);
        }
    }
    found.into_iter().map(|(_, name)| name).collect()
}

/// Whether a function begins at an address, by the exception tables. Stripped files have these tables too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// The function begins at this address.
    Here,
    /// No function begins at this address. The value is the start of the function around it or before it, if any.
    Not(Option<u64>),
    /// The file has no exception tables.
    Unknown,
}

/// Checks whether a function begins at an address of the file.
///
/// # Errors
/// If the exception tables are not where the file's header says.
pub(super) fn begins_at<'a, R: ReadRef<'a>>(image: &Image<'a, R>, address: u64) -> Result<Begins, Odd> {
    let own = image.all_functions()?;
    if own.iter().any(|symbol| symbol.start == address) {
        return Ok(Begins::Here);
    }
    let mut before = own.iter().map(|symbol| symbol.start).filter(|start| *start < address).max();
    let mut has_names = image.has_own_names();
    let section = image.section(".eh_frame", &mut unpacked_max_bytes())?;
    let endian = if image.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let frames = EhFrame::from(EndianSlice::new(&section, endian));
    let place = |name: &str| image.section_address(name);
    let mut bases = BaseAddresses::default().set_eh_frame(place(".eh_frame").unwrap_or(0));
    bases = place(".text").map_or(bases.clone(), |text| bases.set_text(text));
    let mut entries = frames.entries(&bases);
    // If the tables are damaged, use the entries before the damage.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(whole) = partial.parse(|frames, bases, offset| frames.cie_from_offset(bases, offset)) else { continue };
        has_names = true;
        let start = whole.initial_address();
        if start == address {
            return Ok(Begins::Here);
        }
        if start < address {
            before = before.max(Some(start));
        }
    }
    Ok(if has_names { Begins::Not(before) } else { Begins::Unknown })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_as_people_write_them() {
        let rows = [
            ("tick", "tick", Some(Match::Raw)),
            ("game::World::tick", "_ZN4game5World4tickEv", Some(Match::Written)),
            ("_ZN4game5World4tickEv", "_ZN4game5World4tickEv", Some(Match::Raw)),
            ("World::tick", "_ZN4game5World4tickEv", Some(Match::Tail)),
            ("tick", "_ZN4game5World4tickEv", Some(Match::Tail)),
            ("ick", "_ZN4game5World4tickEv", None),
            ("tick", "tick.constprop.0", Some(Match::Copy)),
            ("tick", "tick.cold", None),
            ("main.tick", "main.tick", Some(Match::Raw)),
            ("tick", "tock", None),
        ];
        for (asked, raw, how) in rows {
            assert_eq!(matched(asked, raw, &demangle(raw)), how, "{asked} {raw}");
        }
    }

    #[test]
    fn similar_names_are_listed_nearest_first() {
        let names = ["world_tick", "tick", "tock", "simulate", "_ZN4game5World5tickkEv", "tick"];
        let found = near("tik", names.iter().map(|name| (*name).into()));
        assert_eq!(found, ["tick"], "of three letters one may be another");
        let found = near("World::tick", names.iter().map(|name| (*name).into()));
        assert_eq!(found, ["tick", "game::World::tickk", "tock", "world_tick"]);
        assert_eq!(near("render_everything", names.iter().map(|name| (*name).into())), Vec::<String>::new());
    }
}
