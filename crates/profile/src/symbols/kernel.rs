//! `Kernel`: the functions of the running kernel (`/proc/kallsyms`), moved to the addresses of the recording.
//! Addresses change at each boot, and with each build.

use std::collections::{BTreeMap, HashMap};

use super::cache::{Cache, CachedNames, Grade, Key, Scope};
use super::demangle::demangle;
use super::finding::{Finding, Mapped};
use super::why::{Reason, Why};
use crate::binaries::same_build;
use crate::names::Function;
use crate::recording::Recording;
use crate::stack::Frame;

/// The maximum number of functions.
const SYMBOLS_MAX: usize = 4_000_000;
/// The assumed length of the last function of the kernel or of a module.
const LAST_MAX_BYTES: u64 = 1 << 20;

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// The first address of the function.
    pub start: u64,
    /// The name of the function.
    pub name: String,
    /// The kernel module of the function. None if the function is in the kernel itself.
    pub module: Option<String>,
}

/// The contents of `/proc/kallsyms`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kallsyms {
    /// The functions, sorted by address, one for each address.
    symbols: Vec<KernelSymbol>,
    /// The addresses of the symbols by which recordings locate the kernel.
    marks: HashMap<String, u64>,
}

/// Parses `/proc/kallsyms`: `ffffffff81000000 T _stext`, optionally with `[module]` at the end. Invalid lines are left out.
/// None if all addresses are zero. The kernel shows zeros to users without the privilege.
pub fn parse_kallsyms(text: &str) -> Option<Kallsyms> {
    let mut found = Kallsyms::default();
    for line in text.lines().take(SYMBOLS_MAX) {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
        let Ok(start) = u64::from_str_radix(address, 16) else { continue };
        if start == 0 || !matches!(kind, "t" | "T" | "w" | "W" | "d" | "D" | "b" | "B") {
            continue;
        }
        let module = words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']')).map(str::to_owned);
        if matches!(name, "_text" | "_stext") {
            found.marks.insert(name.to_owned(), start);
        }
        found.symbols.push(KernelSymbol { start, name: name.to_owned(), module });
    }
    // The sort is stable. If one address has several names, the last name is used, as in `perf report`.
    found.symbols.sort_by_key(|symbol| symbol.start);
    found.symbols.reverse();
    found.symbols.dedup_by_key(|symbol| symbol.start);
    found.symbols.reverse();
    (!found.symbols.is_empty()).then_some(found)
}

impl Kallsyms {
    /// The function at an address.
    pub fn at(&self, address: u64) -> Option<&KernelSymbol> {
        let behind = self.symbols.partition_point(|symbol| symbol.start <= address);
        let symbol = self.symbols.get(behind.checked_sub(1)?)?;
        let next = self.symbols.get(behind);
        // After the last function of the kernel or of a module, there is no code until the next module.
        let is_last = next.is_none_or(|next| next.module != symbol.module);
        (!is_last || address - symbol.start < LAST_MAX_BYTES).then_some(symbol)
    }

    /// The address of `_text` or `_stext`.
    pub fn mark(&self, name: &str) -> Option<u64> {
        self.marks.get(name).copied()
    }
}

/// The identity of a kernel, from a recording or from this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The release, as in `uname -r`.
    pub release: Option<String>,
    /// The build ID of the kernel, if known.
    pub build_id: Option<Vec<u8>>,
    /// The symbol that locates the kernel, and its address.
    pub mark: Option<(String, u64)>,
}

/// How the recorded kernel relates to the running kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The same kernel at the same address.
    Same,
    /// The same kernel at another address. Add this number to an address of the recording. The addresses of modules are unknown.
    Moved(u64),
    /// A different kernel.
    Other,
}

/// Compares the recorded kernel with the running kernel: by build ID if both have one, otherwise by release.
pub(crate) fn relation(recorded: &Identity, here: &Identity, kallsyms: &Kallsyms) -> Relation {
    let is_same = match (&recorded.build_id, &here.build_id) {
        (Some(one), Some(other)) => same_build(one, other),
        _ => match (&recorded.release, &here.release) {
            (Some(one), Some(other)) => one == other,
            // Only the address of the kernel is known. Two boots have equal addresses only by chance, so this is the same boot.
            _ => recorded.mark.as_ref().is_some_and(|(name, at)| kallsyms.mark(name) == Some(*at)),
        },
    };
    if !is_same {
        return Relation::Other;
    }
    match recorded.mark.as_ref().and_then(|(name, at)| Some((kallsyms.mark(name)?, *at))) {
        Some((here, then)) if here != then => Relation::Moved(here.wrapping_sub(then)),
        _ => Relation::Same,
    }
}

