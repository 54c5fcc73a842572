//! Finds the file and the offset of a place that the user named.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evenkeel_sys::Errno;
use evenkeel_sys::perf_probe::Probe;

use super::search::{self, Begins, Near};
use super::{LIBRARY, LIBRARY_BEGINS, LIBRARY_ENDS, NoPlace, Note, PlaceSpec, Probed, Spot, Until, notes};
use crate::binaries::source::{Odd, Source, source};
use crate::binaries::{Lookup, NotFound, place, separate};
use crate::live::already::{self, Map};
use crate::symbols::elf::{Image, unpacked_max_bytes};

/// The maximum number of files of a process to search for markers.
const FILES_MAX: usize = 512;
/// The maximum number of places with the same marker. A marker in an inlined function is in many places, and each place needs a probe.
const SITES_MAX: usize = 8;

/// A file that a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Runs {
    /// The path that opens exactly this file, even if another file now has its name.
    open: PathBuf,
    /// The path to show.
    path: String,
}

impl Runs {
    fn name(&self) -> &str {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        path.rsplit('/').next().unwrap_or(path)
    }

    fn image(&self) -> Result<Source, Odd> {
        let opened = place::open(&self.open).map_err(|not| Odd(NotFound::from(not).to_string()))?;
        source(opened.file)
    }
}

/// The probes at the beginning and at the end of a tick in these processes.
///
/// # Errors
/// [`NoPlace`].
pub fn beginning_and_end(asked: &PlaceSpec, until: &Until, pids: &[u32]) -> Result<Vec<Probed>, NoPlace> {
    let (file, sites) = sites(asked, pids)?;
    let event = event_name(&file, asked);
    let mut found = probed(&file, &sites, &event, asked)?;
    match until {
        Until::Wait => {}
        // A marker is not a function, so it has no return.
        Until::Return if matches!(asked.spot, Spot::Mark { .. }) => {}
        Until::Return => {
            if sites.iter().any(|site| site.is_gos) {
                return Err(NoPlace::NoReturn { asked: asked.to_string(), file: file.path.clone() });
            }
            let returns = found.iter().map(|begins| Probed {
                event: format!("{event}__return"),
                probe: begins.probe.clone().on_return(),
                registers: 0,
            });
            let returns: Vec<Probed> = returns.collect();
            found.extend(returns);
        }
        Until::Place(end) => {
            let end = PlaceSpec { binary: end.binary.clone().or_else(|| asked.binary.clone()), ..end.clone() };
            let (file, sites) = self::sites(&end, pids)?;
            let name = event_name(&file, &end);
            let name = name.split_once(':').map_or(name.as_str(), |(_, name)| name);
            found.extend(probed(&file, &sites, &format!("{event}__until_{name}"), &end)?);
        }
    }
    Ok(found)
}

/// The markers of `evenkeel-rt` at the beginning and the end of a tick, in these processes. `None` if the processes have no such markers.
pub fn library_marks(pids: &[u32]) -> Option<Vec<Probed>> {
    for pid in pids {
        for file in runs(*pid).unwrap_or_default().iter().take(FILES_MAX) {
            let Ok(source) = file.image() else { continue };
            let Ok(image) = Image::parse(&source) else { continue };
            let all = [LIBRARY_BEGINS, LIBRARY_ENDS].map(|name| {
                let asked = PlaceSpec {
                    binary: None,
                    spot: Spot::Mark { provider: LIBRARY.to_owned(), name: name.to_owned() },
                };
                let found = marks(&image, LIBRARY, name);
                let sites = found.into_iter().map(|note| site_of(&image, &note)).collect::<Option<Vec<Site>>>();
                let sites = sites.filter(|sites| !sites.is_empty())?;
                probed(file, &sites, &event_name(file, &asked), &asked).ok()
            });
            let [Some(begins), Some(ends)] = all else { continue };
            return Some([begins, ends].concat());
        }
    }
    None
}

/// A byte offset in a file, where a probe is set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Site {
    offset: u64,
    registers: u64,
    is_gos: bool,
}

