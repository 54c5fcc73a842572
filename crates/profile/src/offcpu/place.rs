//! The place of a wait: the function of the program's own code that called the waiting function.
//! The place distinguishes the program's locks.

use std::collections::HashMap;

use crate::names::Names;
use crate::recording::Recording;
use crate::stack::{Frame, FrameId, StackId};

/// Files whose functions wait on behalf of their callers: the C library and its parts.
const LIBRARIES: &[&str] =
    &["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libstdc++", "libgcc_s", "[vdso]"];
/// Functions that wait on behalf of their callers, in any file.
const WAITERS: &[&str] = &[
    "__",
    "pthread_",
    "syscall",
    "std::",
    "<std::",
    "core::",
    "<core::",
    "alloc::",
    "parking_lot",
    "<parking_lot",
    "lock_api",
    "<lock_api",
    "lll_lock",
    "futex",
];
/// Prefixes of the C library's functions, for statically linked programs.
const WRAPPERS: &[&str] =
    &["poll", "ppoll", "select", "read", "write", "recv", "send", "nanosleep", "clock_nanosleep", "epoll_wait"];
const FRAMES_MAX: usize = 128;

/// Finds the place of each stack. Each place is computed only once.
pub(super) struct Places<'a> {
    recording: &'a Recording,
    names: &'a Names,
    known: HashMap<StackId, Option<String>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(recording: &'a Recording, names: &'a Names) -> Places<'a> {
        Places { recording, names, known: HashMap::new() }
    }

    /// The function that called the waiting function. For a kernel thread, a kernel function.
    pub(super) fn at(&mut self, stack: StackId) -> Option<&str> {
        let (recording, names) = (self.recording, self.names);
        self.known.entry(stack).or_insert_with(|| of_stack(recording, names, stack)).as_deref()
    }
}

fn of_stack(recording: &Recording, names: &Names, stack: StackId) -> Option<String> {
    let frames: Vec<FrameId> = recording.stacks.innermost_first(stack).take(FRAMES_MAX).collect();
    let users = || frames.iter().filter(|frame| !names.get(**frame).is_kernel);
    let own = users().filter(|frame| !is_of_library(recording, **frame));
    own.filter_map(|frame| name(recording, names, *frame))
        .find(|name| !WAITERS.iter().any(|waiter| name.starts_with(waiter)) && !WRAPPERS.contains(&name.as_str()))
        .or_else(|| users().find_map(|frame| name(recording, names, *frame)))
        .or_else(|| {
            frames.iter().filter_map(|frame| name(recording, names, *frame)).find(|name| !name.contains("schedule"))
        })
}

fn is_of_library(recording: &Recording, frame: FrameId) -> bool {
    let Some(Frame::InFile { module, .. }) = recording.stacks.frames().get(frame.place()) else { return false };
    let name = recording.modules.get(*module).map_or("", |module| module.name());
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

/// The name of the frame's innermost function. If the function has no name, the frame's offset in the file.
fn name(recording: &Recording, names: &Names, frame: FrameId) -> Option<String> {
    let named = names.get(frame);
    if let Some(function) = named.functions.last() {
        return Some(function.name.clone());
    }
    match recording.stacks.frames().get(frame.place())? {
        Frame::InFile { offset, .. } => Some(format!("{}+{offset:#x}", named.in_place)),
        _ => None,
    }
}
