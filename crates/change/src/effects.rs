//! `Effects` combines the root to read, the writer for the host, and the journal.
//! A transaction reads and writes only through `Effects`.

use evenkeel_hostfs::{HostWriter, Root, RootKind, WriteError};

use crate::job::Job;
use crate::log::boot_id;
use crate::outcome::Kind;
use crate::place::Target;
use crate::record::Event;
use crate::state::State;
use crate::state_error::StateError;

pub(crate) struct Effects<'a> {
    pub(crate) root: &'a Root,
    pub(crate) writer: &'a HostWriter,
    pub(crate) state: &'a mut State,
}

impl Effects<'_> {
    pub(crate) fn write(&mut self, path: &str, value: &str) -> Result<(), WriteError> {
        self.state.outside.write(self.writer, path, value)
    }

    /// Locks the files that a write to `target` changes, before evenkeel reads its value.
    /// Without the lock, evenkeel could read a value that the trial of another evenkeel has set.
    pub(crate) fn claim(&mut self, target: Target<'_>) -> Result<(), StateError> {
        self.state.claim(self.root, target.path)?;
        target.side_effects.iter().try_for_each(|path| self.state.claim(self.root, path))
    }

    pub(crate) fn record(&mut self, event: Event) -> Result<(), StateError> {
        self.state.append(event)
    }

    /// Records that a value or a file is restored.
    pub(crate) fn record_undone(&mut self, event: Event) -> Result<(), StateError> {
        self.state.append_undone(event)
    }

    /// Starts a transaction and returns its number.
    pub(crate) fn begin(&mut self, kind: Kind, job: &Job<'_>) -> Result<u64, StateError> {
        self.state.log().is_about(self.root)?;
        let txn = self.state.next_transaction()?;
        self.record(Event::Begin {
            txn,
            kind,
            title: job.title.to_owned(),
            boot_id: boot_id(self.root),
            steps: job.plan.steps.clone(),
            settings: job.settings.to_vec(),
            lasting: job.lasting.cloned(),
            until: job.until,
            owner: job.owner.cloned(),
            captured: Some(self.root.kind() == RootKind::Captured),
        })?;
        Ok(txn)
    }
}
