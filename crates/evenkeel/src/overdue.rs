//! Reverts changes that were not confirmed in time and are still in force, because their watchdog was killed.
//! Every command first calls this code.

use evenkeel_change::{Log, PutBack, State, expire};
use evenkeel_hostfs::Root;

use crate::args::StateArgs;
use crate::show::{self, Out};

/// Reverts overdue changes for a command without --state. It reads the user's default journal.
pub(crate) fn settle_own(root: &Root, out: &Out) {
    settle(root, &StateArgs { state: None }, out);
}

/// Reverts changes that nobody confirmed in time, and reports them on standard error.
/// This can fail without privileges, or if another evenkeel holds the lock.
/// Then `verify` and `history` show the changes.
pub(crate) fn settle(root: &Root, state: &StateArgs, out: &Out) -> Vec<PutBack> {
    let Ok(dir) = state.path() else { return Vec::new() };
    // If the journal can't be read, the command itself reports it.
    let is_overdue = Log::read_damaged(&dir).is_ok_and(|log| !evenkeel_change::overdue(root, &log).is_empty());
    let Some(writer) = is_overdue.then(|| root.writer().ok()).flatten() else { return Vec::new() };
    let Ok(mut journal) = State::open_to_revert(&dir) else { return Vec::new() };
    let mut undone = Vec::new();
    for id in evenkeel_change::overdue(root, journal.log()) {
        let seconds = journal.log().seconds_to_confirm(id).unwrap_or_default();
        if let Ok(Some(report)) = expire(root, &writer, &mut journal, id) {
            out.warn_page(&show::change::expired(id, seconds, &report));
            undone.extend(report.transactions);
        }
    }
    undone
}
