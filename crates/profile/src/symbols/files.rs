//! The functions of a file: which file it is now, whether it is the one that ran, and what it and its separate debug information say.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::read::ReadRef;

use super::cache::{Grade, Kept, Key, Scope};
use super::demangle::demangle;
use super::elf::{self, Image, Odd, Source, Symbol};
use super::lines::{Lines, Sections};
use super::pclntab::{self, GoFunctions, parse_pclntab};
use super::place::{self, Live, NotOpen, Opened};
use super::plt;
use super::split::{self, Split};
use super::{Asked, Finding, Mapped, Reason, Settings, Symbols, VDSO, Why, anonymous, identity, same_build};
use crate::names::Function;
use crate::recording::{Machine, Mapping, Recording};
use crate::stack::{Frame, Module, ModuleId};

/// What the kernel says at the end of the name of a file that has none any more.
const DELETED: &str = " (deleted)";

/// A file to be named: what the recording says of it.
struct Wanted<'r> {
    module: &'r Module,
    /// Those that had it mapped and run still, and where.
    live: Vec<(Live, Mapping)>,
    is_of_here: bool,
}

impl Symbols {
    /// Names the places of one file.
    pub(super) fn file(
        &self,
        (recording, mapped): (&Recording, &Mapped),
        id: ModuleId,
        offsets: &BTreeSet<u64>,
        finding: &mut Finding,
    ) {
        let Some(module) = recording.modules.get(id) else { return };
        if module.path == VDSO {
            anonymous::vdso_file(recording, id, offsets, finding);
            return;
        }
        let wanted = Wanted::of(&recording.machine, mapped.by_file.get(&id), module, &self.settings);
        let identity = identity(recording);
        let key = wanted.key().or_else(|| of_recording(&identity, &module.path, &self.settings));
        let mut kept =
            key.and_then(|key| self.cache.load(key)).filter(|kept| !is_outdone(kept, module, &self.settings));
        let missing = |kept: &Option<Kept>| -> BTreeSet<u64> {
            let is_kept = |offset: &u64| kept.as_ref().is_some_and(|kept| kept.places.contains_key(offset));
            offsets.iter().copied().filter(|offset| !is_kept(offset)).collect()
        };
        let wanting = missing(&kept);
        let mut reason = None;
        if !wanting.is_empty() {
            match wanted.named(&wanting, &self.settings) {
                Ok(found) => {
                    let kept = kept.get_or_insert_with(|| Kept { grade: found.grade, places: BTreeMap::new() });
                    kept.grade = found.grade;
                    kept.places.extend(found.places);
                    if let Some(key) = key {
                        self.cache.store(key, kept);
                    }
                }
                Err(why) => reason = Some(why),
            }
        }
        let Some(Kept { grade, places }) = kept else {
            finding.files.extend(reason.map(|reason| (id, reason)));
            return;
        };
        let lacking = if grade == Grade::Dynamic { Why::NoSymbols } else { Why::NotInTable };
        finding.files.insert(id, reason.unwrap_or_else(|| lacking.into()));
        for (offset, functions) in places.into_iter().filter(|(offset, _)| offsets.contains(offset)) {
            finding.functions.insert(Frame::InFile { module: id, offset }, functions);
        }
    }
}

/// What is kept for one recording alone; nothing of what was recorded just now, and will not be read again.
pub(super) fn of_recording<'k>(identity: &'k [u8], path: &'k str, settings: &Settings) -> Option<Key<'k>> {
    settings.recorded_until.map(|_| Key { build_id: identity, path, scope: Scope::Recording })
}

/// Whether there is better now than what was kept: separate debug information that was installed since.
fn is_outdone(kept: &Kept, module: &Module, settings: &Settings) -> bool {
    let id = module.build_id.as_deref().unwrap_or_default();
    let package = split::package_path(Path::new(&module.path));
    kept.grade < Grade::Separate && debug_paths(id, settings).chain([package]).any(|path| path.exists())
}

impl From<Odd> for Reason {
    fn from(odd: Odd) -> Reason {
        Reason { why: Why::Malformed, detail: Some(odd.0) }
    }
}