fn sites(asked: &PlaceSpec, pids: &[u32]) -> Result<(Runs, Vec<Site>), NoPlace> {
    let file = file_of(asked, pids)?;
    let odd = |error: Odd| NoPlace::Odd { asked: asked.to_string(), file: file.path.clone(), why: error.0 };
    let source = file.image().map_err(odd)?;
    let image = Image::parse(&source).map_err(odd)?;
    let is_gos = image.section_address(".gopclntab").is_some();
    let one = |offset| vec![Site { offset, registers: 0, is_gos }];
    let sites = match &asked.spot {
        Spot::Function(name) => one(function(&file, &image, name)?),
        Spot::Offset(offset) => {
            let not = |before| NoPlace::NoBeginning { file: file.path.clone(), offset: *offset, before };
            let address = image.code_address_of(*offset).ok_or_else(|| not(None))?;
            match search::begins_at(&image, address).map_err(odd)? {
                Begins::Here | Begins::Unknown => one(*offset),
                Begins::Not(before) => return Err(not(before.and_then(|before| image.offset_of(before)))),
            }
        }
        Spot::Mark { provider, name } => {
            let found = marks(&image, provider, name);
            if let Some(counted) = found.iter().find(|note| note.semaphore != 0) {
                let why =
                    format!("{}:{} has a semaphore, which evenkeel does not support", counted.provider, counted.name);
                return Err(odd(Odd(why)));
            }
            let sites: Vec<Site> = found.iter().filter_map(|note| site_of(&image, note)).collect();
            if sites.is_empty() {
                return Err(odd(Odd("it has no such marker".to_owned())));
            }
            sites
        }
    };
    Ok((file, sites))
}

/// The file offset of a function.
fn function<'a, R: object::read::ReadRef<'a>>(file: &Runs, image: &Image<'a, R>, name: &str) -> Result<u64, NoPlace> {
    let asked = || name.to_owned();
    let odd = |error: Odd| NoPlace::Odd { asked: asked(), file: file.path.clone(), why: error.0 };
    let separate = separate(&image.links(), Path::new(&file.path), &Lookup::default());
    let separate = separate.as_ref().and_then(|(source, _)| Image::parse(source).ok());
    let separate = separate.as_ref().filter(|separate| separate.has_own_names());
    let is_stripped = separate.is_none() && !image.has_own_names();
    let mini = if is_stripped { image.mini_debug_info() } else { None };
    let mini = mini.as_ref().and_then(|bytes| Image::parse(bytes.as_slice()).ok());
    let functions = match separate {
        Some(separate) => separate.all_functions(),
        None => image.all_functions_with(mini.as_ref()),
    };
    // Addresses are the same in the debug file and in the program, but file offsets differ.
    let offset = |address: u64| {
        image.offset_of(address).ok_or_else(|| odd(Odd(format!("its address {address:#x} is outside of the file"))))
    };
    match search::by_name(&functions.map_err(odd)?, name) {
        Near::Here(address) => offset(address),
        Near::None(_) if is_stripped && mini.is_none() => {
            Err(NoPlace::Stripped { asked: asked(), file: file.path.clone() })
        }
        Near::None(near) => Err(NoPlace::NoSymbol { asked: asked(), file: file.path.clone(), near }),
        Near::Several(all) => {
            let near =
                all.into_iter().map(|(address, name)| Ok(format!("{name} ({}+{:#x})", file.name(), offset(address)?)));
            Err(NoPlace::Ambiguous { asked: asked(), file: file.path.clone(), near: near.collect::<Result<_, _>>()? })
        }
    }
}

/// The markers of this provider and name.
fn marks<'a, R: object::read::ReadRef<'a>>(image: &Image<'a, R>, provider: &str, name: &str) -> Vec<Note> {
    let section = image.section(notes::SECTION, &mut unpacked_max_bytes()).unwrap_or_default();
    let mut found = notes::parse_notes(&section);
    found.retain(|note| note.provider == provider && note.name == name);
    found.truncate(SITES_MAX);
    found
}

fn site_of<'a, R: object::read::ReadRef<'a>>(image: &Image<'a, R>, note: &Note) -> Option<Site> {
    // Tools that move sections (prelink) move this section too, but do not change the addresses in the notes.
    let moved = image.section_address(notes::BASE_SECTION).map_or(0, |base| base.wrapping_sub(note.base));
    let registers = notes::registers_of(&note.arguments).unwrap_or_default();
    let registers = registers.into_iter().fold(0, |bits, register| bits | 1 << register);
    Some(Site { offset: image.offset_of(note.address.wrapping_add(moved))?, registers, is_gos: false })
}

