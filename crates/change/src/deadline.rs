//! When changes that were made for a time are over: what waits to be confirmed, and what nobody confirmed in time.

use evenkeel_hostfs::{Root, RootKind};
use evenkeel_sys::clock;

use crate::log::{Log, Logged, boot_id};
use crate::record::Until;

/// The transactions that undo themselves unless they are confirmed, and when.
pub fn unconfirmed(root: &Root, log: &Log) -> Vec<(u64, Until)> {
    let boot_id = boot_id(root);
    let waiting = log.transactions().filter(|logged| logged.awaits_confirmation());
    let of_boot = waiting.filter(|logged| logged.is_of_boot(boot_id.as_deref()));
    of_boot.filter_map(|logged| Some((logged.id, logged.until?))).collect()
}

/// Those whose time to be confirmed is over, and that are still in force: on the machine that runs, since the time is by its clock.
pub fn overdue(root: &Root, log: &Log) -> Vec<u64> {
    match root.kind() {
        RootKind::Live => overdue_at(root, log, clock::boottime_ns()),
        RootKind::Captured | RootKind::Mounted => Vec::new(),
    }
}

pub(crate) fn overdue_at(root: &Root, log: &Log, boottime_ns: u64) -> Vec<u64> {
    let waiting = unconfirmed(root, log).into_iter();
    waiting.filter(|(_, until)| until.boottime_ns <= boottime_ns).map(|(id, _)| id).collect()
}

/// Whether transaction `id`, which is known to have a time limit, is still to be confirmed. Where the record of that limit is lost it is
/// taken to be.
pub fn is_waiting(root: &Root, log: &Log, id: u64) -> bool {
    let is_headless = |logged: &Logged| logged.is_headless && !logged.is_closed() && !logged.is_confirmed;
    unconfirmed(root, log).iter().any(|(waiting, _)| *waiting == id) || log.transaction(id).is_some_and(is_headless)
}
