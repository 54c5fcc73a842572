//! Reads and writes the registers.
//! A register lists the holders of a file of the host: the journals that changed the file and have not restored it.
//! The caller holds the lock of the file.
//!
//! The register lists a holder before the holder's journal has the intent,
//! and until that journal has recorded the undo.
//! If evenkeel is killed in between, the register lists a journal with nothing to undo.
//! The next process drops that entry.

use std::io::Read;
use std::path::{Path, PathBuf};

use evenkeel_sys::Errno;
use rustix::fs::OFlags;

use crate::effects::Effects;
use crate::log::{Log, boot_id};
use crate::place::same;
use crate::record::Intent;
use crate::register::{Change, Holder, JournalDir, Leaving, MAX_REGISTER_BYTES, Register};
use crate::state_dir::StateDir;
use crate::state_error::StateError;
use crate::{claims, shell};

/// An open register.
struct Held {
    dir: StateDir,
    name: String,
    /// The content as read.
    was: Option<Register>,
    register: Register,
}

/// One file of a change that is undone permanently, not only switched by a trial.
pub(crate) struct Leaver<'a> {
    pub(crate) intent: &'a Intent,
    pub(crate) path: &'a str,
    /// The original value, from the journal.
    pub(crate) before: &'a str,
    /// The value after our change, if known.
    pub(crate) ours: Option<&'a str>,
    /// The current value, if readable.
    pub(crate) found: Option<&'a str>,
}

/// What happens to a file when one of its holders leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// This value is restored.
    Back(String),
    /// Another journal, `to`, holds the file and restores `before` later. The file stays unchanged.
    PassedOn { to: PathBuf, before: String },
}

impl Effects<'_> {
    /// Adds a change to the registers of its files, with their current values.
    /// Returns whether every file has a register.
    pub(crate) fn hold<'p>(
        &mut self,
        (txn, step): (u64, usize),
        files: impl IntoIterator<Item = (&'p str, &'p str)>,
    ) -> Result<bool, StateError> {
        let mut all = true;
        for (path, before) in files {
            let Some(mut held) = self.held(path)? else {
                all = false;
                continue;
            };
            let journal = self.journal_dir();
            held.register.add(Change { journal: &journal, txn, step }, before);
            self.save(held)?;
        }
        Ok(all)
    }

    /// Records that the step changed its own file and the kernel did not change this file along with it.
    pub(crate) fn hold_idly(&mut self, (txn, step): (u64, usize), path: &str) -> Result<(), StateError> {
        let Some(mut held) = self.held(path)? else { return Ok(()) };
        let journal = self.journal_dir();
        held.register.set_idle(Change { journal: &journal, txn, step });
        self.save(held)
    }

    /// Decides what happens to a file when evenkeel undoes a change of it.
    /// On return, the register contains the value that another journal takes over.
    pub(crate) fn leave(&mut self, leaver: &Leaver<'_>) -> Result<Share, StateError> {
        let Leaver { intent, path, before, ours, found } = *leaver;
        let back = || Share::Back(before.to_owned());
        let Some(mut held) = self.held(path)? else { return Ok(back()) };
        let journal = self.journal_dir();
        let change = Change { journal: &journal, txn: intent.txn, step: intent.step };
        let share = match held.register.leave(change, before) {
            Leaving::Last { before } => Share::Back(before),
            Leaving::PassedOn { to, before } => Share::PassedOn { to: to.0, before },
            Leaving::Unknown => match ours.and_then(|ours| held.register.leave_by_value(ours, before)) {
                Some(to) => Share::PassedOn { to: to.0, before: before.to_owned() },
                None => {
                    let is_known = found.is_none_or(|found| {
                        same(found, before) || ours.is_none_or(|ours| same(found, ours)) || intent.ignores_register()
                    });
                    if !is_known && (intent.is_registered || !held.register.is_empty()) {
                        return Err(unexpected_value(leaver));
                    }
                    back()
                }
            },
        };
        self.save(held)?;
        Ok(share)
    }

    /// Updates a register after the journal has recorded an undo.
    /// A failure does no harm: the next process updates the register.
    pub(crate) fn tidy(&mut self, path: &str) {
        if let Ok(Some(held)) = self.held(path) {
            let _ = self.save(held);
        }
    }

    /// The journal that changed a configuration file after this change.
    pub(crate) fn later_holder(&self, (txn, step): (u64, usize), path: &str) -> Result<Option<PathBuf>, StateError> {
        let Some(held) = self.held(path)? else { return Ok(None) };
        let journal = self.journal_dir();
        let later = held.register.later_than(Change { journal: &journal, txn, step });
        Ok(later.map(|JournalDir(dir)| dir.clone()))
    }

    /// Whether another journal recorded `ours` as its original value and then changed the file.
    pub(crate) fn has_follower(&self, path: &str, ours: &str) -> Result<bool, StateError> {
        Ok(self.held(path)?.is_some_and(|held| held.register.has_follower(ours)))
    }

    /// The register of a file, with only the journals that still hold the file.
    /// `None` if there can be no register, or if the file is not claimed.
    fn held(&self, path: &str) -> Result<Option<Held>, StateError> {
        let Some(dir) = self.state.outside.claims_dir(self.root).filter(|_| self.state.claims.has(path)) else {
            return Ok(None);
        };
        let dir = StateDir::open_or_make(&dir)?;
        let name = claims::register_name(path);
        let was = read(&dir, &name, boot_id(self.root), path)?;
        let mut register = was.clone().unwrap_or_else(|| Register::new(boot_id(self.root), path));
        let own = self.journal_dir();
        let log = self.state.log();
        register.drop_gone(|holder| match holder.journal.0 == own {
            true => log.has_pending(path, holder.txn, holder.step),
            false => still_holds(holder, path),
        });
        Ok(Some(Held { dir, name, was, register }))
    }

    /// Writes a register if it changed.
    fn save(&mut self, held: Held) -> Result<(), StateError> {
        let Held { dir, name, was, register } = held;
        let path = dir.path.join(&name);
        let io = |errno: Errno| StateError::io("write the register", &path, errno);
        if register.is_empty() {
            return match was {
                None => Ok(()),
                Some(_) => self.state.outside.remove(&dir.dir, &name).map_err(io),
            };
        }
        if was.as_ref() == Some(&register) {
            return Ok(());
        }
        let text = register.to_text().map_err(|why| damaged(&path, why))?;
        let draft = format!("{name}.new");
        let file = dir.file(&draft, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        let out = &mut self.state.outside;
        out.append(&file, text.as_bytes()).and_then(|()| out.rename(&dir.dir, &draft, &name)).map_err(io)
    }

    /// Our state directory as an absolute path without links,
    /// because processes with other working directories read the path in the register.
    fn journal_dir(&self) -> PathBuf {
        let dir = &self.state.dir;
        std::fs::canonicalize(dir).or_else(|_| std::path::absolute(dir)).unwrap_or_else(|_| dir.clone())
    }
}

