//! `Session`: knobs that a trial switches between values.
//! The session restores the knobs when it ends, whatever ends it.

use evenkeel_host::{Plan, Step};
use evenkeel_hostfs::{HostWriter, Root};

use crate::apply::write_and_read_back;
use crate::effects::Effects;
use crate::failure::StepFailure;
use crate::intend::Intended;
use crate::job::Job;
use crate::log::PendingUndo;
use crate::outcome::{Kind, StepError};
use crate::place::{Target, look, same};
use crate::put_back::{FileUndo, PutBack, Undo};
use crate::record::Event;
use crate::state::State;
use crate::state_error::StateError;
use crate::undo::{put_back, restore};

/// Knobs under trial. [`Session::end`] ends the session. Dropping the session restores as many knobs as possible.
/// After SIGKILL, [`revert`](crate::revert) restores the rest from the same records.
pub struct Session<'a> {
    effects: Effects<'a>,
    txn: u64,
    steps: Vec<Step>,
    is_ended: bool,
}

/// Why a trial cannot start. evenkeel wrote nothing to the host.
/// The message continues a sentence that begins with "failed to".
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// evenkeel cannot read the current value, or could not restore it later.
    #[error(transparent)]
    Target(#[from] Box<StepFailure>),
    /// The knob has no file that evenkeel can write while the machine runs.
    #[error("try {knob} at {place} while the machine runs: it cannot be set by writing a file")]
    NotAFile {
        /// The knob's id.
        knob: String,
        /// The place.
        place: String,
    },
    /// The journal can't be written, or another evenkeel is changing one of the places.
    #[error(transparent)]
    Journal(#[from] StateError),
}

impl<'a> Session<'a> {
    /// Records the current values of `targets`.
    /// The `wanted` value of a target only informs people who read the journal.
    ///
    /// # Errors
    /// If a target is not a file, can't be read or could not be restored;
    /// if another evenkeel is changing it; or if the journal can't be written.
    pub fn begin(
        root: &'a Root,
        writer: &'a HostWriter,
        state: &'a mut State,
        title: &str,
        targets: &[Step],
    ) -> Result<Session<'a>, SessionError> {
        let mut effects = Effects { root, writer, state };
        let mut befores = Vec::new();
        for (index, step) in targets.iter().enumerate() {
            let target = Target::from_step(step)
                .ok_or_else(|| SessionError::NotAFile { knob: step.knob.clone(), place: step.place.clone() })?;
            effects.claim(target)?;
            befores
                .push((target, target.before(root).map_err(|miss| StepFailure::new(index, step, &step.wanted, miss))?));
        }
        let plan = Plan { steps: targets.to_vec() };
        let txn = effects.begin(Kind::Trial, &Job::new(&plan, title))?;
        // If a later call fails, dropping the session closes the transaction.
        let mut session = Session { effects, txn, steps: targets.to_vec(), is_ended: false };
        for (index, (target, before)) in befores.iter().enumerate() {
            let what = Intended { txn, index, step: &targets[index], target: *target, wanted: None };
            session.effects.intend(what, before)?;
        }
        Ok(session)
    }

    /// The value that the target at `index` had when the session began.
    pub fn before(&self, index: usize) -> Option<&str> {
        let logged = self.effects.state.log().begun(self.txn);
        logged.intents.get(&index).map(|intent| intent.before.as_str())
    }

    /// Sets the target at `index` to `value`, and reads it back.
    /// If `value` is the original value, `set` also restores the side effects,
    /// because the arm with the host's own state must include them.
    ///
    /// `set` writes no record, because the intents that `begin` wrote to disk already undo any value.
    /// A sync between two arms would disturb the measurement.
    ///
    /// # Errors
    /// If evenkeel could not set the value. The session continues.
    ///
    /// # Panics
    /// If no target has this `index`.
    pub fn set(&mut self, index: usize, value: &str) -> Result<(), Box<StepFailure>> {
        let step = &self.steps[index];
        let failed = |miss| StepFailure::new(index, step, value, miss);
        match self.pending(index) {
            Some(pending) if same(&pending.intent.before, value) => {
                let files = restore(&mut self.effects, &pending);
                files.into_iter().find_map(why_not).map_or(Ok(()), |why| Err(failed(StepError::NotPutBack { why })))
            }
            _ => match Target::from_step(step) {
                Some(target) => write_and_read_back(&mut self.effects, target, value).map(drop).map_err(failed),
                None => Ok(()),
            },
        }
    }

    /// The current value of the target at `index`, whoever wrote the value; `None` if evenkeel cannot read it.
    pub fn reads(&self, index: usize) -> Option<String> {
        let target = Target::from_step(self.steps.get(index)?)?;
        look(self.effects.root, target.path, target.reading).ok()
    }

    /// Restores everything.
    pub fn end(mut self) -> PutBack {
        self.finish()
    }

    fn finish(&mut self) -> PutBack {
        self.is_ended = true;
        put_back(&mut self.effects, self.txn, Event::Reverted { txn: self.txn })
    }

    /// The changes that a switch to the original value must restore.
    /// Skips a side effect on another target, because the arm sets that target itself.
    fn pending(&self, index: usize) -> Option<PendingUndo> {
        let mut intent = self.effects.state.log().begun(self.txn).intents.get(&index)?.clone();
        let is_target = |path: &str| self.steps.iter().filter_map(Target::from_step).any(|target| target.path == path);
        intent.side_effects.retain(|side| !is_target(&side.path));
        Some(PendingUndo { intent, done: None })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.finish();
        }
    }
}

fn why_not(file: FileUndo) -> Option<String> {
    match file.undo {
        Undo::Failed { why } | Undo::Gone { why } => Some(why),
        Undo::AsBefore | Undo::Restored { .. } | Undo::Foreign { .. } | Undo::PassedOn { .. } => None,
    }
}
