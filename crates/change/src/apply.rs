//! `apply` runs a plan as one transaction: either all of its steps take effect, or all of them are undone.

use evenkeel_host::{Action, Plan};
use evenkeel_hostfs::{HostWriter, Root, RootKind};

use crate::arguments;
use crate::effects::Effects;
use crate::failure::{Failure, StepFailure};
use crate::history::{Transaction, summary};
use crate::intend::Intended;
use crate::job::{Job, OnFailure};
use crate::outcome::{Kind, SideEffect, StepError};
use crate::persist_exec::persist;
use crate::place::{EffectiveValue, Target, look};
use crate::put_back::PutBack;
use crate::record::{Event, FailedStep};
use crate::state::State;
use crate::state_error::StateError;
use crate::undo::{put_back, restore_for_good};

/// The error for a plan that was not applied. The message continues a sentence that begins with "failed to".
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The journal could not be started. Nothing was written to the host.
    #[error(transparent)]
    Journal(#[from] StateError),
    /// The plan failed half-way. `put_back` lists what was restored.
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
    /// The outcome of each step.
    pub transaction: Transaction,
    /// The restored values, and whether all values are restored.
    pub put_back: PutBack,
}

impl HalfWay {
    fn left(&self) -> String {
        if self.put_back.changed_nothing() {
            return "; nothing was changed".to_owned();
        }
        if self.put_back.all_undone {
            return "; all earlier changes are restored".to_owned();
        }
        let values = self.put_back.files.iter().filter(|file| !file.is_undone()).map(|file| file.path.as_str());
        let kept = self.put_back.persisted.iter().filter(|kept| !kept.is_undone()).map(|kept| kept.what.as_str());
        let left: Vec<&str> = values.chain(kept).collect();
        format!("; not restored: {}; try `evenkeel revert`", left.join(", "))
    }
}

/// Applies the steps of `plan` in order. `history` and `revert` show `title` to people.
///
/// The undo data is on disk before the write.
/// A step counts as applied only if evenkeel reads the value back as in force.
/// If one step fails, evenkeel restores the earlier steps.
/// It skips steps that no write to the host can apply, and the report shows what to do.
///
/// # Errors
/// If the journal can't be written, or a step fails. The error says whether everything was restored.
pub fn apply(
    root: &Root,
    writer: &HostWriter,
    state: &mut State,
    plan: &Plan,
    title: &str,
) -> Result<Transaction, ApplyError> {
    carry_out(root, writer, state, &Job::new(plan, title), |_| Ok(()))
}

/// Like [`apply`], with all options of a job.
/// Calls `arm` with the transaction's number
/// after the journal has recorded the transaction, and before anything changes.
/// `arm` can start the process that will undo the transaction later.
///
/// # Errors
/// The errors of [`apply`]; also if `arm` fails, with the reason that `arm` returns.
pub fn carry_out(
    root: &Root,
    writer: &HostWriter,
    state: &mut State,
    job: &Job<'_>,
    arm: impl FnOnce(u64) -> Result<(), String>,
) -> Result<Transaction, ApplyError> {
    let mut effects = Effects { root, writer, state };
    let txn = effects.begin(Kind::Apply, job)?;
    let done = arm(txn).map_err(Failure::Arm).and_then(|()| take_all(&mut effects, txn, job));
    let failure = match done.and_then(|Taken { already_so, missed }| {
        Ok(effects.record(Event::Commit { txn, already_so, missed, owned: job.owned.to_vec() })?)
    }) {
        Ok(()) => return Ok(summary_of(&effects, txn)),
        Err(failure) => failure,
    };
    let failed = match &failure {
        Failure::Step(failure) => Some(FailedStep { step: failure.step, error: failure.error.clone() }),
        _ => None,
    };
    let put_back = put_back(&mut effects, txn, Event::RolledBack { txn, why: failure.to_string(), failed });
    Err(ApplyError::HalfWay(Box::new(HalfWay { failure, transaction: summary_of(&effects, txn), put_back })))
}

#[derive(Default)]
struct Taken {
    already_so: Vec<usize>,
    missed: Vec<FailedStep>,
}

