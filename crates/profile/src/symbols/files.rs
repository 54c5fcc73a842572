//! Finds the functions of a file, from the file and its debug file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::read::ReadRef;

use super::anonymous;
use super::cache::{Cache, CachedNames, Grade, Key, Scope};
use super::demangle::demangle;
use super::elf::{self, Image, Symbol};
use super::finding::{Finding, Mapped, Settings, VDSO, identity, of_recording};
use super::lines::{Lines, Sections};
use super::pclntab::{self, GoFunctions, parse_pclntab};
use super::plt;
use super::split::{self, Split};
use super::why::{Reason, Why};
use crate::binaries::source::{Odd, Source, source};
use crate::binaries::{Links, Lookup, NotFound, Sought, by_build_id, debug_paths, place, same_build, separate};
use crate::names::Function;
use crate::recording::Recording;
use crate::stack::{Frame, Module, ModuleId};

/// Names the offsets of one file.
pub(super) fn resolve(
    (settings, cache): (&Settings, &Cache),
    (recording, mapped): (&Recording, &Mapped),
    (id, offsets): (ModuleId, &BTreeSet<u64>),
    finding: &mut Finding,
) {
    let Some(module) = recording.modules.get(id) else { return };
    if module.path == VDSO {
        anonymous::vdso_file(recording, id, offsets, finding);
        return;
    }
    let lookup = settings.lookup();
    let mappings = mapped.by_file.get(&id).map(Vec::as_slice).unwrap_or_default();
    let sought = Sought::new(&recording.machine, mappings, module, &lookup);
    let identity = identity(recording);
    let key = key(&sought, module).or_else(|| of_recording(&identity, &module.path, settings));
    let mut kept = key.and_then(|key| cache.load(key)).filter(|kept| !is_outdone(kept, module, &lookup));
    let missing = |kept: &Option<CachedNames>| -> BTreeSet<u64> {
        let is_kept = |offset: &u64| kept.as_ref().is_some_and(|kept| kept.places.contains_key(offset));
        offsets.iter().copied().filter(|offset| !is_kept(offset)).collect()
    };
    let wanting = missing(&kept);
    let mut reason = None;
    if !wanting.is_empty() {
        match names_of(&sought, &wanting, &lookup) {
            Ok(found) => {
                let kept = kept.get_or_insert_with(|| CachedNames { grade: found.grade, places: BTreeMap::new() });
                kept.grade = found.grade;
                kept.places.extend(found.places);
                if let Some(key) = key {
                    cache.store(key, kept);
                }
            }
            Err(why) => reason = Some(why),
        }
    }
    let Some(CachedNames { grade, places }) = kept else {
        finding.files.extend(reason.map(|reason| (id, reason)));
        return;
    };
    let lacking = if grade == Grade::Dynamic { Why::NoSymbols } else { Why::NotInTable };
    finding.files.insert(id, reason.unwrap_or_else(|| lacking.into()));
    for (offset, functions) in places.into_iter().filter(|(offset, _)| offsets.contains(offset)) {
        finding.functions.insert(Frame::InFile { module: id, offset }, functions);
    }
}

/// Whether a debug file with better names was installed after the names were cached.
fn is_outdone(kept: &CachedNames, module: &Module, lookup: &Lookup) -> bool {
    let id = module.build_id.as_deref().unwrap_or_default();
    let package = split::package_path(Path::new(&module.path));
    kept.grade < Grade::Separate && debug_paths(id, lookup).chain([package]).any(|path| path.exists())
}

impl From<Odd> for Reason {
    fn from(odd: Odd) -> Reason {
        Reason { why: Why::Malformed, detail: Some(odd.0) }
    }
}

impl From<NotFound> for Reason {
    fn from(not: NotFound) -> Reason {
        match not {
            NotFound::NotRecorded => Why::NotRecorded.into(),
            NotFound::Gone => Why::Gone.into(),
            NotFound::Denied => Why::NotAllowed.into(),
            NotFound::OtherMachine => Why::OtherMachine.into(),
            NotFound::Replaced { detail } => Reason { why: Why::Replaced, detail },
            NotFound::Malformed(detail) => Reason { why: Why::Malformed, detail: Some(detail) },
        }
    }
}

/// The key of a file in the name cache. None without a build ID, because only the build ID identifies the file.
fn key<'r>(sought: &Sought<'_>, module: &'r Module) -> Option<Key<'r>> {
    let scope = if sought.is_of_container() { Scope::Container } else { Scope::Here };
    module.build_id.as_deref().map(|build_id| Key { build_id, path: &module.path, scope })
}

/// Names these offsets.
fn names_of(sought: &Sought<'_>, offsets: &BTreeSet<u64>, lookup: &Lookup) -> Result<CachedNames, Reason> {
    let (opened, path) = sought.open(lookup)?;
    let source = source(opened.file)?;
    let image = Image::parse(&source)?;
    let open = |path: &Path| sought.open_named(path);
    named(&image, (&path, &open), offsets, lookup)
}

