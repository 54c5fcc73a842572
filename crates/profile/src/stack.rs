//! `Stacks`: each stack is stored once, as a tree. A stack is its innermost frame and the stack of its callers.
//! Thousands of samples share their outer frames.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// Number of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(u32);

/// Number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(u32);

/// Number of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(u32);

/// Number of a name that came with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(u32);

macro_rules! as_place {
    ($($id:ident)*) => {$(
        impl $id {
            /// The index in the table that assigned this number.
            pub fn place(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

as_place!(StackId FrameId ModuleId TextId);

/// A file with code, or a pseudo-file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// The path of the file on the recorded machine, or `[vdso]`, `//anon`, `[kernel.kallsyms]`.
    pub path: String,
    /// The build ID of the file, if known.
    pub build_id: Option<Vec<u8>>,
}

impl Module {
    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&self.path)
    }
}

/// A place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// In a file, at this offset of the file.
    InFile {
        /// The file.
        module: ModuleId,
        /// Offset in the file, in bytes.
        offset: u64,
    },
    /// In the kernel, at this address.
    Kernel {
        /// The address in the kernel that ran.
        address: u64,
        /// The kernel module at this address, if known.
        module: Option<ModuleId>,
    },
    /// In anonymous memory, such as code generated at run time. `/tmp/perf-PID.map` may have the name.
    Anonymous {
        /// The process.
        pid: u32,
        /// The address.
        address: u64,
    },
    /// In a function that the recording itself names.
    Named {
        /// The function.
        name: TextId,
        /// The file with the function, if known.
        module: Option<ModuleId>,
        /// Whether the function belongs to the kernel.
        is_kernel: bool,
        /// Whether the function is inlined into the frame below.
        is_inlined: bool,
    },
    /// A hint in place of a frame, for example that the stack is cut off.
    Hint(Hint),
}

/// A hint in place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// The stack continues, but the rest is unknown.
    CutOff,
    /// No stack was requested for this event.
    NotAsked,
}

/// The modules of a recording, each stored once.
#[derive(Clone, Debug, Default)]
pub struct Modules(Interned<Module>);

impl Modules {
    /// The number of this module. A new module gets the next number.
    pub fn number(&mut self, module: Module) -> ModuleId {
        ModuleId(self.0.number(module))
    }

    /// The module with this number.
    pub fn get(&self, id: ModuleId) -> Option<&Module> {
        self.0.items.get(id.place())
    }

    /// All modules, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ModuleId, &Module)> {
        self.0.items.iter().enumerate().map(|(at, module)| (ModuleId(at as u32), module))
    }
}

/// Stacks, frames and names, each stored once.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    texts: Interned<String>,
    frames: Interned<Frame>,
    stacks: Interned<(Option<StackId>, FrameId)>,
}

impl Stacks {
    /// Keeps only these stacks, and returns each stack's new number.
    pub fn only(&self, wanted: impl IntoIterator<Item = StackId>) -> (Stacks, HashMap<StackId, StackId>) {
        let mut kept = Stacks::default();
        let mut became: HashMap<StackId, StackId> = HashMap::new();
        for id in wanted {
            let mut above = Vec::new();
            let (mut next, mut below) = (Some(id), None);
            while let Some(at) = next {
                if let Some(known) = became.get(&at) {
                    below = Some(*known);
                    break;
                }
                let (frame, under) = self.top(at);
                above.push((at, frame));
                next = under;
            }
            for (at, frame) in above.into_iter().rev() {
                let frame = match self.frames()[frame.place()] {
                    Frame::Named { name, module, is_kernel, is_inlined } => {
                        Frame::Named { name: kept.text(self.text_of(name)), module, is_kernel, is_inlined }
                    }
                    frame => frame,
                };
                let made = kept.on(below, frame);
                became.insert(at, made);
                below = Some(made);
            }
        }
        (kept, became)
    }

    /// The number of a name.
    pub fn text(&mut self, text: &str) -> TextId {
        if let Found::Item(number) = self.texts.find(text) {
            return TextId(number);
        }
        TextId(self.texts.number(text.to_owned()))
    }

    /// The name of this number.
    pub fn text_of(&self, id: TextId) -> &str {
        self.texts.items.get(id.place()).map_or("", String::as_str)
    }