impl From<NotOpen> for Reason {
    fn from(not: NotOpen) -> Reason {
        match not {
            NotOpen::Gone => Why::Gone.into(),
            NotOpen::Denied => Why::NotAllowed.into(),
            NotOpen::Other(detail) => Reason { why: Why::Malformed, detail: Some(detail) },
        }
    }
}

impl<'r> Wanted<'r> {
    fn of(machine: &Machine, mappings: Option<&Vec<Mapping>>, module: &'r Module, settings: &Settings) -> Wanted<'r> {
        let here = rustix::system::uname();
        let is_other = |told: &Option<String>, here: &std::ffi::CStr| {
            told.as_ref().is_some_and(|told| here.to_str().is_ok_and(|here| here != told))
        };
        let is_of_here = !is_other(&machine.host, here.nodename()) && !is_other(&machine.architecture, here.machine());
        let mappings = mappings.map(Vec::as_slice).unwrap_or_default().iter().filter(|_| is_of_here);
        let live = mappings.filter_map(|mapping| Some((place::live(mapping.pid, settings.recorded_until)?, *mapping)));
        Wanted { module, live: live.collect(), is_of_here }
    }

    /// What is kept of it: only a build id says that it is the same file.
    fn key(&self) -> Option<Key<'r>> {
        let is_of_container = self.live.iter().any(|(live, _)| live.has_own_root);
        let scope = if is_of_container { Scope::Container } else { Scope::Here };
        self.module.build_id.as_deref().map(|build_id| Key { build_id, path: &self.module.path, scope })
    }

    /// Names these places of it.
    fn named(&self, offsets: &BTreeSet<u64>, settings: &Settings) -> Result<Kept, Reason> {
        let (opened, path) = self.open(settings)?;
        let source = elf::source(opened.file)?;
        let image = Image::parse(&source)?;
        let open = |path: &Path| self.open_beside(path);
        named(&image, (&path, &open), offsets, settings)
    }

    /// Opens what the file names: a path of a container's is looked for in the container alone.
    fn open_beside(&self, path: &Path) -> Option<File> {
        let mut of_containers = self.live.iter().map(|(live, _)| live).filter(|live| live.has_own_root).peekable();
        if of_containers.peek().is_none() {
            return Some(place::open(path).ok()?.file);
        }
        let path = path.to_str()?;
        of_containers.find_map(|live| Some(place::open_of(live, path).ok()?.file))
    }

    /// Opens the file that ran, and tells its path. One that is another file, or may be one, is not opened.
    fn open(&self, settings: &Settings) -> Result<(Opened, PathBuf), Reason> {
        let path = self.module.path.strip_suffix(DELETED).unwrap_or(&self.module.path);
        if !path.starts_with('/') {
            return Err(Why::NotTold.into());
        }
        let mut reason = None;
        let mut not = |why: Reason| {
            // What was found and is another file says more than that there is none.
            if reason.as_ref().is_none_or(|known: &Reason| known.why == Why::Gone) {
                reason = Some(why);
            }
        };
        let of_containers = self.live.iter().map(|(live, _)| live).filter(|live| live.has_own_root);
        for live in of_containers {
            match place::open_of(live, path).map_err(Reason::from).and_then(|opened| self.checked(opened, settings)) {
                Ok(opened) => return Ok((opened, path.into())),
                Err(why) => not(why),
            }
        }
        // A path of a container's is another file here; only its build id could tell that it is the same.
        if !self.live.iter().all(|(live, _)| live.has_own_root)
            || self.live.is_empty()
            || self.module.build_id.is_some()
        {
            let opened = place::open(Path::new(path)).map_err(Reason::from);
            match opened.and_then(|opened| self.checked(opened, settings)) {
                Ok(opened) => return Ok((opened, path.into())),
                Err(why) => not(why),
            }
        }
        // A file that was replaced or deleted is still there for who has it mapped.
        for (live, Mapping { start, end, .. }) in &self.live {
            let held = format!("/proc/{}/map_files/{start:x}-{end:x}", live.pid);
            if let Ok(opened) = place::open(Path::new(&held))
                && let Ok(opened) = self.checked(opened, settings)
            {
                return Ok((opened, path.into()));
            }
        }
        Err(reason.unwrap_or_else(|| Why::Gone.into()))
    }

