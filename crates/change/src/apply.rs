//! `apply`: a plan as one transaction. All of its steps come about, or none stays.

use evenkeel_host::{Action, Plan, Step};
use evenkeel_sys::{Hand, Root};

use crate::effects::{Effects, Intended};
use crate::history::{Transaction, summary};
use crate::outcome::{Kind, Miss, SideEffect, StepFailure};
use crate::place::{Standing, Target, look};
use crate::record::{Event, FailedStep};
use crate::state::{State, StateError};
use crate::undo::{PutBack, Undo, put_back};

/// A plan that was not applied. Reads well after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The journal could not be started: nothing was written to the host.
    #[error(transparent)]
    Journal(#[from] StateError),
    /// It failed half-way and was put back, as far as `put_back` tells.
    #[error(transparent)]
    HalfWay(Box<HalfWay>),
}

/// A plan that failed half-way.
#[derive(Debug, thiserror::Error)]
#[error("{failure}{}", self.left())]
pub struct HalfWay {
    /// What failed.
    #[source]
    pub failure: Failure,
    /// What became of each step.
    pub transaction: Transaction,
    /// What was put back, and whether all of it was.
    pub put_back: PutBack,
}

/// What stopped a plan.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A value did not come about.
    #[error(transparent)]
    Step(#[from] Box<StepFailure>),
    /// The journal could not be added to: a full disk, say. The write that it should have described did not happen.
    #[error(transparent)]
    Journal(#[from] StateError),
}

impl HalfWay {
    fn left(&self) -> String {
        if self.put_back.files.iter().all(|file| file.undo == Undo::AsBefore) {
            return "; nothing was changed".to_owned();
        }
        if self.put_back.all_undone {
            return "; everything that was changed before is put back".to_owned();
        }
        let left: Vec<&str> =
            self.put_back.files.iter().filter(|file| !file.is_undone()).map(|file| file.path.as_str()).collect();
        format!("; not put back: {}; try `evenkeel revert`", left.join(", "))
    }
}

/// Brings the steps of `plan` about, in their order; `title` tells people later what it was for.
///
/// What undoes a write is on disk before the write. A step counts only when its value reads back in force. When one
/// fails, those before it are put back. Steps that no write to the host brings about are passed over, and say what does.
///
/// # Errors
/// If the journal can't be written, or a step fails; the error then tells whether all was put back.
pub fn apply(root: &Root, hand: &Hand, state: &mut State, plan: &Plan, title: &str) -> Result<Transaction, ApplyError> {
    let mut effects = Effects { root, hand, state };
    let txn = effects.begin(Kind::Apply, title, &plan.steps)?;
    let done = take_all(&mut effects, txn, &plan.steps);
    let failure = match done.and_then(|already_so| Ok(effects.record(Event::Commit { txn, already_so })?)) {
        Ok(()) => return Ok(summary_of(&effects, txn)),
        Err(failure) => failure,
    };
    let failed = match &failure {
        Failure::Step(failure) => Some(FailedStep { step: failure.step, miss: failure.miss.clone() }),
        Failure::Journal(_) => None,
    };
    let put_back = put_back(&mut effects, txn, Event::RolledBack { txn, why: failure.to_string(), failed });
    Err(ApplyError::HalfWay(Box::new(HalfWay { failure, transaction: summary_of(&effects, txn), put_back })))
}

/// Gives the indices of the steps that were so already.
fn take_all(effects: &mut Effects<'_>, txn: u64, steps: &[Step]) -> Result<Vec<usize>, Failure> {
    let mut already_so = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let is_so = match (&step.action, Target::of(step)) {
            (_, Some(target)) => !take(effects, Intended { txn, index, step, target, wanted: Some(&step.wanted) })?,
            (Action::KernelArgument { argument }, _) => is_booted_with(effects.root, argument),
            _ => false,
        };
        if is_so {
            already_so.push(index);
        }
    }
    Ok(already_so)
}

/// Whether the running kernel was started with `argument`.
pub(crate) fn is_booted_with(root: &Root, argument: &str) -> bool {
    root.text("/proc/cmdline").is_ok_and(|line| line.split_whitespace().any(|word| word == argument))
}

/// Takes a step that writes a file; gives whether anything had to be written.
fn take(effects: &mut Effects<'_>, what: Intended<'_>) -> Result<bool, Failure> {
    let Intended { txn, index, step, target, .. } = what;
    let failed = |miss| StepFailure::new(index, step, &step.wanted, miss);
    let before = target.before(effects.root).map_err(failed)?;
    let standing = target.standing(effects.root, &step.wanted);
    if standing.is_ok_and(|standing| standing == Standing::Holds) {
        return Ok(false);
    }
    effects.intend(what, &before)?;
    let found = write_and_read_back(effects, target, &step.wanted).map_err(failed)?;
    let side_effects = changed(effects.root, before.side_effects);
    effects.record(Event::Done { txn, step: index, found, side_effects })?;
    Ok(true)
}

/// Writes a value, and gives what the file reads then if it is in force.
pub(crate) fn write_and_read_back(effects: &mut Effects<'_>, target: Target<'_>, value: &str) -> Result<String, Miss> {
    effects.write(target.path, &target.reading.text(value)).map_err(|error| Miss::Refused { errno: error.errno })?;
    match target.settled(effects.root, value) {
        Ok(Standing::Holds) => {
            look(effects.root, target.path, target.reading).map_err(|blind| Miss::Unreadable { why: blind.why() })
        }
        Ok(Standing::Other { found, read_from }) => Err(Miss::DidNotTake { found, read_from }),
        Err(blind) => Err(Miss::Unreadable { why: blind.why() }),
    }
}

/// The side effects that came about.
fn changed(root: &Root, side_effects: Vec<SideEffect>) -> Vec<SideEffect> {
    let with_after = side_effects.into_iter().filter_map(|side| {
        let after = look(root, &side.path, evenkeel_host::Reading::Plain).ok()?;
        (after != side.before).then_some(SideEffect { after: Some(after), ..side })
    });
    with_after.collect()
}

fn summary_of(effects: &Effects<'_>, txn: u64) -> Transaction {
    summary(effects.state.log().begun(txn), None)
}