/// Names the kernel frames of a recording.
pub(super) fn resolve((recording, mapped): (&Recording, &Mapped), cache: &Cache, finding: &mut Finding) {
    let wanted = recording.stacks.frames().iter().filter_map(|frame| match frame {
        Frame::Kernel { address, .. } => Some((*frame, *address)),
        _ => None,
    });
    let wanted: Vec<(Frame, u64)> = wanted.collect();
    if wanted.is_empty() {
        return;
    }
    let recorded = Identity::recorded(recording, mapped);
    let key = recorded.build_id.as_deref().map(|build_id| Key { build_id, path: "[kernel]", scope: Scope::Here });
    let mark = recorded.mark.as_ref().map(|(_, at)| *at);
    match of_here(&recorded, &wanted) {
        Ok(named) => {
            if let (Some(key), Some(mark)) = (key, mark) {
                let kept = cache.load(key).map(|kept| kept.places).unwrap_or_default();
                let new = named.iter().filter(|(_, symbol)| symbol.module.is_none());
                let new = new.map(|((_, address), symbol)| (address.wrapping_sub(mark), vec![function(symbol)]));
                let places: BTreeMap<_, _> = kept.iter().map(|(at, found)| (*at, found.clone())).chain(new).collect();
                if places != kept {
                    cache.store(key, &CachedNames { grade: Grade::Own, places });
                }
            }
            finding.kernel = Some(Why::NotInTable.into());
            finding.functions.extend(named.iter().map(|((frame, _), symbol)| (*frame, vec![function(symbol)])));
        }
        Err(reason) => {
            finding.kernel = Some(reason);
            let (Some(mark), Some(kept)) = (mark, key.and_then(|key| cache.load(key))) else { return };
            let found =
                |(frame, address): &(Frame, u64)| Some((*frame, kept.places.get(&address.wrapping_sub(mark))?.clone()));
            finding.functions.extend(wanted.iter().filter_map(found));
        }
    }
}

fn function(symbol: &KernelSymbol) -> Function {
    Function::named(demangle(&symbol.name))
}

/// A frame with its address, and its function.
type Found = ((Frame, u64), KernelSymbol);

/// The functions from the running kernel, if it is the recorded kernel.
fn of_here(recorded: &Identity, wanted: &[(Frame, u64)]) -> Result<Vec<Found>, Reason> {
    let text = std::fs::read("/proc/kallsyms").map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let kallsyms = text.ok().as_deref().and_then(parse_kallsyms).ok_or(Why::KernelHidden)?;
    let here = Identity {
        release: rustix::system::uname().release().to_str().ok().map(str::to_owned),
        build_id: std::fs::read("/sys/kernel/notes").ok().as_deref().and_then(parse_build_id),
        mark: None,
    };
    let shift = match relation(recorded, &here, &kallsyms) {
        Relation::Same => 0,
        Relation::Moved(by) => by,
        Relation::Other => {
            let detail = recorded.release.as_ref().map(|release| format!("it was {release}"));
            return Err(Reason { why: Why::OtherKernel, detail });
        }
    };
    let named = wanted.iter().filter_map(|(frame, address)| {
        // After a reboot, the addresses of modules are unknown.
        let symbol = kallsyms.at(address.wrapping_add(shift));
        let symbol = symbol.filter(|symbol| shift == 0 || symbol.module.is_none())?;
        Some(((*frame, *address), symbol.clone()))
    });
    Ok(named.collect())
}

impl Identity {
    /// Reads the kernel's identity from a recording.
    /// `perf` names the kernel's mapping `[kernel.kallsyms]_text`, after the symbol that locates the kernel.
    fn recorded(recording: &Recording, mapped: &Mapped) -> Identity {
        let mut found = Identity { release: recording.machine.kernel.clone(), ..Identity::default() };
        for (id, module) in recording.modules.iter() {
            let Some(mark) = module.path.strip_prefix("[kernel.kallsyms]") else { continue };
            found.build_id = found.build_id.or_else(|| module.build_id.clone());
            let mapping = mapped.by_file.get(&id).and_then(|mappings| mappings.first());
            if let Some(mapping) = mapping.filter(|mapping| mapping.start != 0 && !mark.is_empty()) {
                found.mark = Some((mark.to_owned(), mapping.start));
            }
        }
        found
    }
}

