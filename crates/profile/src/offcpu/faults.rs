//! Page faults that waited for a disk, by mapped file.
//! The event `major-faults` gives the address, the mappings give the file, and the off-CPU intervals give the time.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::interval::{OffCpuInterval, Reason, events_named};
use crate::maps::{Map, Maps};
use crate::names::Names;
use crate::recording::{Mapping, Recording};
use crate::stack::{ModuleId, StackId};

/// The kernel reports a fault after it has handled the fault. An interval that ended longer before the report belongs to another fault.
const SAME_FAULT_NS: u64 = 5_000_000;
/// The maximum number of ancestors to search for a mapping, because a child inherits mappings.
const PARENTS_MAX: usize = 8;
const FRAMES_MAX: usize = 64;

/// The faults of one process in one mapping.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Faults {
    /// The process.
    pub pid: u32,
    /// The mapped file or `[heap]`. None if the mapping is unknown.
    pub mapped: Option<String>,
    /// Whether the memory had been swapped out.
    pub is_swap: bool,
    /// The number of faults.
    pub count: u64,
    /// The number of faults with a known wait. Other faults were done before another thread got the CPU, or have no stack.
    pub waits: u64,
    /// The total wait of these faults, in nanoseconds.
    pub total_ns: u64,
    /// The longest wait, in nanoseconds.
    pub max_ns: u64,
}

/// The faults of the wanted processes. Faults with the longest total wait come first.
/// `intervals` must only have intervals of these processes.
pub fn faults(
    recording: &Recording,
    names: &Names,
    intervals: &[OffCpuInterval],
    is_wanted: impl Fn(u32) -> bool,
) -> Vec<Faults> {
    let mut waits: HashMap<u32, Vec<&OffCpuInterval>> = HashMap::new();
    for interval in intervals.iter().filter(|interval| interval.reason == Reason::PageFault) {
        waits.entry(interval.tid).or_default().push(interval);
    }
    let mut sums: BTreeMap<(u32, Option<ModuleId>, bool), Faults> = BTreeMap::new();
    let mut known: HashMap<(u32, u64), ()> = HashMap::new();
    let mut memory = Memory::from_recording(recording);
    let events = events_named(recording, &["major-faults", "major_faults"]);
    let mut since_ns: HashMap<u32, u64> = HashMap::new();
    for fault in recording.samples.iter().filter(|sample| events.contains(&sample.event)) {
        if !is_wanted(fault.pid) {
            continue;
        }
        let module = memory.at(fault.pid, fault.address, fault.at_ns);
        let from_ns = since_ns.insert(fault.tid, fault.at_ns).unwrap_or(0);
        let own = waits.get(&fault.tid).map_or(&[][..], Vec::as_slice);
        let ended = own.iter().filter(|interval| {
            (from_ns..=fault.at_ns).contains(&interval.span.end_ns)
                && fault.at_ns - interval.span.end_ns <= SAME_FAULT_NS
        });
        let ended: Vec<&&OffCpuInterval> = ended.collect();
        known.extend(ended.iter().map(|interval| ((interval.tid, interval.span.start_ns), ())));
        let is_swap = ended.iter().any(|interval| interval.stack.is_some_and(|stack| is_swap(recording, names, stack)));
        let sum = sums.entry((fault.pid, module, is_swap)).or_default();
        sum.note(ended.iter().map(|interval| interval.span.length_ns()).sum());
    }
    // Add the waits without a recorded fault, or without a known end.
    for interval in
        waits.values().flatten().filter(|interval| !known.contains_key(&(interval.tid, interval.span.start_ns)))
    {
        let is_swap = interval.stack.is_some_and(|stack| is_swap(recording, names, stack));
        sums.entry((interval.pid, None, is_swap)).or_default().note(interval.span.length_ns());
    }
    let named = sums.into_iter().map(|((pid, module, is_swap), sum)| {
        let mapped = module.and_then(|id| recording.modules.get(id)).map(|module| module.path.clone());
        Faults { pid, mapped, is_swap, ..sum }
    });
    let mut faults: Vec<Faults> = named.collect();
    faults.sort_by_key(|faults| std::cmp::Reverse((faults.total_ns, faults.count)));
    faults
}

impl Faults {
    fn note(&mut self, waited_ns: u64) {
        self.count += 1;
        self.waits += u64::from(waited_ns > 0);
        self.total_ns = self.total_ns.saturating_add(waited_ns);
        self.max_ns = self.max_ns.max(waited_ns);
    }
}

fn is_swap(recording: &Recording, names: &Names, stack: StackId) -> bool {
    let mut frames = recording.stacks.innermost_first(stack).take(FRAMES_MAX);
    frames.any(|frame| names.get(frame).functions.iter().any(|function| function.name.starts_with("do_swap_page")))
}

/// The mappings of processes over time.
struct Memory<'a> {
    rest: std::iter::Peekable<std::slice::Iter<'a, Mapping>>,
    maps: HashMap<u32, Maps>,
    parents: HashMap<u32, u32>,
}

impl<'a> Memory<'a> {
    fn from_recording(recording: &'a Recording) -> Memory<'a> {
        let made = recording.lives.iter().filter_map(|life| Some((life.pid, life.made_by?)));
        let parents = made.filter(|(pid, parent)| pid != parent).collect();
        Memory { rest: recording.mappings.iter().peekable(), maps: HashMap::new(), parents }
    }

    /// The mapping of an address at a given time. The times of successive calls must ascend.
    fn at(&mut self, pid: u32, address: u64, at_ns: u64) -> Option<ModuleId> {
        while let Some(mapping) = self.rest.next_if(|mapping| mapping.at_ns <= at_ns) {
            let Mapping { start, end, module, .. } = *mapping;
            self.maps.entry(mapping.pid).or_default().add(Map { start, end, module, file_offset: 0, is_file: true });
        }
        let mut pid = Some(pid);
        for _ in 0..PARENTS_MAX {
            let one = pid?;
            if let Some(map) = self.maps.get(&one).and_then(|maps| maps.at(address)) {
                return Some(map.module);
            }
            pid = self.parents.get(&one).copied();
        }
        None
    }
}