/// Names the offsets of an image, with its debug file if there is one.
fn named<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    (path, open): (&Path, split::Open<'_>),
    offsets: &BTreeSet<u64>,
    lookup: &Lookup,
) -> Result<CachedNames, Reason> {
    let separate = separate(&image.links(), path, lookup);
    let separate = separate.as_ref().and_then(|(source, path)| Some((Image::parse(source).ok()?, path)));
    let shared = separate.as_ref().and_then(|(image, path)| shared(image, path, lookup));
    let shared = shared.as_ref().and_then(|source| Image::parse(source).ok());
    let paths: Vec<&Path> = iter::once(path).chain(separate.as_ref().map(|(_, path)| path.as_path())).collect();
    let package = split::package(open, &paths);
    let package = package.as_ref().and_then(|source| Image::parse(source).ok());
    let split = Split { package: package.as_ref(), open, program: path };
    let separate = separate.map(|(image, _)| image);

    let with_names = separate.as_ref().filter(|separate| separate.has_own_names());
    let mini = if with_names.is_none() && !image.has_own_names() { image.mini_debug_info() } else { None };
    let mini = mini.as_ref().and_then(|bytes| Image::parse(bytes.as_slice()).ok());
    let functions = match with_names {
        Some(separate) => separate.functions()?,
        None => image.functions_with(mini.as_ref())?,
    };
    let places: Vec<(u64, u64)> =
        offsets.iter().filter_map(|offset| Some((*offset, image.address_of(*offset)?))).collect();
    // Inconsistent debug information is ignored. The names from the symbol table stay.
    let sections = match &separate {
        Some(separate) if separate.has_lines() => Sections::read(separate, shared.as_ref(), split).ok(),
        _ if image.has_lines() => Sections::read(image, None, split).ok(),
        _ => None,
    };
    let lines = sections.as_ref().and_then(|sections| sections.lines().ok());
    let has_own_names = image.has_own_names() || mini.is_some();
    let go_table = if with_names.is_none() && !has_own_names { GoTable::find(image) } else { None };
    let go = go_table.as_ref().and_then(GoTable::functions);
    let of_go = |address| go.as_ref().and_then(|go| go.at(address)).map(|name| demangle(&name));
    // The entries of the PLT are in the program, never in its debug file.
    let calls = image.calls().map(BTreeMap::from_iter).unwrap_or_default();
    let mut found: BTreeMap<u64, Vec<Function>> = offsets.iter().map(|offset| (*offset, Vec::new())).collect();
    for (offset, address) in places {
        let symbol = elf::function_at(&functions, address).map(name_of).or_else(|| of_go(address));
        let symbol = symbol.or_else(|| call_at(&calls, address));
        let mut within = lines.as_ref().map(|lines| lines.at(address)).unwrap_or_default();
        match (within.first_mut(), symbol) {
            (Some(outermost), Some(symbol)) => outermost.name = symbol,
            (None, Some(symbol)) => within.push(Function::named(symbol)),
            _ => {}
        }
        within.retain(|function| !function.name.is_empty());
        found.insert(offset, within);
    }
    let is_separate = separate.is_some() || lines.as_ref().is_some_and(Lines::has_split);
    let grade = match (is_separate, has_own_names || go.is_some()) {
        (true, _) => Grade::Separate,
        (false, true) => Grade::Own,
        (false, false) => Grade::Dynamic,
    };
    Ok(CachedNames { grade, places: found })
}

/// The names that Go's runtime keeps in a stripped program.
struct GoTable<'a> {
    bytes: Cow<'a, [u8]>,
    text_start: u64,
}

impl<'a> GoTable<'a> {
    fn find<R: ReadRef<'a>>(image: &Image<'a, R>) -> Option<GoTable<'a>> {
        const TABLE: &str = ".gopclntab";
        let mut left_bytes = elf::unpacked_max_bytes();
        let bytes = image.section(TABLE, &mut left_bytes).ok().filter(|bytes| !bytes.is_empty())?;
        let text = image.section_place(".text")?;
        let module = image.section(".go.module", &mut left_bytes).unwrap_or_default();
        let start = pclntab::parse_text_start(&module, image.section_place(TABLE)?.0, text);
        Some(GoTable { bytes, text_start: start.unwrap_or(text.0) })
    }

    fn functions(&self) -> Option<GoFunctions<'_>> {
        parse_pclntab(&self.bytes, self.text_start)
    }
}

fn call_at(calls: &BTreeMap<u64, &[u8]>, address: u64) -> Option<String> {
    let (start, name) = calls.range(..=address).next_back()?;
    (address - start < plt::PIECE_BYTES as u64).then(|| format!("{}@plt", demangle(&String::from_utf8_lossy(name))))
}

fn name_of(symbol: &Symbol<'_>) -> String {
    demangle(&String::from_utf8_lossy(symbol.name))
}

/// The debug file that an image shares with other programs of its package (dwz).
fn shared<'a, R: ReadRef<'a>>(image: &Image<'a, R>, path: &Path, lookup: &Lookup) -> Option<Source> {
    let (name, id) = image.shared_link?;
    if let Some((source, _)) = by_build_id(id, lookup) {
        return Some(source);
    }
    let alternate = path.parent()?.join(OsStr::from_bytes(name));
    let source = source(place::open(&alternate).ok()?.file).ok()?;
    let is_it = Links::read(&source).ok()?.build_id.is_some_and(|found| same_build(&found, id));
    is_it.then_some(source)
}
