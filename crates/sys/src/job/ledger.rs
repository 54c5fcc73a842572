//! `Ledger`: how many tasks of a scope still exist, and which thread waits for them.

use super::primitive::{AtomicU64, Ordering};

/// The number of tasks that still exist.
pub(super) struct Ledger<D> {
    pub(super) pending: AtomicU64,
    /// The bit of the waiting slot.
    pub(super) waiter: u64,
    pub(super) data: D,
}

impl<D> Ledger<D> {
    /// Counts this many tasks as gone. If these were the last tasks, returns the bit of the waiting slot.
    ///
    /// # Safety
    /// The ledger is alive, because this many of its tasks still exist. After this call, its owner may free the ledger.
    #[inline]
    pub(super) unsafe fn gone(ledger: *const Ledger<D>, count: u64) -> Option<u64> {
        // SAFETY: as the caller promises. No reference outlives the last line that needs it.
        let waiter = unsafe { (*ledger).waiter };
        // Release: makes the tasks' writes visible to the waiting thread.
        // SAFETY: as above.
        let before = unsafe { (*ledger).pending.fetch_sub(count, Ordering::Release) };
        (before == count).then_some(waiter)
    }
}