/// The build ID in the kernel's notes (`/sys/kernel/notes`) or in the notes of an ELF file.
/// A note has the length of its name, the length of its content, and its kind.
/// Then come name and content, each padded to a multiple of four bytes.
pub fn parse_build_id(notes: &[u8]) -> Option<Vec<u8>> {
    const GNU_BUILD_ID: u32 = 3;
    let mut rest = notes;
    loop {
        let word = |at: usize| Some(u32::from_ne_bytes(rest.get(at..at + 4)?.try_into().ok()?));
        let (name, content, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let content_at = name.checked_next_multiple_of(4)?.checked_add(12)?;
        let end = content_at.checked_add(content)?;
        if kind == GNU_BUILD_ID && rest.get(12..12 + 4) == Some(b"GNU\0") {
            return rest.get(content_at..end).filter(|id| !id.is_empty()).map(<[u8]>::to_vec);
        }
        rest = rest.get(end.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
ffffffff81000000 T startup_64
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t do_syscall_64
ffffffff81000200 T schedule
ffffffff81000200 T schedule_alias
ffffffff81000300 R a_constant
ffffffffc0100000 t virtnet_poll\t[virtio_net]
nonsense
";

    #[test]
    fn functions_are_found_by_their_addresses() {
        let kallsyms = parse_kallsyms(TEXT).unwrap();
        let name = |address| kallsyms.at(address).map(|symbol| symbol.name.as_str());
        assert_eq!(name(0xffff_ffff_8100_0000), Some("_text"), "the last of several is the one that perf shows");
        assert_eq!(name(0xffff_ffff_8100_01ff), Some("do_syscall_64"));
        assert_eq!(name(0xffff_ffff_8100_0234), Some("schedule_alias"));
        assert_eq!(name(0xffff_ffff_8200_0000), None, "nothing is known behind the kernel's last function");
        assert_eq!(name(0xffff_ffff_c010_0010), Some("virtnet_poll"));
        assert_eq!(name(0xffff_ffff_c030_0010), None);
        assert_eq!(name(0x1000), None);
    }

    #[test]
    fn zeros_in_place_of_addresses_are_no_names() {
        assert_eq!(parse_kallsyms("0000000000000000 T _text\n0000000000000000 T schedule\n"), None);
        assert_eq!(parse_kallsyms(""), None);
    }

    #[test]
    fn another_kernel_is_reported() {
        let kallsyms = parse_kallsyms(TEXT).unwrap();
        let identity = |release: Option<&str>, build_id: Option<&[u8]>, mark: Option<u64>| Identity {
            release: release.map(str::to_owned),
            build_id: build_id.map(<[u8]>::to_vec),
            mark: mark.map(|at| ("_text".to_owned(), at)),
        };
        let here = identity(Some("6.1"), Some(&[1, 2]), None);
        let at = 0xffff_ffff_8100_0000;
        let rows = [
            (identity(Some("6.1"), None, Some(at)), Relation::Same),
            (identity(Some("6.1"), None, None), Relation::Same),
            (identity(Some("6.1"), Some(&[1, 2]), Some(at - 0x100)), Relation::Moved(0x100)),
            (identity(Some("6.1"), Some(&[1, 3]), Some(at)), Relation::Other),
            (identity(Some("6.2"), None, Some(at)), Relation::Other),
            (identity(None, None, Some(at)), Relation::Same),
            (identity(None, None, Some(at + 1)), Relation::Other),
            (identity(None, None, None), Relation::Other),
        ];
        for (recorded, expected) in rows {
            assert_eq!(relation(&recorded, &here, &kallsyms), expected, "{recorded:?}");
        }
    }

    #[test]
    fn notes_say_the_build_id() {
        let mut notes = Vec::new();
        for (name, content, kind) in [(&b"Linux\0\0\0"[..], &[9, 9, 9, 9][..], 0x100_u32), (b"GNU\0", &[1, 2, 3], 3)] {
            let length = if kind == 3 { 4 } else { 6_u32 };
            notes.extend([length, content.len() as u32, kind].into_iter().flat_map(u32::to_ne_bytes));
            notes.extend(name);
            notes.extend(content);
        }
        assert_eq!(parse_build_id(&notes), Some(vec![1, 2, 3]));
        assert_eq!(parse_build_id(&notes[..notes.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([0-9a-f]{0,17} [tTdRw]? ?[a-z_\\[\\]]{0,9}\n){0,20}", address in any::<u64>()) {
            if let Some(kallsyms) = parse_kallsyms(&text) {
                let _ = kallsyms.at(address);
            }
        }

        #[test]
        fn no_notes_make_it_panic(notes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_build_id(&notes);
        }
    }
}