impl Intent {
    /// Whether evenkeel accepts any value found in the file,
    /// because this intent belongs to a trial (`wanted` is `None`).
    /// A trial writes several values in turn and does not record which came last.
    /// So an unexpected value does not prove that somebody else wrote it.
    fn ignores_register(&self) -> bool {
        self.wanted.is_none()
    }
}

fn read(dir: &StateDir, name: &str, boot_id: Option<String>, path: &str) -> Result<Option<Register>, StateError> {
    let file = match dir.file(name, OFlags::RDONLY) {
        Err(StateError::Io { errno: Errno::NOENT, .. }) => return Ok(None),
        opened => opened?,
    };
    let at = dir.path.join(name);
    let mut bytes = Vec::new();
    let read = file.take(MAX_REGISTER_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| StateError::io("read the register", &at, Errno::from(&error)))?;
    Register::from_bytes(&bytes, boot_id, path).map(Some).map_err(|why| damaged(&at, why))
}

/// Whether another journal still has to restore this file.
/// An unreadable journal counts as a journal that still has to, a missing journal does not.
fn still_holds(holder: &Holder, path: &str) -> bool {
    match Log::read_damaged(&holder.journal.0) {
        Ok(log) => log.has_pending(path, holder.txn, holder.step) || (!log.losses().is_empty() && !log.has(holder.txn)),
        Err(_) => true,
    }
}

fn damaged(path: &Path, why: String) -> StateError {
    StateError::Register { path: path.display().to_string(), why }
}

fn unexpected_value(leaver: &Leaver<'_>) -> StateError {
    let Leaver { path, before, found, .. } = *leaver;
    StateError::UnexpectedValue {
        path: path.to_owned(),
        before: before.to_owned(),
        found: found.unwrap_or_default().to_owned(),
    }
}

/// The command that reverts the changes of the journal in `dir`.
pub(crate) fn revert_command(dir: &Path) -> String {
    format!("evenkeel revert --state {}", shell::word(&dir.to_string_lossy()))
}
