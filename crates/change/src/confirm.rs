//! `confirm` makes a change permanent that would otherwise revert itself.
//! `expire` reverts a change that nobody confirmed.
//! The watchdog calls `expire`; if the watchdog is gone, the next evenkeel does.

use evenkeel_hostfs::{HostWriter, Root};

use crate::deadline::{is_waiting, unconfirmed};
use crate::record::Event;
use crate::revert::{RevertError, RevertReport, Which, revert};
use crate::state::State;
use crate::state_error::StateError;

/// The error when nothing can be confirmed. The message continues a sentence that begins with "failed to".
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

/// Confirms transaction `which`, or every change that waits for confirmation. Returns the numbers of the transactions.
///
/// # Errors
/// If no change waits, or the journal can't be written.
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

/// Reverts transaction `id` if nobody confirmed it, and reverts later changes that depend on it.
/// Returns `None` if nothing needs a revert.
///
/// # Errors
/// The errors of [`revert`].
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
