//! `revert`: restores the changes that are in force, that a kill interrupted, or that an earlier revert did not finish.

use std::collections::BTreeSet;

use evenkeel_hostfs::{HostWriter, Root};
use serde::Serialize;

use crate::effects::Effects;
use crate::log::{Log, Logged, boot_id};
use crate::loss::Loss;
use crate::put_back::PutBack;
use crate::record::Event;
use crate::state::State;
use crate::state_error::StateError;
use crate::undo::put_back;

/// What to revert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Every transaction.
    All,
    /// One transaction, by its number.
    Transaction(u64),
}

/// The outcome of a revert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RevertReport {
    /// Each transaction that had something to restore, the newest first.
    pub transactions: Vec<PutBack>,
    /// The parts that are missing in the journal. They may include changes that nobody can restore.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// Whether nothing is left to restore, as far as evenkeel can know.
    pub all_undone: bool,
}

/// The error for a transaction that cannot be reverted alone.
/// The message continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevertError {
    /// The journal has no such transaction.
    #[error("revert transaction {id}: it does not exist; `evenkeel history` lists all transactions")]
    Unknown {
        /// The number given.
        id: u64,
    },
    /// A later transaction changed the same file.
    /// Reverting only the earlier transaction would undo a part of the later one.
    #[error("revert transaction {id}: transaction {later} changed {path} after it; revert {later} first, or all")]
    Covered {
        /// The number given.
        id: u64,
        /// The later one.
        later: u64,
        /// A file that both changed.
        path: String,
    },
    /// The journal is about another machine.
    #[error(transparent)]
    Journal(#[from] StateError),
}

/// Reverts `which`, the newest change first. Repeating the call does no harm.
/// If a file cannot be restored, evenkeel still restores the others, and the report lists the file.
///
/// For a transaction from before the last boot, evenkeel writes nothing, since the kernel has lost its values.
/// If the transaction persists over boots, evenkeel removes its files, and restores values that these files set again.
///
/// # Errors
/// If the transaction does not exist, or a later transaction in force changed the same files.
pub fn revert(root: &Root, writer: &HostWriter, state: &mut State, which: Which) -> Result<RevertReport, RevertError> {
    state.log().is_about(root)?;
    let boot_id = boot_id(root);
    let open = |log: &Log| -> Vec<u64> {
        log.transactions().rev().filter(|logged| !logged.is_closed()).map(|logged| logged.id).collect()
    };
    let ids = match which {
        Which::All => open(state.log()),
        Which::Transaction(id) => {
            uncovered(state.log(), id, boot_id.as_deref())?;
            open(state.log()).into_iter().filter(|open| *open == id).collect()
        }
    };
    let mut effects = Effects { root, writer, state };
    let mut transactions = Vec::new();
    for id in ids {
        let logged = effects.state.log().begun(id);
        transactions.push(if logged.is_of_boot(boot_id.as_deref()) || logged.outlives_boots() {
            put_back(&mut effects, id, Event::Reverted { txn: id })
        } else {
            ended_by_reboot(&mut effects, id)
        });
    }
    let losses = effects.state.log().losses().to_vec();
    let all_undone = losses.is_empty() && transactions.iter().all(|back| back.all_undone);
    Ok(RevertReport { transactions, losses, all_undone })
}

fn uncovered(log: &Log, id: u64, boot_id: Option<&str>) -> Result<(), RevertError> {
    let logged = log.transaction(id).ok_or(RevertError::Unknown { id })?;
    let is_left = |logged: &Logged| !logged.is_closed() && (logged.is_of_boot(boot_id) || logged.outlives_boots());
    if !is_left(logged) {
        return Ok(());
    }
    let ours: BTreeSet<&str> = logged.paths().collect();
    for later in log.transactions().filter(|later| later.id > id && is_left(later)) {
        if let Some(path) = later.paths().find(|path| ours.contains(path)) {
            return Err(RevertError::Covered { id, later: later.id, path: path.to_owned() });
        }
    }
    Ok(())
}

fn ended_by_reboot(effects: &mut Effects<'_>, txn: u64) -> PutBack {
    let title = effects.state.log().begun(txn).title.clone();
    let mut back = PutBack { ended_by_reboot: true, ..PutBack::new(txn, title) };
    back.note(effects.record_undone(Event::EndedByReboot { txn }));
    back
}
