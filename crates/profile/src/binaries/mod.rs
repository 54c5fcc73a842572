//! Finds the programs and libraries of a recording, and their debug files.
//! The search for names and the unwinder both use this module, so they read the same file.
//! The file of a container is looked for in the container.
//! A file is used only if its build ID matches. Without a build ID, a file is used unless its time shows that it is another file.

mod debug;
mod mini;
pub(crate) mod place;
pub(crate) mod source;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use object::Object as _;

pub(crate) use debug::{by_build_id, debug_paths, separate};
pub(crate) use mini::unpacked as mini_debug_info;

use self::place::{Live, NotOpen, Opened};
use self::source::{Odd, Source, source};
use crate::recording::{Machine, Mapping};
use crate::stack::Module;

/// The kernel's suffix for deleted files.
const DELETED: &str = " (deleted)";

/// Where to look for files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The end of the recording, if known. A file that changed later is not the file that ran.
    pub recorded_until: Option<SystemTime>,
    /// The folders with debug files.
    pub debug_folders: Vec<PathBuf>,
}

impl Default for Lookup {
    fn default() -> Lookup {
        Lookup { recorded_until: None, debug_folders: vec![PathBuf::from("/usr/lib/debug")] }
    }
}

/// Why the file that ran is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The recording does not have the module's path.
    #[error("its path is unknown")]
    NotRecorded,
    /// The file does not exist.
    #[error("its file does not exist here")]
    Gone,
    /// The user may not read the file.
    #[error("you may not read its file")]
    Denied,
    /// The module was recorded on another machine, and has no build ID to verify a file here.
    #[error("it was recorded on another machine, and it has no build ID")]
    OtherMachine,
    /// Another file is now at the module's path.
    #[error("another file now has its path{}", detail_text(detail))]
    Replaced {
        /// The difference that shows that the file is another one, such as another build ID.
        detail: Option<String>,
    },
    /// The file is unreadable, or is not a supported file.
    #[error("{0}")]
    Malformed(String),
}

fn detail_text(detail: &Option<String>) -> String {
    detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"))
}

impl From<NotOpen> for NotFound {
    fn from(not: NotOpen) -> NotFound {
        match not {
            NotOpen::Gone => NotFound::Gone,
            NotOpen::Denied => NotFound::Denied,
            NotOpen::Other(detail) => NotFound::Malformed(detail),
        }
    }
}

impl From<Odd> for NotFound {
    fn from(odd: Odd) -> NotFound {
        NotFound::Malformed(odd.0)
    }
}

/// The identity of a file, and of its debug file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// The file's build ID.
    pub(crate) build_id: Option<Vec<u8>>,
    /// The name and checksum of the separate debug file.
    pub(crate) debug_link: Option<(Vec<u8>, u32)>,
}

impl Links {
    /// Reads the build ID and the debug link of a file.
    ///
    /// # Errors
    /// If the file is not a program, or its headers are invalid.
    pub(crate) fn read(source: &Source) -> Result<Links, Odd> {
        let file = object::File::parse(source)?;
        let build_id = file.build_id()?.map(<[u8]>::to_vec);
        let debug_link = file.gnu_debuglink()?.map(|(name, checksum)| (name.to_vec(), checksum));
        Ok(Links { build_id, debug_link })
    }
}

/// A file that ran, from the recording.
#[derive(Debug)]
pub(crate) struct Sought<'r> {
    module: &'r Module,
    /// The live processes that have the file mapped, and at which addresses.
    live: Vec<(Live, Mapping)>,
    is_of_here: bool,
}