    /// The number of a frame.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        FrameId(self.frames.number(frame))
    }

    /// All frames, in the order of their numbers.
    pub fn frames(&self) -> &[Frame] {
        &self.frames.items
    }

    /// The stack with `frame` on top of the stack `below`.
    pub fn on(&mut self, below: Option<StackId>, frame: Frame) -> StackId {
        let frame = self.frame(frame);
        StackId(self.stacks.number((below, frame)))
    }

    /// The stack of these frames, outermost first. Without frames, the stack is a hint that it is cut off.
    pub fn intern(&mut self, outermost_first: impl IntoIterator<Item = Frame>) -> StackId {
        let mut stack = None;
        for frame in outermost_first {
            stack = Some(self.on(stack, frame));
        }
        stack.unwrap_or_else(|| self.on(None, Frame::Hint(Hint::CutOff)))
    }

    /// The number of stacks.
    pub fn count(&self) -> usize {
        self.stacks.items.len()
    }

    /// The numbers of all stacks, callers first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = StackId> + ExactSizeIterator + use<> {
        (0..self.stacks.items.len() as u32).map(StackId)
    }

    /// The innermost frame of a stack, and the stack of its callers.
    pub fn top(&self, id: StackId) -> (FrameId, Option<StackId>) {
        let (below, frame) = self.stacks.items[id.place()];
        (frame, below)
    }

    /// The frames of a stack, innermost first.
    pub fn innermost_first(&self, id: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let (frame, below) = self.top(next?);
            next = below;
            Some(frame)
        })
    }
}

/// Interned values. Most of a recording's memory is here, so each value is stored once.
#[derive(Clone, Debug)]
struct Interned<T> {
    items: Vec<T>,
    /// The hash table, with linear probing. An entry is an item's number plus one, or 0 if free.
    /// The table's length is a power of two, and at least a third of the entries are free.
    places: Vec<u32>,
    /// The hash has a random key, so a hostile file can't cause collisions.
    hasher: RandomState,
}

impl<T> Default for Interned<T> {
    fn default() -> Interned<T> {
        Interned { items: Vec::new(), places: Vec::new(), hasher: RandomState::new() }
    }
}

impl<T: Eq + Hash> Interned<T> {
    /// The number of a value. A new value is stored. A recording has fewer than 2^32 values.
    fn number(&mut self, item: T) -> u32 {
        if (self.items.len() + 1) * 3 > self.places.len() * 2 {
            self.grow();
        }
        match self.find(&item) {
            Found::Item(number) => number,
            Found::Free(place) => {
                let number = self.items.len() as u32;
                self.items.push(item);
                if let Some(free) = self.places.get_mut(place) {
                    *free = number + 1;
                }
                number
            }
        }
    }

    /// The item's number, or a free slot for the item.
    fn find<Q>(&self, item: &Q) -> Found
    where
        T: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let last = self.places.len().wrapping_sub(1);
        let mut place = self.hasher.hash_one(item) as usize & last;
        while let Some(number) = self.places.get(place).and_then(|number| number.checked_sub(1)) {
            if self.items.get(number as usize).is_some_and(|known| known.borrow() == item) {
                return Found::Item(number);
            }
            place = (place + 1) & last;
        }
        Found::Free(place)
    }

    fn grow(&mut self) {
        let last = (self.places.len() * 2).max(16) - 1;
        self.places = vec![0; last + 1];
        for (number, item) in self.items.iter().enumerate() {
            let mut place = self.hasher.hash_one(item) as usize & last;
            while self.places.get(place).is_some_and(|number| *number != 0) {
                place = (place + 1) & last;
            }
            if let Some(free) = self.places.get_mut(place) {
                *free = number as u32 + 1;
            }
        }
    }
}

/// The result of a lookup.
enum Found {
    /// The item, of this number.
    Item(u32),
    /// A free slot.
    Free(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_one_number_however_many_there_are() {
        let mut stacks = Stacks::default();
        let frame = |address| Frame::Kernel { address, module: None };
        for round in 0..2 {
            for address in 0..5000_u64 {
                assert_eq!(stacks.frame(frame(address)).place() as u64, address, "round {round}");
            }
        }
        assert_eq!(stacks.frames().len(), 5000);
        let (one, other) = (stacks.text("one"), stacks.text("other"));
        assert_eq!((stacks.text("one"), stacks.text_of(other)), (one, "other"));
    }

    #[test]
    fn stacks_share_what_they_have_in_common() {
        let mut stacks = Stacks::default();
        let frame = |address| Frame::Kernel { address, module: None };
        let long = stacks.intern([1, 2, 3].map(frame));
        let short = stacks.intern([1, 2].map(frame));
        assert_eq!((stacks.count(), stacks.intern([1, 2, 3].map(frame))), (3, long));
        assert_eq!(stacks.top(long).1, Some(short));
        let addresses: Vec<usize> = stacks.innermost_first(long).map(FrameId::place).collect();
        assert_eq!(addresses, [2, 1, 0]);
        let hint = stacks.intern([]);
        assert_eq!(stacks.frames()[stacks.top(hint).0.place()], Frame::Hint(Hint::CutOff));
    }
}
