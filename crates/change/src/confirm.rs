//! `confirm` makes a change permanent that would otherwise revert itself. `expire` reverts one that nobody confirmed;
//! the watchdog calls it, or the next evenkeel if the watchdog is gone.

use evenkeel_hostfs::{HostWriter, Root};

use crate::deadline::{is_waiting, unconfirmed};
use crate::record::Event;
use crate::revert::{RevertError, RevertReport, Which, revert};
use crate::state::State;
use crate::state_error::StateError;

/// There is nothing to confirm. The message continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmError {
    /// No change waits for confirmation.
    #[error("confirm: no change needs confirmation. If you did not confirm one in time, evenkeel has reverted it")]
    Nothing,
    /// That change does not wait for confirmation.
    #[error("confirm transaction {id}: it needs no confirmation")]
    NotThis {
        /// The number given.
        id: u64,
    },
    /// The program that made this change was killed half-way.
    #[error("confirm transaction {id}: it was killed half-way")]
    Interrupted {
        /// The number.
        id: u64,
    },
    /// The journal.
    #[error(transparent)]
    Journal(#[from] StateError),
}

/// Confirms `which`, or every change that waits. Returns their numbers.
///
/// # Errors
/// If none waits, or the journal can't be written.
pub fn confirm(root: &Root, state: &mut State, which: Option<u64>) -> Result<Vec<u64>, ConfirmError> {
    state.log().is_about(root)?;
    let waiting: Vec<u64> = unconfirmed(root, state.log()).into_iter().map(|(id, _)| id).collect();
    let chosen = match which {
        None if waiting.is_empty() => return Err(ConfirmError::Nothing),
        None => waiting,
        Some(id) if waiting.contains(&id) => vec![id],
        Some(id) => return Err(ConfirmError::NotThis { id }),
    };
    if let Some(id) = chosen.iter().copied().find(|id| state.log().begun(*id).is_unfinished()) {
        return Err(ConfirmError::Interrupted { id });
    }
    for id in &chosen {
        state.append(Event::Confirmed { txn: *id })?;
    }
    Ok(chosen)
}

/// Reverts transaction `id` if nobody confirmed it, and later changes that depend on it. Returns `None` if there is
/// nothing to do.
///
/// # Errors
/// As [`revert`].
pub fn expire(
    root: &Root,
    writer: &HostWriter,
    state: &mut State,
    id: u64,
) -> Result<Option<RevertReport>, RevertError> {
    if !is_waiting(root, state.log(), id) {
        return Ok(None);
    }
    loop {
        match revert(root, writer, state, Which::Transaction(id)) {
            // Each pass closes one transaction, so the loop ends.
            Err(RevertError::Covered { later, .. }) => {
                if !revert(root, writer, state, Which::Transaction(later))?.all_undone {
                    return revert(root, writer, state, Which::All).map(Some);
                }
            }
            reverted => return reverted.map(Some),
        }
    }
}