impl<'r> Sought<'r> {
    /// Describes the file of `module`. The processes of `mappings` had this file mapped.
    pub(crate) fn new(machine: &Machine, mappings: &[Mapping], module: &'r Module, lookup: &Lookup) -> Sought<'r> {
        let here = rustix::system::uname();
        let is_other = |recorded: &Option<String>, here: &std::ffi::CStr| {
            recorded.as_ref().is_some_and(|recorded| here.to_str().is_ok_and(|here| here != recorded))
        };
        let is_of_here = !is_other(&machine.host, here.nodename()) && !is_other(&machine.architecture, here.machine());
        let mappings = mappings.iter().filter(|_| is_of_here);
        let live = mappings.filter_map(|mapping| Some((place::live(mapping.pid, lookup.recorded_until)?, *mapping)));
        Sought { module, live: live.collect(), is_of_here }
    }

    /// Whether any process that had the file mapped has its own root, as in a container.
    pub(crate) fn is_of_container(&self) -> bool {
        self.live.iter().any(|(live, _)| live.has_own_root)
    }

    /// Opens a path that the file itself names, such as its debug file. For a container, the path is opened only inside the container.
    pub(crate) fn open_named(&self, path: &Path) -> Option<File> {
        let mut of_containers = self.live.iter().map(|(live, _)| live).filter(|live| live.has_own_root).peekable();
        if of_containers.peek().is_none() {
            return Some(place::open(path).ok()?.file);
        }
        let path = path.to_str()?;
        of_containers.find_map(|live| Some(place::open_of(live, path).ok()?.file))
    }

    /// Opens the file that ran, and returns its path. A file that is, or may be, a different file is never opened.
    ///
    /// # Errors
    /// If no such file is available.
    pub(crate) fn open(&self, lookup: &Lookup) -> Result<(Opened, PathBuf), NotFound> {
        let path = self.module.path.strip_suffix(DELETED).unwrap_or(&self.module.path);
        if !path.starts_with('/') {
            return Err(NotFound::NotRecorded);
        }
        let mut reason = None;
        let mut not = |why: NotFound| {
            // "Another file" is a better reason than "no file".
            if reason.as_ref().is_none_or(|known| *known == NotFound::Gone) {
                reason = Some(why);
            }
        };
        let of_containers = self.live.iter().map(|(live, _)| live).filter(|live| live.has_own_root);
        for live in of_containers {
            match place::open_of(live, path).map_err(NotFound::from).and_then(|opened| self.checked(opened, lookup)) {
                Ok(opened) => return Ok((opened, path.into())),
                Err(why) => not(why),
            }
        }
        // At a container's path, the host has a different file, unless the build ID matches.
        if !self.live.iter().all(|(live, _)| live.has_own_root)
            || self.live.is_empty()
            || self.module.build_id.is_some()
        {
            let opened = place::open(Path::new(path)).map_err(NotFound::from);
            match opened.and_then(|opened| self.checked(opened, lookup)) {
                Ok(opened) => return Ok((opened, path.into())),
                Err(why) => not(why),
            }
        }
        // A replaced or deleted file is still available from a process that has it mapped.
        for (live, Mapping { start, end, .. }) in &self.live {
            let held = format!("/proc/{}/map_files/{start:x}-{end:x}", live.pid);
            if let Ok(opened) = place::open(Path::new(&held))
                && let Ok(opened) = self.checked(opened, lookup)
            {
                return Ok((opened, path.into()));
            }
        }
        Err(reason.unwrap_or(NotFound::Gone))
    }

    /// Checks that an opened file is the file that ran, and returns it.
    fn checked(&self, opened: Opened, lookup: &Lookup) -> Result<Opened, NotFound> {
        let Some(recorded) = &self.module.build_id else {
            if !self.is_of_here {
                return Err(NotFound::OtherMachine);
            }
            if lookup.recorded_until.is_some_and(|until| opened.changed > until) {
                return Err(NotFound::Replaced { detail: None });
            }
            return Ok(opened);
        };
        let again = opened.file.try_clone().map_err(|error| NotFound::Malformed(error.to_string()))?;
        let detail = match Links::read(&source(again)?)?.build_id {
            Some(found) if same_build(recorded, &found) => return Ok(opened),
            Some(found) => format!("its build id is {}", hex(&found)),
            None => "it has no build id".to_owned(),
        };
        Err(NotFound::Replaced { detail: Some(detail) })
    }
}

/// A build ID as text.
pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether two build IDs are equal.
pub(crate) fn same_build(one: &[u8], other: &[u8]) -> bool {
    !one.is_empty() && bare(one) == bare(other)
}

/// A build ID without padding zeros.
fn bare(id: &[u8]) -> &[u8] {
    let length = id.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    id.get(..length).unwrap_or(id)
}
