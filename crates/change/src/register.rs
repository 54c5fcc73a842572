//! `Register`: the journals that hold one file of the host, the oldest change first.
//! Each journal found the value that the previous journal had set.
//! If a journal in the middle leaves, it passes its original value to the next journal.
//! The last journal restores the value that the first journal found.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::place::same;
use crate::record::is_false;

const FORMAT: u64 = 1;

/// The maximum size of a register, in bytes: some thousand journals that change one file in turn.
pub(crate) const MAX_REGISTER_BYTES: usize = 1 << 20;

/// The journals that hold one file, since the last boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Register {
    format: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
    path: String,
    holders: Vec<Holder>,
}

/// Consecutive changes of one journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Holder {
    pub(crate) journal: JournalDir,
    /// The transaction and the step of the first of these changes.
    pub(crate) txn: u64,
    pub(crate) step: usize,
    /// The value to restore when the first of these changes is undone.
    /// Empty for a configuration file, because its original content is in the journal.
    pub(crate) before: String,
    /// Whether the kernel could have changed this file with a write to another file, but did not.
    #[serde(default, skip_serializing_if = "is_false")]
    is_idle: bool,
    /// The other journal that now must restore the value. That journal may not have recorded the value yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left_to: Option<JournalDir>,
}

/// A state directory. In JSON, the path is text, or bytes if the path is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "Spelled", into = "Spelled")]
pub(crate) struct JournalDir(pub(crate) PathBuf);

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Spelled {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Spelled> for JournalDir {
    fn from(spelled: Spelled) -> JournalDir {
        JournalDir(match spelled {
            Spelled::Text(text) => text.into(),
            Spelled::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

impl From<JournalDir> for Spelled {
    fn from(dir: JournalDir) -> Spelled {
        match dir.0.into_os_string().into_string() {
            Ok(text) => Spelled::Text(text),
            Err(other) => Spelled::Bytes(other.as_bytes().to_vec()),
        }
    }
}

/// One change of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) journal: &'a Path,
    pub(crate) txn: u64,
    pub(crate) step: usize,
}

/// What a journal must do when it leaves the register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Nobody changed the file since, so the journal restores this value.
    Last { before: String },
    /// Another journal owns the value in force, and has taken over the value to restore.
    PassedOn { to: JournalDir, before: String },
    /// The register does not contain the change.
    Unknown,
}

impl Register {
    pub(crate) fn new(boot_id: Option<String>, path: &str) -> Register {
        Register { format: FORMAT, boot_id, path: path.to_owned(), holders: Vec::new() }
    }

    /// Parses a register. Returns the reason if it is invalid.
    /// A register of an earlier boot counts as empty, because the kernel has lost its values.
    pub(crate) fn from_bytes(bytes: &[u8], boot_id: Option<String>, path: &str) -> Result<Register, String> {
        if bytes.len() > MAX_REGISTER_BYTES {
            return Err(format!("it has more than {MAX_REGISTER_BYTES} bytes"));
        }
        let register: Register = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if register.format != FORMAT {
            return Err(format!("this evenkeel does not know format {}", register.format));
        }
        if register.path != path {
            return Err(format!("it belongs to {:?}", register.path));
        }
        Ok(if register.boot_id == boot_id { register } else { Register::new(boot_id, path) })
    }

    /// The text of the register. Returns the reason if the text would be too long to read again.
    pub(crate) fn to_text(&self) -> Result<String, String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())? + "\n";
        if text.len() > MAX_REGISTER_BYTES {
            return Err(format!(
                "it would have more than {MAX_REGISTER_BYTES} bytes: revert some of the changes in it"
            ));
        }
        Ok(text)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Removes journals that have nothing left to restore.
    /// The value of such a journal goes to the next journal, unless the next journal already has the value.
    pub(crate) fn drop_gone(&mut self, mut is_held: impl FnMut(&Holder) -> bool) {
        let mut at = 0;
        while at < self.holders.len() {
            if is_held(&self.holders[at]) {
                at += 1;
                continue;
            }
            let gone = self.holders.remove(at);
            if gone.left_to.is_none() {
                self.hand_down(at, &gone.before);
            }
        }
    }

    /// Adds a change before it happens. `before` is the file's current value.
    pub(crate) fn add(&mut self, change: Change<'_>, before: &str) {
        let last = self.holders.iter().rev().find(|holder| holder.left_to.is_none());
        // The journal itself can undo its later changes, and undoes them first.
        if last.is_some_and(|last| last.journal.0 == change.journal && !last.is_idle) {
            return;
        }
        self.holders.push(Holder {
            journal: JournalDir(change.journal.to_owned()),
            txn: change.txn,
            step: change.step,
            before: before.to_owned(),
            is_idle: false,
            left_to: None,
        });
    }

    /// Records that a write to the step's own file did not change this file.
    pub(crate) fn set_idle(&mut self, change: Change<'_>) {
        if let Some(at) = self.position(change)
            && self.is_first(at, change)
        {
            self.holders[at].is_idle = true;
        }
    }

    /// Removes a change from the register. Returns the value to restore, unless another journal changed the file since.
    /// `own` is the value that this journal found.
    pub(crate) fn leave(&mut self, change: Change<'_>, own: &str) -> Leaving {
        let Some(at) = self.position(change) else { return Leaving::Unknown };
        let is_first = self.is_first(at, change);
        let before = if is_first { self.holders[at].before.clone() } else { own.to_owned() };
        if let (true, Some(to)) = (is_first, &self.holders[at].left_to) {
            return Leaving::PassedOn { to: to.clone(), before };
        }
        self.hand_down(at + 1, &before);
        match self.later(at).map(|later| later.journal.clone()) {
            None => Leaving::Last { before },
            Some(to) => {
                if is_first {
                    self.holders[at].left_to = Some(to.clone());
                }
                Leaving::PassedOn { to, before }
            }
        }
    }

    /// Like [`leave`](Register::leave), for a change that the register does not contain.
    /// The journal that found the value `ours` counts as the next journal.
    pub(crate) fn leave_by_value(&mut self, ours: &str, before: &str) -> Option<JournalDir> {
        let at = self.follower(ours)?;
        self.hand_down(at, before);
        Some(self.holders[at].journal.clone())
    }

    /// Whether another journal found the value `ours`, and changed the file afterwards.
    pub(crate) fn has_follower(&self, ours: &str) -> bool {
        self.follower(ours).is_some()
    }

    /// The journal that changed the file after this change.
    pub(crate) fn later_than(&self, change: Change<'_>) -> Option<&JournalDir> {
        self.later(self.position(change)?).map(|later| &later.journal)
    }

    fn follower(&self, ours: &str) -> Option<usize> {
        let follows = |holder: &Holder| holder.left_to.is_none() && !holder.is_idle && same(&holder.before, ours);
        self.holders.iter().position(follows)
    }

    fn later(&self, at: usize) -> Option<&Holder> {
        let journal = &self.holders[at].journal;
        let mut later = self.holders[at + 1..].iter();
        later.find(|later| later.left_to.is_none() && !later.is_idle && later.journal != *journal)
    }

    fn hand_down(&mut self, from: usize, before: &str) {
        for holder in self.holders[from..].iter_mut().filter(|holder| holder.left_to.is_none()) {
            before.clone_into(&mut holder.before);
            // If a journal changed nothing, the next journal found the same value.
            if !holder.is_idle {
                break;
            }
        }
    }

    fn position(&self, change: Change<'_>) -> Option<usize> {
        self.holders.iter().rposition(|holder| {
            holder.journal.0 == change.journal && (holder.txn, holder.step) <= (change.txn, change.step)
        })
    }

    fn is_first(&self, at: usize, change: Change<'_>) -> bool {
        (self.holders[at].txn, self.holders[at].step) == (change.txn, change.step)
    }
}
