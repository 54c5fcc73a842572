//! The functions of a file: which file it is now, whether it is the one that ran, and what it and its separate debug information say.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::read::ReadRef;

use super::demangle::demangle;
use super::elf::{self, Image, Odd, Source, Symbol};
use super::lines::Sections;
use super::place::{self, Live, NotOpen, Opened};
use super::{Asked, Finding, PROCESSES_MAX, Reason, Settings, Symbols, Why, same_build};
use crate::names::Function;
use crate::recording::Recording;
use crate::stack::{Frame, Module, ModuleId};

/// What the kernel says at the end of the name of a file that has none any more.
const DELETED: &str = " (deleted)";

/// A file to be named: what the recording says of it.
struct Wanted<'r> {
    module: &'r Module,
    /// Those that had it mapped and run still.
    live: Vec<Live>,
    /// Where one of them has it: from, up to.
    mapped: Option<(u32, u64, u64)>,
    is_of_here: bool,
}

impl Symbols {
    /// Names the places of one file.
    pub(super) fn file(&self, recording: &Recording, id: ModuleId, offsets: &BTreeSet<u64>, finding: &mut Finding) {
        let Some(module) = recording.modules.get(id) else { return };
        let wanted = Wanted::of(recording, id, module, &self.settings);
        let found = wanted.open(&self.settings).and_then(|(opened, path)| {
            let source = elf::source(opened.file).map_err(Reason::from)?;
            let image = Image::parse(&source).map_err(Reason::from)?;
            named(&image, &path, offsets, &self.settings)
        });
        match found {
            Ok(Named { functions, lacking }) => {
                for (offset, functions) in functions {
                    finding.functions.insert(Frame::InFile { module: id, offset }, functions);
                }
                finding.files.insert(id, lacking.into());
            }
            Err(reason) => {
                finding.files.insert(id, reason);
            }
        }
    }
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
    fn of(recording: &Recording, id: ModuleId, module: &'r Module, settings: &Settings) -> Wanted<'r> {
        let machine = &recording.machine;
        let here = rustix::system::uname();
        let is_other = |told: &Option<String>, here: &std::ffi::CStr| {
            told.as_ref().is_some_and(|told| here.to_str().is_ok_and(|here| here != told))
        };
        let is_of_here = !is_other(&machine.host, here.nodename()) && !is_other(&machine.architecture, here.machine());
        let mut pids = BTreeSet::new();
        let mut mapped = None;
        for mapping in recording.mappings.iter().filter(|mapping| mapping.module == id) {
            if pids.len() < PROCESSES_MAX && pids.insert(mapping.pid) {
                mapped = mapped.or(Some((mapping.pid, mapping.start, mapping.end)));
            }
        }
        let live = pids.iter().filter(|_| is_of_here).filter_map(|pid| place::live(*pid, settings.recorded_until));
        Wanted { module, live: live.collect(), mapped, is_of_here }
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
        let of_containers = self.live.iter().filter(|live| live.has_own_root);
        for live in of_containers {
            match place::open_of(live, path).map_err(Reason::from).and_then(|opened| self.checked(opened, settings)) {
                Ok(opened) => return Ok((opened, path.into())),
                Err(why) => not(why),
            }
        }
        // A path of a container's is another file here; only its build id could tell that it is the same.
        if !self.live.iter().all(|live| live.has_own_root) || self.live.is_empty() || self.module.build_id.is_some() {
            let opened = place::open(Path::new(path)).map_err(Reason::from);
            match opened.and_then(|opened| self.checked(opened, settings)) {
                Ok(opened) => return Ok((opened, path.into())),
                Err(why) => not(why),
            }
        }
        // A file that was replaced or deleted is still there for who has it mapped.
        if let Some((pid, start, end)) = self.mapped
            && self.live.iter().any(|live| live.pid == pid)
            && let Ok(opened) = place::open(Path::new(&format!("/proc/{pid}/map_files/{start:x}-{end:x}")))
            && let Ok(opened) = self.checked(opened, settings)
        {
            return Ok((opened, path.into()));
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

struct Named {
    functions: Vec<(u64, Vec<Function>)>,
    /// Why those that are not among them have no name.
    lacking: Why,
}

/// Names the places of an image, with its separate debug information where there is some.
fn named<'a, R: ReadRef<'a>>(
    image: &Image<'a, R>,
    path: &Path,
    offsets: &BTreeSet<u64>,
    settings: &Settings,
) -> Result<Named, Reason> {
    let separate = separate(image, path, settings);
    let separate = separate.as_ref().and_then(|(source, path)| Some((Image::parse(source).ok()?, path)));
    let shared = separate.as_ref().and_then(|(image, path)| shared(image, path, settings));
    let shared = shared.as_ref().and_then(|source| Image::parse(source).ok());
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
        Some(separate) if separate.has_lines() => Sections::of(separate, shared.as_ref()).ok(),
        _ if image.has_lines() => Sections::of(image, None).ok(),
        _ => None,
    };
    let lines = sections.as_ref().and_then(|sections| sections.lines().ok());
    let named = places.into_iter().filter_map(|(offset, address)| {
        let symbol = elf::function_at(&functions, address).map(name_of);
        let mut found = lines.as_ref().map(|lines| lines.at(address)).unwrap_or_default();
        match (found.first_mut(), symbol) {
            (Some(outermost), Some(symbol)) => outermost.name = symbol,
            (None, Some(symbol)) => found.push(Function::named(symbol)),
            _ => {}
        }
        found.retain(|function| !function.name.is_empty());
        (!found.is_empty()).then_some((offset, found))
    });
    let functions_known = with_names.is_some() || image.has_own_names();
    let lacking = if functions_known { Why::NotInTable } else { Why::NoSymbols };
    Ok(Named { functions: named.collect(), lacking })
}

fn name_of(symbol: &Symbol<'_>) -> String {
    demangle(&String::from_utf8_lossy(symbol.name))
}

/// The file with what was taken out of an image: by its build id, or by the name and the checksum that the image tells.
fn separate<'a, R: ReadRef<'a>>(image: &Image<'a, R>, path: &Path, settings: &Settings) -> Option<(Source, PathBuf)> {
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
    let digits = hex(id);
    let (first, rest) = digits.split_at_checked(2)?;
    settings.debug_folders.iter().find_map(|folder| {
        let path = folder.join(".build-id").join(first).join(format!("{rest}.debug"));
        let source = elf::source(place::open(&path).ok()?.file).ok()?;
        let is_it = Image::parse(&source).ok()?.build_id.is_some_and(|found| same_build(found, id));
        is_it.then_some((source, path))
    })
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

fn checksum_of(mut file: std::fs::File) -> Option<u32> {
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
