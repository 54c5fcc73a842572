//! `Ledger`: how many tasks of a scope are not gone, and who waits for them.

use super::primitive::{AtomicU64, Ordering};

/// How many tasks are not gone.
pub(super) struct Ledger<D> {
    pub(super) pending: AtomicU64,
    /// The bit of the slot that waits.
    pub(super) waiter: u64,
    pub(super) data: D,
}

impl<D> Ledger<D> {
    /// So many are gone. The bit of who waits, if these were the last.
    ///
    /// # Safety
    /// The ledger lives: as many tasks of it are not gone yet. Afterwards it may be no more.
    #[inline]
    pub(super) unsafe fn gone(ledger: *const Ledger<D>, count: u64) -> Option<u64> {
        // SAFETY: as the caller promises; no reference outlives the last line that needs it.
        let waiter = unsafe { (*ledger).waiter };
        // Release: what the tasks did is seen by who waited for them.
        // SAFETY: as above.
        let before = unsafe { (*ledger).pending.fetch_sub(count, Ordering::Release) };
        (before == count).then_some(waiter)
    }
}
