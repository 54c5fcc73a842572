//! Names code without a file: code generated at run time, from `/tmp/perf-PID.map`, and the vDSO.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::cache::{Cache, CachedNames, Grade};
use super::demangle::demangle;
use super::elf::{self, Image};
use super::finding::{Finding, Mapped, Settings, identity, of_recording};
use super::perf_map::{PerfMap, parse_perf_map};
use super::why::{Reason, Why};
use crate::binaries::NotFound;
use crate::binaries::place::{self, NotOpen};
use crate::names::Function;
use crate::recording::Recording;
use crate::stack::{Frame, ModuleId};

/// The maximum number of bytes of a map.
const MAP_MAX_BYTES: u64 = 256 << 20;
/// The maximum number of bytes of the vDSO. The real vDSO has about 8 KiB.
const VDSO_MAX_BYTES: u64 = 1 << 20;

/// Names the addresses of one process. The names are cached for this recording, because the map disappears with the process.
pub(super) fn resolve(
    (settings, cache): (&Settings, &Cache),
    (recording, mapped): (&Recording, &Mapped),
    (pid, addresses): (u32, &BTreeSet<u64>),
    finding: &mut Finding,
) {
    let vdso = mapped.vdso.get(&pid).map(Vec::as_slice).unwrap_or_default();
    let start_of = |address: u64| vdso.iter().find(|(start, end)| (*start..*end).contains(&address)).map(|(at, _)| *at);
    let in_vdso = addresses.iter().filter_map(|address| Some((*address, *address - start_of(*address)?)));
    let in_vdso: Vec<(u64, u64)> = in_vdso.collect();
    let functions = if vdso.is_empty() { HashMap::new() } else { of_vdso(recording, &in_vdso).unwrap_or_default() };
    let (identity, path) = (identity(recording), format!("/tmp/perf-{pid}.map"));
    let key = of_recording(&identity, &path, settings);
    let mut kept = key.and_then(|key| cache.load(key)).map(|kept| kept.places).unwrap_or_default();
    let known = kept.len();
    let map = match map(settings, pid) {
        Ok(map) => map,
        Err(reason) => {
            finding.processes.insert(pid, reason);
            PerfMap::default()
        }
    };
    for address in addresses {
        if !mapped.contains(pid, *address) {
            finding.nowhere.insert(Frame::Anonymous { pid, address: *address });
        }
        if let Some(function) = functions.get(address).cloned() {
            finding.functions.insert(Frame::Anonymous { pid, address: *address }, vec![function]);
            continue;
        }
        if !kept.contains_key(address)
            && let Some(name) = map.at(*address)
        {
            kept.insert(*address, vec![Function::named(demangle(name))]);
        }
        if let Some(found) = kept.get(address) {
            finding.functions.insert(Frame::Anonymous { pid, address: *address }, found.clone());
        }
    }
    if let Some(key) = key.filter(|_| kept.len() > known) {
        cache.store(key, &CachedNames { grade: Grade::Own, places: kept });
    }
}

/// Names the vDSO if the recording has offsets in it.
pub(super) fn vdso_file(recording: &Recording, id: ModuleId, offsets: &BTreeSet<u64>, finding: &mut Finding) {
    let places: Vec<(u64, u64)> = offsets.iter().map(|offset| (*offset, *offset)).collect();
    let functions = of_vdso(recording, &places);
    finding.files.insert(id, if functions.is_some() { Why::NotInTable } else { Why::OtherKernel }.into());
    for (offset, function) in functions.unwrap_or_default() {
        finding.functions.insert(Frame::InFile { module: id, offset }, vec![function]);
    }
}

/// The map that a process wrote. A map of another user is not trusted, because anyone may write to `/tmp`.
fn map(settings: &Settings, pid: u32) -> Result<PerfMap, Reason> {
    let live = place::live(pid, settings.recorded_until);
    let opened = match &live {
        Some(live) if live.has_own_root => place::open_of(live, &format!("/tmp/perf-{}.map", live.own_pid)),
        _ => place::open(&PathBuf::from(format!("/tmp/perf-{pid}.map"))),
    };
    let opened = opened
        .map_err(|not| if not == NotOpen::Gone { Why::NoMap.into() } else { Reason::from(NotFound::from(not)) })?;
    let own = rustix::process::geteuid().as_raw();
    let owners = [Some(0), live.map_or(Some(own), |live| Some(live.uid))];
    if !owners.contains(&Some(opened.uid)) {
        let detail = Some(format!("it belongs to user {}", opened.uid));
        return Err(Reason { why: Why::MapOfOthers, detail });
    }
    let mut bytes = Vec::new();
    let read = opened.file.take(MAP_MAX_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| NotFound::Malformed(error.to_string()))?;
    Ok(parse_perf_map(&String::from_utf8_lossy(&bytes)))
}

/// The functions of the vDSO at these places: pairs of an offset and the requested address.
/// None unless the recorded kernel is the running kernel, because this process then has the same vDSO.
fn of_vdso(recording: &Recording, places: &[(u64, u64)]) -> Option<HashMap<u64, Function>> {
    let release = rustix::system::uname().release().to_str().ok()?.to_owned();
    if recording.machine.kernel.as_ref().is_some_and(|kernel| *kernel != release) {
        return None;
    }
    let maps = place::text("/proc/self/maps")?;
    let (start, end) =
        maps.lines().find(|line| line.ends_with("[vdso]"))?.split_whitespace().next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let length = end.checked_sub(start).filter(|length| *length <= VDSO_MAX_BYTES)?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    std::fs::File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    let image = Image::parse(bytes.as_slice()).ok()?;
    let functions = image.functions().ok()?;
    let named = places.iter().filter_map(|(address, offset)| {
        let symbol = elf::function_at(&functions, image.address_of(*offset)?)?;
        Some((*address, Function::named(demangle(&String::from_utf8_lossy(symbol.name)))))
    });
    Some(named.collect())
}
