//! Where the file of a recorded program or library is on this machine, and the kernel's own piece of every program, which is in no file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use object::read::ReadCache;

use super::elf::{Image, Unusable};
use crate::recording::Machine;
use crate::stack::Module;

/// The kernel's own piece of every program: code that reads clocks.
pub(super) const VDSO: &str = "[vdso]";
/// It has two pages.
const VDSO_BYTES_MAX: u64 = 1 << 20;

/// The image of a module, that a process with this number has mapped.
///
/// # Errors
/// If it is nowhere, or of no use.
pub(super) fn image(module: &Module, pid: u32, machine: &Machine) -> Result<Image, Unusable> {
    if module.path == VDSO {
        return vdso(machine);
    }
    let mut wrong = Unusable::NotHere;
    let mut found = None;
    for path in places(module, pid) {
        match read(&path) {
            Ok(image) if is_of(&image, module) => {
                if image.has_table() {
                    return Ok(image);
                }
                // A file of debug information may have what this one has been stripped of, and is mapped nowhere.
                found.get_or_insert(image);
            }
            Ok(_) | Err(Unusable::NotHere) => {}
            Err(error) => wrong = error,
        }
    }
    let mut image = found.ok_or(wrong)?;
    if let Some(debug) = image.build_id.as_deref().and_then(debug_file)
        && let Ok(debug) = read(&debug)
        && debug.build_id == image.build_id
    {
        image.debug_frame = debug.debug_frame;
    }
    if image.has_table() { Ok(image) } else { Err(Unusable::NoTable) }
}

/// One that was built anew since has another build id, and other code.
fn is_of(image: &Image, module: &Module) -> bool {
    match (&image.build_id, &module.build_id) {
        (Some(has), Some(had)) => has == had,
        _ => true,
    }
}

/// Where it may be: at its path, at its path as the process sees it.
fn places(module: &Module, pid: u32) -> Vec<PathBuf> {
    let Some(path) = module.path.strip_prefix('/') else { return Vec::new() };
    vec![Path::new("/").join(path), PathBuf::from(format!("/proc/{pid}/root")).join(path)]
}

/// Where distributions put a file of debug information.
fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug")))
}

fn read(path: &Path) -> Result<Image, Unusable> {
    // A pipe of that name would be waited for, and a device may do anything.
    if !std::fs::metadata(path).is_ok_and(|about| about.is_file()) {
        return Err(Unusable::NotHere);
    }
    let file = File::open(path).map_err(|_| Unusable::NotHere)?;
    Image::parse(&ReadCache::new(file))
}

/// Of our own process: it is the same in all, as long as the kernel is.
fn vdso(machine: &Machine) -> Result<Image, Unusable> {
    let here = std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|_| Unusable::NotHere)?;
    let is_here = machine.kernel.as_ref().is_none_or(|kernel| kernel == here.trim_end())
        && machine.architecture.as_ref().is_none_or(|architecture| architecture == std::env::consts::ARCH);
    if !is_here {
        return Err(Unusable::NotHere);
    }
    Image::parse(own_vdso()?.as_slice())
}

/// What our own process has of it.
pub(super) fn own_vdso() -> Result<Vec<u8>, Unusable> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| Unusable::NotHere)?;
    let (start, end) = maps.lines().find_map(vdso_of).ok_or(Unusable::NotHere)?;
    let length = end.checked_sub(start).filter(|length| *length <= VDSO_BYTES_MAX).ok_or(Unusable::TooLarge(VDSO))?;
    let mut bytes = vec![0; length as usize];
    let mut memory = File::open("/proc/self/mem").map_err(|_| Unusable::NotHere)?;
    memory.seek(SeekFrom::Start(start)).and_then(|_| memory.read_exact(&mut bytes)).map_err(|_| Unusable::NotHere)?;
    Ok(bytes)
}

/// From where up to where it is, if a line of `/proc/PID/maps` is of it.
fn vdso_of(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.strip_suffix(VDSO)?.split_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
