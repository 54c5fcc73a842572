//! `Keeper`: restores kernel files that a meter changes, even when the meter is killed. To survive that, the keeper must be a separate
//! process. The program has one; a meter only names what the keeper must restore.

use crate::error::MeterError;

/// Restores files on request, when it is dropped, and when its owner is killed.
pub trait Keeper: std::fmt::Debug {
    /// Registers the file at `path` to be restored to `value`. Do not change the file before this returns.
    ///
    /// # Errors
    /// If the keeper cannot be reached.
    fn keep(&mut self, path: &str, value: &str) -> Result<(), MeterError>;

    /// Cancels the restore of the file at `path`, because another program has set it meanwhile.
    ///
    /// # Errors
    /// If the keeper cannot be reached.
    fn forget(&mut self, path: &str) -> Result<(), MeterError>;

    /// Restores everything before it returns.
    ///
    /// # Errors
    /// If something stays changed.
    fn end(self: Box<Self>) -> Result<(), MeterError>;
}
