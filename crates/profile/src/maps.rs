//! `Maps`: the mappings of a process.

use std::collections::BTreeMap;

use crate::stack::ModuleId;

/// A mapping of a part of a file, or of memory without a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The first address.
    pub start: u64,
    /// The address after the last address.
    pub end: u64,
    /// The file.
    pub module: ModuleId,
    /// The offset in the file at which the mapping begins.
    pub file_offset: u64,
    /// Whether an address in this mapping is a place in a file.
    /// False for memory without a file, where just-in-time compilers put their code.
    pub is_file: bool,
}

impl Map {
    /// The offset in the file to which an address in this mapping belongs.
    pub fn offset_of(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.file_offset)
    }
}

/// The mappings of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(BTreeMap<u64, Map>);

impl Maps {
    /// Adds a mapping. The new mapping replaces the covered parts of older mappings.
    pub fn add(&mut self, map: Map) {
        if map.end <= map.start {
            return;
        }
        // If an older mapping begins before the new mapping, its parts before and after the new mapping stay.
        if let Some(before) = self.0.range(..map.start).next_back().map(|(_, before)| *before)
            && before.end > map.start
        {
            self.0.insert(before.start, Map { end: map.start, ..before });
            if before.end > map.end {
                self.0.insert(map.end, Map { start: map.end, file_offset: before.offset_of(map.end), ..before });
            }
        }
        let within: Vec<Map> = self.0.range(map.start..map.end).map(|(_, within)| *within).collect();
        for within in within {
            self.0.remove(&within.start);
            if within.end > map.end {
                self.0.insert(map.end, Map { start: map.end, file_offset: within.offset_of(map.end), ..within });
            }
        }
        self.0.insert(map.start, map);
    }

    /// The mapping that contains an address.
    pub fn at(&self, address: u64) -> Option<&Map> {
        self.0.range(..=address).next_back().map(|(_, map)| map).filter(|map| address < map.end)
    }

    /// The number of mappings.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All mappings in the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = &Map> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{Module, Modules};

    #[test]
    fn a_new_one_takes_the_place_of_what_was_there() {
        let mut modules = Modules::default();
        let mut module = |name: &str| modules.number(Module { path: name.to_owned(), build_id: None });
        let (old, new) = (module("old"), module("new"));
        let map = |start, end, module, file_offset| Map { start, end, module, file_offset, is_file: true };
        let mut maps = Maps::default();
        maps.add(map(100, 200, old, 1000));
        maps.add(map(300, 400, old, 0));
        maps.add(map(140, 160, new, 0));
        maps.add(map(350, 450, new, 7));
        maps.add(map(500, 500, new, 7));
        let seen: Vec<_> = maps.iter().copied().collect();
        let expected = [
            map(100, 140, old, 1000),
            map(140, 160, new, 0),
            map(160, 200, old, 1060),
            map(300, 350, old, 0),
            map(350, 450, new, 7),
        ];
        assert_eq!(seen, expected);
        assert_eq!(maps.at(199).map(|map| map.offset_of(199)), Some(1099));
        assert_eq!(maps.at(200), None);
        assert_eq!(maps.at(99), None);
    }
}