fn probed(file: &Runs, sites: &[Site], event: &str, asked: &PlaceSpec) -> Result<Vec<Probed>, NoPlace> {
    let of = |site: &Site| {
        let probe = Probe::at(&file.open, site.offset)?;
        Ok(Probed { event: event.to_owned(), probe, registers: site.registers })
    };
    let odd = |errno: Errno| NoPlace::Odd { asked: asked.to_string(), file: file.path.clone(), why: errno.to_string() };
    sites.iter().map(of).collect::<Result<_, Errno>>().map_err(odd)
}

/// An event name in perf's style, in which the group part has only letters and digits.
fn event_name(file: &Runs, asked: &PlaceSpec) -> String {
    let stem = file.name().split('.').next().unwrap_or_default();
    let group: String = stem.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    match &asked.spot {
        Spot::Function(name) => format!("probe_{group}:{name}"),
        Spot::Offset(offset) => format!("probe_{group}:abs_{offset:x}"),
        Spot::Mark { provider, name } => format!("sdt_{provider}:{name}"),
    }
}

/// The file that the user named, or else the program of the processes.
fn file_of(asked: &PlaceSpec, pids: &[u32]) -> Result<Runs, NoPlace> {
    let text = asked.to_string();
    if pids.is_empty() {
        let path = asked.binary.as_ref().filter(|path| path.contains('/'));
        let path = path.ok_or(NoPlace::NoProcess(text))?;
        return Ok(Runs { open: PathBuf::from(path), path: path.clone() });
    }
    let mut found: BTreeMap<(u64, u64), Runs> = BTreeMap::new();
    let mut refused = None;
    for pid in pids {
        match of_process(asked, *pid) {
            Ok(file) => {
                let id = std::fs::metadata(&file.open).map_or((0, u64::from(*pid)), |known| (known.dev(), known.ino()));
                found.entry(id).or_insert(file);
            }
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    match (found.len(), found.pop_first(), refused) {
        (1, Some((_, file)), _) => Ok(file),
        (0, _, Some(why)) => Err(why),
        (_, first, _) => {
            let files = first.into_iter().chain(found).map(|(_, file)| file.path).collect();
            Err(NoPlace::Several { asked: text, files })
        }
    }
}

fn of_process(asked: &PlaceSpec, pid: u32) -> Result<Runs, NoPlace> {
    if already::threads(pid).is_empty() {
        return Err(NoPlace::NoSuchProcess { asked: asked.to_string(), pid });
    }
    let unreadable = |errno| NoPlace::Unreadable { asked: asked.to_string(), pid, errno };
    let Some(binary) = &asked.binary else {
        let link = format!("/proc/{pid}/exe");
        let path = std::fs::read_link(&link).map_err(|error| unreadable(Errno::from(&error)))?;
        return Ok(Runs { open: link.into(), path: path.to_string_lossy().into_owned() });
    };
    let all = runs(pid).map_err(unreadable)?;
    let real = std::fs::canonicalize(binary).ok();
    let is_it = |file: &&Runs| {
        if binary.contains('/') {
            file.path == *binary || real.as_deref() == Some(Path::new(&file.path))
        } else {
            file.name() == binary
                || file.name().strip_prefix(binary.as_str()).is_some_and(|rest| rest.starts_with(".so"))
        }
    };
    all.iter().find(is_it).cloned().ok_or_else(|| NoPlace::NotMapped {
        asked: asked.to_string(),
        pid,
        binary: binary.clone(),
        runs: all.iter().map(|file| file.name().to_owned()).collect(),
    })
}

/// The files that a process runs, its program first.
fn runs(pid: u32) -> Result<Vec<Runs>, Errno> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).map_err(|error| Errno::from(&error))?;
    let text = String::from_utf8_lossy(&text);
    let mut found: Vec<Runs> = Vec::new();
    let maps = text.lines().filter_map(already::parse_map);
    for map in maps.filter(|map: &Map<'_>| map.is_code && map.inode != 0 && map.path.starts_with('/')) {
        if found.len() < FILES_MAX && found.iter().all(|file| file.path != map.path) {
            let open = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end));
            // If the user may not follow the link, open the file by its path.
            let open = if place::open(&open).is_ok() { open } else { PathBuf::from(map.path) };
            found.push(Runs { open, path: map.path.to_owned() });
        }
    }
    let own = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    found.sort_by_key(|file| Path::new(&file.path) != own);
    Ok(found)
}

/// The processes that have a thread of this name.
pub fn processes_with(thread: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        already::threads(*pid).into_iter().any(|tid| already::name(*pid, tid).as_deref() == Some(thread.as_bytes()))
    };
    already::processes().into_iter().filter(has).collect()
}
