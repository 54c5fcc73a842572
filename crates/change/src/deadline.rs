//! The time limits of changes: which changes wait for confirmation, and which were not confirmed in time.

use evenkeel_hostfs::{Root, RootKind};
use evenkeel_sys::clock;

use crate::log::{Log, Logged, boot_id};
use crate::record::Until;

/// The transactions that revert themselves unless the user confirms them, with their time limits.
pub fn unconfirmed(root: &Root, log: &Log) -> Vec<(u64, Until)> {
    let boot_id = boot_id(root);
    let waiting = log.transactions().filter(|logged| logged.awaits_confirmation());
    let of_boot = waiting.filter(|logged| logged.is_of_boot(boot_id.as_deref()));
    of_boot.filter_map(|logged| Some((logged.id, logged.until?))).collect()
}

/// Unconfirmed transactions whose time limit has passed and that are still in force.
/// Only the running machine can have any, because the time limit refers to its clock.
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

/// Whether transaction `id`, which has a time limit, still needs confirmation.
/// If the record of the limit is lost, the transaction counts as unconfirmed.
pub fn is_waiting(root: &Root, log: &Log, id: u64) -> bool {
    let is_headless = |logged: &Logged| logged.is_headless && !logged.is_closed() && !logged.is_confirmed;
    unconfirmed(root, log).iter().any(|(waiting, _)| *waiting == id) || log.transaction(id).is_some_and(is_headless)
}