    /// Whether it is the file that ran.
    fn checked(&self, opened: Opened, settings: &Settings) -> Result<Opened, Reason> {
        let Some(told) = &self.module.build_id else {
            if !self.is_of_here {
                return Err(Why::OtherMachine.into());
            }
            if settings.recorded_until.is_some_and(|until| opened.changed > until) {
                return Err(Why::Replaced.into());
            }
            return Ok(opened);
        };
        let again = opened.file.try_clone().map_err(|error| NotOpen::Other(error.to_string()))?;
        let source = elf::source(again)?;
        let image = Image::parse(&source)?;
        match image.build_id {
            Some(found) if same_build(told, found) => Ok(opened),
            Some(found) => Err(Reason { why: Why::Replaced, detail: Some(format!("its build id is {}", hex(found))) }),
            None => Err(Reason { why: Why::Replaced, detail: Some("it has no build id".to_owned()) }),
        }
    }
}

/// A build id as people write it.
pub(super) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Names the places of an image, with its separate debug information where there is some.
fn named<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    (path, open): (&Path, split::Open<'_>),
    offsets: &BTreeSet<u64>,
    settings: &Settings,
) -> Result<Kept, Reason> {
    let separate = separate(image, path, settings);
    let separate = separate.as_ref().and_then(|(source, path)| Some((Image::parse(source).ok()?, path)));
    let shared = separate.as_ref().and_then(|(image, path)| shared(image, path, settings));
    let shared = shared.as_ref().and_then(|source| Image::parse(source).ok());
    let paths: Vec<&Path> = iter::once(path).chain(separate.as_ref().map(|(_, path)| path.as_path())).collect();
    let package = split::package(open, &paths);
    let package = package.as_ref().and_then(|source| Image::parse(source).ok());
    let split = Split { package: package.as_ref(), open, program: path };
    let separate = separate.map(|(image, _)| image);

    let with_names = separate.as_ref().filter(|separate| separate.has_own_names());
    let functions = match with_names {
        Some(separate) => separate.functions()?,
        None => image.functions()?,
    };
    let places: Vec<(u64, u64)> =
        offsets.iter().filter_map(|offset| Some((*offset, image.address_of(*offset)?))).collect();
    // Lines that contradict themselves are none: the names stay.
    let sections = match &separate {
        Some(separate) if separate.has_lines() => Sections::of(separate, shared.as_ref(), split).ok(),
        _ if image.has_lines() => Sections::of(image, None, split).ok(),
        _ => None,
    };
    let lines = sections.as_ref().and_then(|sections| sections.lines().ok());
    let go_table = if with_names.is_none() && !image.has_own_names() { GoTable::of(image) } else { None };
    let go = go_table.as_ref().and_then(GoTable::functions);
    let of_go = |address| go.as_ref().and_then(|go| go.at(address)).map(|name| demangle(&name));
    // What calls into libraries is in the program itself, never in what was taken out of it.
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
    let grade = match (is_separate, image.has_own_names() || go.is_some()) {
        (true, _) => Grade::Separate,
        (false, true) => Grade::Own,
        (false, false) => Grade::Dynamic,
    };
    Ok(Kept { grade, places: found })
}

/// The names that Go's runtime needs itself, in a program that was stripped of others.
struct GoTable<'a> {
    bytes: Cow<'a, [u8]>,
    text_start: u64,
}

impl<'a> GoTable<'a> {
    fn of<R: ReadRef<'a>>(image: &Image<'a, R>) -> Option<GoTable<'a>> {
        const TABLE: &str = ".gopclntab";
        let mut left_bytes = elf::unpacked_max_bytes();
        let bytes = image.section(TABLE, &mut left_bytes).ok().filter(|bytes| !bytes.is_empty())?;
        let text = image.section_place(".text")?;
        let module = image.section(".go.module", &mut left_bytes).unwrap_or_default();
        let told = pclntab::parse_text_start(&module, image.section_place(TABLE)?.0, text);
        Some(GoTable { bytes, text_start: told.unwrap_or(text.0) })
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

