//! Opens the machine that `--host FILE` or `--root DIR` names, or this machine.

use std::path::{Path, PathBuf};

use evenkeel_hostfs::{Capture, LoadError, Root};

use crate::args::{HostArgs, MetadataArgs};
use crate::exit;
use crate::failure::{Failure, MAY_READ, exit_of};
use crate::shell;

impl HostArgs {
    /// Whether the command reads this machine. A capture and a mounted root are not this machine.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.host.is_none() && self.root.is_none()
    }

    /// The options that name the same machine in another command. Each option follows a space.
    /// A second command can't read a capture from a pipe again, so the text then asks for a file.
    pub(crate) fn again(&self) -> String {
        let named = [("host", &self.host), ("root", &self.root)];
        let is_open_file =
            |path: &Path| ["/dev/fd", "/dev/stdin", "/proc"].iter().any(|folder| path.starts_with(folder));
        let of = |(name, path): (&str, &Option<PathBuf>)| {
            let path = path.as_ref()?;
            let path = if is_open_file(path) { "FILE".to_owned() } else { path.display().to_string() };
            Some(format!(" --{name} {}", shell::word(&path)))
        };
        named.into_iter().filter_map(of).collect()
    }

    /// The machine that the arguments name, or this machine.
    pub(crate) fn open(&self) -> Result<Root, Failure> {
        if let Some(file) = &self.host {
            let hint = if file.is_dir() {
                "a capture is one file; `--root DIR` reads the root file system in a folder"
            } else {
                "`evenkeel capture --output FILE` takes a capture on the machine itself"
            };
            return match Capture::load(file) {
                Ok(capture) => Ok(Root::captured(capture)),
                Err(error) => {
                    let exit = exit_of_load(&error);
                    let hint = if exit == exit::NOT_ALLOWED { MAY_READ } else { hint };
                    Err(Failure::new(exit, error).hint(hint))
                }
            };
        }
        match &self.root {
            Some(dir) => Root::mounted(dir).map_err(|error| {
                let hint = if dir.is_file() {
                    "`--host FILE` reads a captured machine; `--root` takes the folder of a root file system"
                } else {
                    "name the folder where the root file system is mounted or unpacked, such as /host"
                };
                Failure::new(exit_of(error.errno, exit::WRONG_USE), error).hint(hint)
            }),
            None => Ok(Root::live()),
        }
    }
}

impl MetadataArgs {
    /// Opens the machine that `host` names. If the user allowed it, asks the machine's cloud for the instance type.
    pub(crate) fn open(self, host: &HostArgs) -> Result<Root, Failure> {
        if self.metadata { Ok(Root::live_with_metadata()) } else { host.open() }
    }
}

fn exit_of_load(error: &LoadError) -> exit::Exit {
    match error {
        LoadError::Unreadable { error, .. } if error.is_denial() => exit::NOT_ALLOWED,
        LoadError::Unreadable { .. } | LoadError::TooLong { .. } | LoadError::Malformed { .. } => exit::WRONG_USE,
    }
}
