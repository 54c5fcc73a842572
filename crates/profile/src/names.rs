//! `Names`: the functions of frames. A frame with inlined functions has several functions.

use crate::recording::Recording;
use crate::stack::{Frame, FrameId, Hint};

/// A function of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name of the function in the source.
    pub name: String,
    /// The source file of the function, if known.
    pub file: Option<String>,
    /// The line in that file. 0 if unknown.
    pub line: u32,
    /// Whether the function is inlined into the previous function in the list.
    pub is_inlined: bool,
}

impl Function {
    /// A function with only a name.
    pub fn named(name: impl Into<String>) -> Function {
        Function { name: name.into(), file: None, line: 0, is_inlined: false }
    }
}

/// The names of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The functions, outermost first. The last function contains the code. Empty if unknown.
    pub functions: Vec<Function>,
    /// The text to show if there is no name, such as `[libc.so.6]`.
    pub in_place: String,
    /// Whether the frame is in the kernel.
    pub is_kernel: bool,
}

/// The names of the frames of one recording.
#[derive(Clone, Debug, Default)]
pub struct Names {
    by_frame: Vec<Named>,
}

impl Names {
    /// The names of a recording's frames, as `resolve` finds them. A frame without a name gets the name of its file.
    pub fn resolve(recording: &Recording, mut resolve: impl FnMut(&Frame) -> Vec<Function>) -> Names {
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

    /// The names of this frame, which must belong to the same recording.
    pub fn get(&self, frame: FrameId) -> &Named {
        &self.by_frame[frame.place()]
    }

    /// The names of the frame with this index.
    pub fn at(&self, place: usize) -> Option<&Named> {
        self.by_frame.get(place)
    }
}
