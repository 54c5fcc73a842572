//! `Stacks`: every stack that was seen, once, as a tree: a stack is its innermost frame and the stack below it. Thousands of samples share
//! their outer frames.

use std::collections::HashMap;

/// Number of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(u32);

/// Number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(u32);

/// Number of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(u32);

/// Number of a name that was told with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(u32);

macro_rules! as_place {
    ($($id:ident)*) => {$(
        impl $id {
            /// Its place in what numbers it.
            pub fn place(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

as_place!(StackId FrameId ModuleId TextId);

/// A file that code is in, or what stands for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// Its path on the machine of the recording, or `[vdso]`, `//anon`, `[kernel.kallsyms]`.
    pub path: String,
    /// Its build id, where it was told.
    pub build_id: Option<Vec<u8>>,
}

impl Module {
    /// The last part of its path.
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
        /// Its address in the kernel that ran.
        address: u64,
        /// A kernel module, where it is in one that was told.
        module: Option<ModuleId>,
    },
    /// In memory of no file, as compilers at run time make code; `/tmp/perf-PID.map` may name it.
    Anonymous {
        /// The process.
        pid: u32,
        /// The address.
        address: u64,
    },
    /// Somebody else found its name already.
    Named {
        /// The function.
        name: TextId,
        /// The file that it is in.
        module: Option<ModuleId>,
        /// Whether it is the kernel's.
        is_kernel: bool,
        /// Whether it was put into the one below it by the compiler.
        is_inlined: bool,
    },
    /// A hint in place of a frame, such as that the stack could not be followed further.
    Hint(Hint),
}

/// What stands in a stack where no frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// The stack goes on, and nobody knows where.
    CutOff,
}

/// The modules of a recording, each once.
#[derive(Clone, Debug, Default)]
pub struct Modules(Interned<Module>);

impl Modules {
    /// The number of this one.
    pub fn number(&mut self, module: Module) -> ModuleId {
        ModuleId(self.0.number(module))
    }

    /// The one of this number; a number comes from [`number`](Modules::number) alone.
    pub fn get(&self, id: ModuleId) -> Option<&Module> {
        self.0.items.get(id.place())
    }

    /// All, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ModuleId, &Module)> {
        self.0.items.iter().enumerate().map(|(at, module)| (ModuleId(at as u32), module))
    }
}

/// Stacks, frames and names, each once.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    texts: Interned<String>,
    frames: Interned<Frame>,
    stacks: Interned<(Option<StackId>, FrameId)>,
}

impl Stacks {
    /// The number of a name.
    pub fn text(&mut self, text: &str) -> TextId {
        if let Some(at) = self.texts.numbers.get(text) {
            return TextId(*at);
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

    /// The stack of `frame` on top of `below`.
    pub fn on(&mut self, below: Option<StackId>, frame: Frame) -> StackId {
        let frame = self.frame(frame);
        StackId(self.stacks.number((below, frame)))
    }

    /// The stack of these frames, from the outermost on. One that is empty is a hint that it could not be followed.
    pub fn of(&mut self, outermost_first: impl IntoIterator<Item = Frame>) -> StackId {
        let mut stack = None;
        for frame in outermost_first {
            stack = Some(self.on(stack, frame));
        }
        stack.unwrap_or_else(|| self.on(None, Frame::Hint(Hint::CutOff)))
    }

    /// How many there are: their numbers are the places up to here.
    pub fn count(&self) -> usize {
        self.stacks.items.len()
    }

    /// The numbers of all stacks; one comes after those below it.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = StackId> + ExactSizeIterator + use<> {
        (0..self.stacks.items.len() as u32).map(StackId)
    }

    /// The innermost frame, and the stack below it.
    pub fn top(&self, id: StackId) -> (FrameId, Option<StackId>) {
        let (below, frame) = self.stacks.items[id.place()];
        (frame, below)
    }

    /// Its frames from the innermost on.
    pub fn innermost_first(&self, id: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let (frame, below) = self.top(next?);
            next = below;
            Some(frame)
        })
    }
}

/// Values that are numbered, each once.
#[derive(Clone, Debug)]
struct Interned<T> {
    items: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Interned<T> {
        Interned { items: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interned<T> {
    /// More than 2^32 of them would need more bytes than a recording may have.
    fn number(&mut self, item: T) -> u32 {
        let next = self.items.len() as u32;
        match self.numbers.entry(item) {
            std::collections::hash_map::Entry::Occupied(at) => *at.get(),
            std::collections::hash_map::Entry::Vacant(free) => {
                self.items.push(free.key().clone());
                *free.insert(next)
            }
        }
    }
}
