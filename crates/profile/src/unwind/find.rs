//! Finds the unwind tables of a recorded program or library: in its file, in its debug file, and in the vDSO, which has no file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use super::elf::{Image, Unusable};
use crate::binaries::source::source;
use crate::binaries::{Links, Lookup, NotFound, Sought, mini_debug_info, separate};
use crate::recording::{Machine, Mapping};
use crate::stack::Module;

/// The name of the vDSO.
pub(super) const VDSO: &str = "[vdso]";
/// The maximum number of bytes of the vDSO. The real vDSO has two pages.
const VDSO_BYTES_MAX: u64 = 1 << 20;

/// The image of a module that a process has mapped.
///
/// # Errors
/// If the file of the module does not exist, or is unusable.
pub(super) fn image(module: &Module, mapping: Mapping, machine: &Machine, lookup: &Lookup) -> Result<Image, Unusable> {
    if module.path == VDSO {
        return vdso(machine);
    }
    let (opened, path) = Sought::new(machine, &[mapping], module, lookup).open(lookup)?;
    let source = source(opened.file).map_err(NotFound::from)?;
    let mut image = Image::parse(&source)?;
    let mini = image.mini_debug_info.take();
    if image.has_table() {
        return Ok(image);
    }
    // A debug file has no mapping.
    let links = Links::read(&source).map_err(NotFound::from)?;
    let separate = separate(&links, &path, lookup).and_then(|(separate, _)| Image::parse(&separate).ok());
    image.debug_frame = separate.and_then(|separate| separate.debug_frame).or_else(|| {
        let mini = mini_debug_info(&mini?)?;
        Image::parse(mini.as_slice()).ok()?.debug_frame
    });
    if image.has_table() { Ok(image) } else { Err(Unusable::NoTable) }
}

/// The vDSO of this process, which is the same in all processes of one kernel.
fn vdso(machine: &Machine) -> Result<Image, Unusable> {
    let here = std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|_| NotFound::Gone)?;
    let is_here = machine.kernel.as_ref().is_none_or(|kernel| kernel == here.trim_end())
        && machine.architecture.as_ref().is_none_or(|architecture| architecture == std::env::consts::ARCH);
    if !is_here {
        return Err(NotFound::Gone.into());
    }
    Image::parse(own_vdso()?.as_slice())
}

/// This process's vDSO.
pub(super) fn own_vdso() -> Result<Vec<u8>, Unusable> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| NotFound::Gone)?;
    let (start, end) = maps.lines().find_map(vdso_of).ok_or(NotFound::Gone)?;
    let length = end.checked_sub(start).filter(|length| *length <= VDSO_BYTES_MAX).ok_or(Unusable::TooLarge(VDSO))?;
    let mut bytes = vec![0; length as usize];
    let mut memory = File::open("/proc/self/mem").map_err(|_| NotFound::Gone)?;
    memory.seek(SeekFrom::Start(start)).and_then(|_| memory.read_exact(&mut bytes)).map_err(|_| NotFound::Gone)?;
    Ok(bytes)
}

/// The address range of the vDSO. None unless this line of `/proc/PID/maps` describes the vDSO.
fn vdso_of(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.strip_suffix(VDSO)?.split_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