/// The file with what was taken out of an image: by its build id, or by the name and the checksum that the image tells.
pub(crate) fn separate<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    path: &Path,
    settings: &Settings,
) -> Option<(Source, PathBuf)> {
    if let Some(id) = image.build_id
        && let Some(found) = by_build_id(id, settings)
    {
        return Some(found);
    }
    let (name, checksum) = image.debug_link?;
    let name = Path::new(OsStr::from_bytes(name));
    // The link is a name, no path.
    if name.file_name() != Some(name.as_os_str()) {
        return None;
    }
    let beside = path.parent()?;
    let below = beside.strip_prefix("/").ok()?;
    let folders = [beside.to_owned(), beside.join(".debug")];
    let folders = folders.into_iter().chain(settings.debug_folders.iter().map(|folder| folder.join(below)));
    for candidate in folders.map(|folder| folder.join(name)).filter(|candidate| candidate != path) {
        let Ok(opened) = place::open(&candidate) else { continue };
        let Ok(again) = opened.file.try_clone() else { continue };
        let Ok(source) = elf::source(opened.file) else { continue };
        let told = Image::parse(&source).ok().map(|found| found.build_id.map(<[u8]>::to_vec));
        let is_it = match (told, image.build_id) {
            (None, _) => false,
            (Some(Some(found)), Some(id)) => same_build(&found, id),
            (Some(_), _) => checksum_of(again) == Some(checksum),
        };
        if is_it {
            return Some((source, candidate));
        }
    }
    None
}

fn by_build_id(id: &[u8], settings: &Settings) -> Option<(Source, PathBuf)> {
    debug_paths(id, settings).find_map(|path| {
        let source = elf::source(place::open(&path).ok()?.file).ok()?;
        let is_it = Image::parse(&source).ok()?.build_id.is_some_and(|found| same_build(found, id));
        is_it.then_some((source, path))
    })
}

/// Where separate debug information of a build id may be.
fn debug_paths(id: &[u8], settings: &Settings) -> impl Iterator<Item = PathBuf> {
    let digits = hex(id);
    let place = digits.split_at_checked(2).map(|(first, rest)| format!(".build-id/{first}/{rest}.debug"));
    settings.debug_folders.iter().filter_map(move |folder| Some(folder.join(place.as_ref()?)))
}

/// The file with what an image shares with others of its package.
fn shared<'a, R: ReadRef<'a>>(image: &Image<'a, R>, path: &Path, settings: &Settings) -> Option<Source> {
    let (name, id) = image.shared_link?;
    if let Some((source, _)) = by_build_id(id, settings) {
        return Some(source);
    }
    let beside = path.parent()?.join(OsStr::from_bytes(name));
    let source = elf::source(place::open(&beside).ok()?.file).ok()?;
    let is_it = Image::parse(&source).ok()?.build_id.is_some_and(|found| same_build(found, id));
    is_it.then_some(source)
}

fn checksum_of(mut file: File) -> Option<u32> {
    use std::io::{Read, Seek};
    file.rewind().ok()?;
    let mut sum = crc32fast::Hasher::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(sum.finalize()),
            read => sum.update(piece.get(..read)?),
        }
    }
}

impl Asked {
    /// The places of a recording's frames.
    pub(super) fn of(recording: &Recording) -> Asked {
        let mut asked = Asked::default();
        for frame in recording.stacks.frames() {
            match frame {
                Frame::InFile { module, offset } => {
                    let (_, offsets) = asked.files.entry(module.place()).or_insert_with(|| (*module, BTreeSet::new()));
                    offsets.insert(*offset);
                }
                Frame::Anonymous { pid, address } => {
                    asked.anonymous.entry(*pid).or_default().insert(*address);
                }
                Frame::Kernel { .. } | Frame::Named { .. } | Frame::Hint(_) => {}
            }
        }
        asked
    }
}
