//! `Names`: the functions that frames are in. A frame may be in several, where one was put into another by the compiler.

use crate::recording::Recording;
use crate::stack::{Frame, FrameId, Hint};

/// A function that a frame is in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name as people write it.
    pub name: String,
    /// The file of its source, where that is known.
    pub file: Option<String>,
    /// The line there; 0 is unknown.
    pub line: u32,
    /// Whether it was put into the one before it in the list by the compiler.
    pub is_inlined: bool,
}

impl Function {
    /// One of which only the name is known.
    pub fn named(name: impl Into<String>) -> Function {
        Function { name: name.into(), file: None, line: 0, is_inlined: false }
    }
}

/// What is known of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The functions, from the outermost on: the last is the one whose code it is. None if nobody knows.
    pub functions: Vec<Function>,
    /// What is shown in place of a function that nobody knows, such as `[libc.so.6]`.
    pub in_place: String,
    /// Whether it is the kernel's.
    pub is_kernel: bool,
}

/// The names of the frames of one recording.
#[derive(Clone, Debug, Default)]
pub struct Names {
    by_frame: Vec<Named>,
}

impl Names {
    /// Of a recording's frames, each as `resolve` knows it; what it does not know is named after its file.
    pub fn of(recording: &Recording, mut resolve: impl FnMut(&Frame) -> Vec<Function>) -> Names {
        let named = |frame: &Frame| {
            let module = |id| recording.modules.get(id).map_or("unknown", |module| module.name());
            let (in_place, is_kernel) = match frame {
                Frame::InFile { module: id, .. } => (format!("[{}]", module(*id)), false),
                Frame::Kernel { module: Some(id), .. } => (format!("[{}]", module(*id)), true),
                Frame::Kernel { module: None, .. } => ("[kernel]".to_owned(), true),
                Frame::Anonymous { .. } => ("[unknown]".to_owned(), false),
                Frame::Named { is_kernel, .. } => ("[unknown]".to_owned(), *is_kernel),
                Frame::Hint(Hint::CutOff) => ("[cut off]".to_owned(), false),
                Frame::Hint(Hint::NotAsked) => ("[not asked for]".to_owned(), false),
            };
            let functions = match frame {
                Frame::Named { name, is_inlined, .. } => {
                    vec![Function { is_inlined: *is_inlined, ..Function::named(recording.stacks.text_of(*name)) }]
                }
                Frame::Hint(_) => Vec::new(),
                frame => resolve(frame),
            };
            Named { functions, in_place, is_kernel }
        };
        Names { by_frame: recording.stacks.frames().iter().map(named).collect() }
    }

    /// What is known of a frame of that recording.
    pub fn get(&self, frame: FrameId) -> &Named {
        &self.by_frame[frame.place()]
    }

    /// The same by the frame's place among all.
    pub fn at(&self, place: usize) -> Option<&Named> {
        self.by_frame.get(place)
    }
}