fn take_all(effects: &mut Effects<'_>, txn: u64, job: &Job<'_>) -> Result<Taken, Failure> {
    let mut taken = Taken::default();
    let steps = &job.plan.steps;
    // No kernel runs in an image, so evenkeel writes nothing there. The first boot applies all values.
    let runs = effects.root.kind() != RootKind::Mounted;
    for (index, step) in steps.iter().enumerate().filter(|_| runs) {
        let is_so = match (&step.action, Target::from_step(step)) {
            (_, Some(target)) => {
                take(effects, Intended { txn, index, step, target, wanted: Some(&step.wanted) }).map(|wrote| !wrote)
            }
            (Action::KernelArgument { argument }, _) => Ok(is_booted_with(effects.root, argument)),
            _ => Ok(false),
        };
        match is_so {
            Ok(true) => taken.already_so.push(index),
            Ok(false) => {}
            Err(Failure::Step(failure)) if job.on_failure == OnFailure::GoOn => {
                put_one_back(effects, txn, index)?;
                taken.missed.push(FailedStep { step: index, error: failure.error });
            }
            Err(failure) => return Err(failure),
        }
    }
    if let Some(lasting) = job.lasting {
        taken.already_so.extend(persist(effects, txn, steps.len(), &lasting.persist)?);
    }
    Ok(taken)
}

/// Restores a file that a step wrote although the value did not take effect.
fn put_one_back(effects: &mut Effects<'_>, txn: u64, index: usize) -> Result<(), Failure> {
    let pending = effects.state.log().begun(txn).pending().into_iter().find(|pending| pending.intent.step == index);
    let Some(pending) = pending else { return Ok(()) };
    match restore_for_good(effects, &pending).into_iter().find(|file| !file.is_undone()) {
        None => {
            effects.record(Event::Undone { txn, step: index })?;
            pending.intent.paths().for_each(|path| effects.tidy(path));
            Ok(())
        }
        Some(file) => Err(Failure::File { path: file.path, why: "its value could not be restored".to_owned() }),
    }
}

/// Whether the running kernel was started with `argument`.
pub(crate) fn is_booted_with(root: &Root, argument: &str) -> bool {
    root.text("/proc/cmdline").is_ok_and(|line| arguments::of_kernel(&line).any(|word| word == argument))
}

/// Applies a step that writes a file. Returns whether a write was needed.
fn take(effects: &mut Effects<'_>, what: Intended<'_>) -> Result<bool, Failure> {
    let Intended { txn, index, step, target, .. } = what;
    let failed = |miss| StepFailure::new(index, step, &step.wanted, miss);
    effects.claim(target).map_err(|busy| failed(StepError::Unreadable { why: busy.to_string() }))?;
    let before = target.before(effects.root).map_err(failed)?;
    let effective = target.effective(effects.root, &step.wanted);
    if effective.is_ok_and(|effective| effective == EffectiveValue::Holds) {
        return Ok(false);
    }
    effects.intend(what, &before)?;
    let found = write_and_read_back(effects, target, &step.wanted).map_err(failed)?;
    let sides: Vec<String> = before.side_effects.iter().map(|side| side.path.clone()).collect();
    let side_effects = changed(effects.root, before.side_effects);
    let idle: Vec<String> =
        sides.into_iter().filter(|path| side_effects.iter().all(|side| side.path != *path)).collect();
    effects.record(Event::Done { txn, step: index, found, side_effects })?;
    for path in idle {
        // If this call fails, the register still claims that this step changed the file.
        // If another journal then undoes its own change to the file, it leaves the restore to us.
        let _ = effects.hold_idly((txn, index), &path);
    }
    Ok(true)
}

/// Writes a value, and reads the file back. If the value is in force, returns the text of the file.
pub(crate) fn write_and_read_back(
    effects: &mut Effects<'_>,
    target: Target<'_>,
    value: &str,
) -> Result<String, StepError> {
    let written = effects.write(target.path, &target.reading.text(value));
    written.map_err(|error| StepError::refused(effects.root, target.path, error.errno))?;
    match target.settled(effects.root, value) {
        Ok(EffectiveValue::Holds) => {
            look(effects.root, target.path, target.reading).map_err(|error| StepError::Unreadable { why: error.why() })
        }
        Ok(EffectiveValue::Other { found, read_from }) => Err(StepError::DidNotTake { found, read_from }),
        Err(error) => Err(StepError::Unreadable { why: error.why() }),
    }
}

/// The side effects that happened, each with the new text of its file.
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
