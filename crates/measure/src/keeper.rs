//! `Keeper`: restores kernel files that a meter changes, even when the meter is killed.
//! To survive such a kill, the keeper must be a separate process. The program implements the keeper.
//! A meter only names what the keeper must restore.

use crate::error::MeterError;

/// Restores files on request, when it is dropped, and when its owner is killed.
pub trait Keeper: std::fmt::Debug {
    /// Registers the file at `path` for a restore to `value`. Do not change the file before this function returns.
    ///
    /// # Errors
    /// Fails if the keeper cannot be reached.
    fn keep(&mut self, path: &str, value: &str) -> Result<(), MeterError>;

    /// Cancels the restore of the file at `path`, because another program has set the file in the meantime.
    ///
    /// # Errors
    /// Fails if the keeper cannot be reached.
    fn forget(&mut self, path: &str) -> Result<(), MeterError>;

    /// Restores all registered files before it returns.
    ///
    /// # Errors
    /// Fails if a file stays changed.
    fn end(self: Box<Self>) -> Result<(), MeterError>;
}
