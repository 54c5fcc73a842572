//! Finds the journal's folder. `verify` and `revert` must find the changes that an earlier `apply` recorded there.

use std::env;
use std::path::{Path, PathBuf};

use evenkeel_change::{JOURNAL, Log, State, StateError};
use evenkeel_hostfs::Root;
use evenkeel_sys::process;

use crate::args::StateArgs;
use crate::exit;
use crate::failure::Failure;
use crate::shell;

/// The folder of root's journal, according to the file system hierarchy standard.
const SYSTEM_DIR: &str = "/var/lib/evenkeel";

impl StateArgs {
    /// Opens the journal to change the host, and takes its lock.
    pub(crate) fn open(&self) -> Result<State, Failure> {
        State::open(&self.made()?).map_err(failure)
    }

    /// Opens the journal for a restore, even if the journal is damaged or read-only.
    pub(crate) fn open_to_revert(&self) -> Result<State, Failure> {
        State::open_to_revert(&self.made()?).map_err(failure)
    }

    /// The directory of the journal. If its parent is missing, creates the parent, but only for the default directory.
    fn made(&self) -> Result<PathBuf, Failure> {
        let dir = self.dir()?;
        if self.state.is_none()
            && let Some(parent) = dir.parent()
        {
            // A new user may not have ~/.local/state yet. But if the user named a directory, its parent must exist.
            std::fs::create_dir_all(parent).map_err(|error| {
                Failure::io(exit::NOT_POSSIBLE, format_args!("make the directory {}", parent.display()), &error)
            })?;
        }
        Ok(dir)
    }

    /// Reads the journal without its lock.
    pub(crate) fn read(&self) -> Result<Log, Failure> {
        Log::read(&self.dir()?).map_err(failure)
    }

    /// Reads the journal, to report active values on the machine of this root.
    /// Fails if a journal should exist but is missing, or if the journal does not describe this machine.
    pub(crate) fn read_noted(&self, root: &Root) -> Result<Log, Failure> {
        let log = Log::read_noted(&self.dir()?).map_err(failure)?;
        log.describes(root).map_err(failure)?;
        Ok(log)
    }

    /// The journal's absolute path, because another process may have another current directory.
    pub(crate) fn path(&self) -> Result<PathBuf, Failure> {
        let dir = self.dir()?;
        std::path::absolute(&dir).map_err(|error| Failure::io(exit::WRONG_USE, "find the journal", &error))
    }

    /// The same arguments, with an absolute path.
    pub(crate) fn absolute(&self) -> Result<StateArgs, Failure> {
        Ok(StateArgs { state: self.state.as_ref().map(|_| self.path()).transpose()? })
    }

    /// The option ` --state DIR` if the next command needs it to find the same journal, otherwise an empty text.
    pub(crate) fn again(&self) -> String {
        self.state
            .as_ref()
            .map(|dir| format!(" --state {}", shell::word(&dir.display().to_string())))
            .unwrap_or_default()
    }

    /// The command that restores the changes in this journal, in backquotes.
    pub(crate) fn revert(&self) -> String {
        format!("`evenkeel revert{}`", self.again())
    }

    /// The text for a journal that does not exist, for example after a mistyped path or a change by another user.
    /// `None` if the journal exists.
    pub(crate) fn without_journal(&self) -> Option<String> {
        let dir = self.path().ok().filter(|dir| !dir.join(JOURNAL).exists())?;
        Some(format!("There is no journal in {}: no change is recorded there.\n", dir.display()))
    }

    /// Whether the journal's folder does not exist.
    pub(crate) fn is_missing(&self) -> Result<bool, Failure> {
        Ok(matches!(self.dir()?.symlink_metadata(), Err(error) if error.kind() == std::io::ErrorKind::NotFound))
    }

    /// Root's journal, if the user named no journal, root's exists,
    /// and this command therefore used the user's own journal.
    pub(crate) fn of_root(&self) -> Option<&'static Path> {
        let system = Path::new(SYSTEM_DIR);
        (self.state.is_none() && !process::is_root() && system.exists()).then_some(system)
    }

    /// The directory that the user named, or else the user's default directory.
    fn dir(&self) -> Result<PathBuf, Failure> {
        match &self.state {
            Some(dir) => Ok(dir.clone()),
            None if process::is_root() => Ok(SYSTEM_DIR.into()),
            None => user_dir(env::var_os("XDG_STATE_HOME").map(Into::into), env::var_os("HOME").map(Into::into))
                .ok_or_else(|| {
                    let cause = "neither XDG_STATE_HOME nor HOME is an absolute path";
                    Failure::text(exit::WRONG_USE, "find a place for the journal", cause)
                        .hint("name one with --state DIR")
                }),
        }
    }
}

/// The failure for a journal that can't be opened.
pub(crate) fn failure(error: StateError) -> Failure {
    match error {
        StateError::Io { errno, .. } | StateError::Add { errno, .. } if errno.is_denial() => {
            Failure::new(exit::NOT_ALLOWED, error).hint("run as root, or name a directory of your own with --state DIR")
        }
        _ => Failure::new(exit::NOT_POSSIBLE, error),
    }
}

/// The default directory of a user.
/// According to the XDG base directory specification, programs must ignore relative paths.
fn user_dir(xdg_state_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |dir: &PathBuf| dir.is_absolute();
    let state_home = xdg_state_home.filter(absolute).or_else(|| Some(home.filter(absolute)?.join(".local/state")))?;
    Some(state_home.join("evenkeel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_journal_of_their_own() {
        let of = |xdg: Option<&str>, home: Option<&str>| {
            let dir = user_dir(xdg.map(PathBuf::from), home.map(PathBuf::from))?;
            dir.to_str().map(str::to_owned)
        };
        assert_eq!(of(Some("/x"), Some("/home/u")).as_deref(), Some("/x/evenkeel"));
        assert_eq!(of(None, Some("/home/u")).as_deref(), Some("/home/u/.local/state/evenkeel"));
        assert_eq!(of(Some("x"), Some("/home/u")).as_deref(), Some("/home/u/.local/state/evenkeel"));
        assert_eq!(of(Some(""), Some("")), None);
    }
}
