//! Changes that were not confirmed in time, and that nothing has undone: the watchdog was killed. Whatever command comes next undoes them.

use evenkeel_change::{Log, PutBack, State, expire};
use evenkeel_hostfs::Root;

use crate::args::StateArgs;
use crate::show::{self, Out};

/// The same for a command that looks at the machine and has no journal of its own: in that of who runs it.
pub(crate) fn settle_own(root: &Root, out: &Out) {
    settle(root, &StateArgs { state: None }, out);
}

/// Undoes them, and reports what was undone on standard error. Where this can't be done, for want of rights or because another evenkeel
/// is at it, `verify` and `history` show them.
pub(crate) fn settle(root: &Root, state: &StateArgs, out: &Out) -> Vec<PutBack> {
    let Ok(dir) = state.path() else { return Vec::new() };
    // A journal that can't be read is the command's own business.
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
