//! `Unwinder`: goes from frame to frame up to the outermost.

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

/// A file is not looked for by more processes.
const PROCESSES_MAX: usize = 8;

/// Follows the stacks of one recording: files are known by their numbers there.
#[derive(Debug, Default)]
pub struct Unwinder {
    lookup: Lookup,
    pub(super) tables: HashMap<ModuleId, Result<Table, Unusable>>,
    /// The processes by which a file was looked for, and not found: another one may have it still.
    tried: HashMap<ModuleId, Vec<u32>>,
}

impl Unwinder {
    /// One that knows no file yet.
    pub fn new() -> Unwinder {
        Unwinder::default()
    }

    /// One that looks for files there.
    pub fn looking(lookup: Lookup) -> Unwinder {
        Unwinder { lookup, ..Unwinder::default() }
    }

    /// The files that stacks led through and that can't say how to leave their functions, and why; in the order of their numbers.
    pub fn unusable(&self) -> Vec<(ModuleId, &Unusable)> {
        let mut found: Vec<_> =
            self.tables.iter().filter_map(|(module, table)| Some((*module, table.as_ref().err()?))).collect();
        found.sort_by_key(|(module, _)| module.place());
        found
    }

    /// Goes to the caller.
    fn leave(&mut self, place: &Place<'_>, registers: &mut Registers, memory: Memory<'_>) -> Left {
        let Some(map) = place.maps.at(place.at) else { return Left::Lost };
        let Some((rule, section)) = self.table(map, place).and_then(|(table, address)| table.rule(address)) else {
            return by_frame_pointer(registers, memory);
        };
        let before = registers.stack_pointer();
        let left = rule.leave(registers, memory, section);
        // Each call goes down the stack, so leaving goes up: by at least the return address, where that is on it. A handler of signals may have
        // a stack of its own, anywhere.
        let is_up = registers.stack_pointer() > before || place.is_innermost && registers.stack_pointer() == before;
        if left == Left::Called && !is_up { Left::Lost } else { left }
    }

    /// The table of the file that is mapped there, and the address in it.
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
    /// Looks for the file that is mapped there, unless it was found or sought by this process before.
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
        let found = find::image(module, mapping, sampled.machine, &self.lookup).map(Table::of);
        self.tables.insert(map.module, found);
    }
}

/// Where a stack is being followed.
struct Place<'a> {
    sampled: &'a SampledStack<'a>,
    maps: &'a Maps,
    modules: &'a Modules,
    at: u64,
    /// It has called nobody: it ran, or was interrupted.
    is_innermost: bool,
}

impl Unwind for Unwinder {
    fn unwind(&mut self, sampled: &SampledStack<'_>, maps: &Maps, modules: &Modules, into: &mut Vec<u64>) -> End {
        let Some(mut registers) = Registers::of(sampled) else { return End::CutOff };
        let memory = Memory { start: registers.stack_pointer(), bytes: sampled.stack };
        let mut place = Place { sampled, maps, modules, at: registers.counter, is_innermost: true };
        into.push(place.at);
        while into.len() < FRAMES_MAX {
            match self.leave(&place, &mut registers, memory) {
                // What is called from lies before what is returned to, which may be of the next function already.
                Left::Called => (place.at, place.is_innermost) = (registers.counter.wrapping_sub(1), false),
                Left::Interrupted => (place.at, place.is_innermost) = (registers.counter, true),
                Left::Outermost => return End::Outermost,
                Left::Lost => return End::CutOff,
            }
            // No code is there: what was taken for a return address is none.
            if maps.at(place.at).is_none() {
                return End::CutOff;
            }
            into.push(place.at);
        }
        End::CutOff
    }
}

/// Code without a table, as compilers make it at run time: most keep a frame pointer, which points to the caller's, below the return address.
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
