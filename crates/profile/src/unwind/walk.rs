//! `Unwinder`: unwinds from frame to frame up to the outermost frame.

use std::collections::HashMap;

use super::elf::Unusable;
use super::registers::{Memory, Registers};
use super::rule::Left;
use super::table::Table;
use super::{End, FRAMES_MAX, SampledStack, Unwind, find};
use crate::binaries::Lookup;
use crate::maps::{Map, Maps};
use crate::recording::Mapping;
use crate::stack::{Module, ModuleId, Modules};

/// The maximum number of processes through which to look for one file.
const PROCESSES_MAX: usize = 8;

/// Unwinds the stacks of one recording. Files are cached by the recording's module numbers.
#[derive(Debug, Default)]
pub struct Unwinder {
    lookup: Lookup,
    pub(super) tables: HashMap<ModuleId, Result<Table, Unusable>>,
    /// The processes through which a file was not found. Another process may still give access to the file.
    tried: HashMap<ModuleId, Vec<u32>>,
}

impl Unwinder {
    /// An unwinder with the default file lookup.
    pub fn new() -> Unwinder {
        Unwinder::default()
    }

    /// An unwinder with this file lookup.
    pub fn looking(lookup: Lookup) -> Unwinder {
        Unwinder { lookup, ..Unwinder::default() }
    }

    /// The files without usable tables, with the reasons, sorted by module number.
    pub fn unusable(&self) -> Vec<(ModuleId, &Unusable)> {
        let mut found: Vec<_> =
            self.tables.iter().filter_map(|(module, table)| Some((*module, table.as_ref().err()?))).collect();
        found.sort_by_key(|(module, _)| module.place());
        found
    }

    /// Unwinds from a frame to its caller.
    fn leave(&mut self, place: &Place<'_>, registers: &mut Registers, memory: Memory<'_>) -> Left {
        let Some(map) = place.maps.at(place.at) else { return Left::Lost };
        let Some((rule, section)) = self.table(map, place).and_then(|(table, address)| table.rule(address)) else {
            return by_frame_pointer(registers, memory);
        };
        let before = registers.stack_pointer();
        let left = rule.leave(registers, memory, section);
        // The stack grows down, so the caller's stack pointer is higher.
        // If the return address is on the stack, the difference is at least its size.
        // A signal handler may have a separate stack.
        let is_up = registers.stack_pointer() > before || place.is_innermost && registers.stack_pointer() == before;
        if left == Left::Called && !is_up { Left::Lost } else { left }
    }

    /// The table of the mapped file, and the address of this place in the file.
    fn table(&mut self, map: &Map, place: &Place<'_>) -> Option<(&mut Table, u64)> {
        let module = place.modules.get(map.module)?;
        let is_vdso = module.path == find::VDSO;
        if !map.is_file && !is_vdso {
            return None;
        }
        self.find(map, module, place.sampled);
        let table = self.tables.get_mut(&map.module)?.as_mut().ok()?;
        let offset = if is_vdso { place.at.checked_sub(map.start)? } else { map.offset_of(place.at) };
        let address = table.image().address_of(offset)?;
        Some((table, address))
    }
}

impl Unwinder {
    /// Looks for the mapped file. Does nothing if the file was found before, or was not found through this process before.
    fn find(&mut self, map: &Map, module: &Module, sampled: &SampledStack<'_>) {
        if matches!(self.tables.get(&map.module), Some(Ok(_))) {
            return;
        }
        let tried = self.tried.entry(map.module).or_default();
        if tried.contains(&sampled.pid) || tried.len() >= PROCESSES_MAX {
            return;
        }
        tried.push(sampled.pid);
        let mapping = Mapping { at_ns: 0, pid: sampled.pid, start: map.start, end: map.end, module: map.module };
        let found = find::image(module, mapping, sampled.machine, &self.lookup).map(Table::new);
        self.tables.insert(map.module, found);
    }
}

/// The state while unwinding a stack.
struct Place<'a> {
    sampled: &'a SampledStack<'a>,
    maps: &'a Maps,
    modules: &'a Modules,
    at: u64,
    /// Whether this is the innermost frame, or a frame that a signal interrupted. If so, its address is not a return address.
    is_innermost: bool,
}

impl Unwind for Unwinder {
    fn unwind(&mut self, sampled: &SampledStack<'_>, maps: &Maps, modules: &Modules, into: &mut Vec<u64>) -> End {
        let Some(mut registers) = Registers::from_sample(sampled) else { return End::CutOff };
        let memory = Memory { start: registers.stack_pointer(), bytes: sampled.stack };
        let mut place = Place { sampled, maps, modules, at: registers.counter, is_innermost: true };
        into.push(place.at);
        while into.len() < FRAMES_MAX {
            match self.leave(&place, &mut registers, memory) {
                // The return address may already belong to the next function. The address before it is part of the call.
                Left::Called => (place.at, place.is_innermost) = (registers.counter.wrapping_sub(1), false),
                Left::Interrupted => (place.at, place.is_innermost) = (registers.counter, true),
                Left::Outermost => return End::Outermost,
                Left::Lost => return End::CutOff,
            }
            // No code is mapped at this address, so it was not a return address.
            if maps.at(place.at).is_none() {
                return End::CutOff;
            }
            into.push(place.at);
        }
        End::CutOff
    }
}

/// Unwinds code that has no table, such as code generated at run time.
/// Most code of this kind keeps a frame pointer, which points to the caller's saved frame pointer.
/// The return address is just above the saved frame pointer.
fn by_frame_pointer(registers: &mut Registers, memory: Memory<'_>) -> Left {
    let architecture = registers.architecture;
    let Some(frame) = registers.get(architecture.frame_pointer) else { return Left::Lost };
    if frame == 0 {
        return Left::Outermost;
    }
    let above = frame.checked_add(8).and_then(|above| Some((above, above.checked_add(8)?)));
    let Some((above, end)) = above.filter(|_| frame >= registers.stack_pointer()) else { return Left::Lost };
    let (Some(next), Some(returns_to)) = (memory.word(frame), memory.word(above)) else { return Left::Lost };
    let counter = registers.address_of(returns_to);
    if counter == 0 {
        return Left::Outermost;
    }
    registers.counter = counter;
    registers.set(architecture.frame_pointer, next);
    registers.set(architecture.stack_pointer, end);
    Left::Called
}
