//! `Keeper`: whoever puts files of the kernel back for a meter that changes them, also when the meter is killed. Such a one must be a
//! process of its own, which the program has; a meter only says what is to be kept.

use crate::error::MeterError;

/// Puts files back when it is told to end, when it is dropped, and when its owner is killed.
pub trait Keeper: std::fmt::Debug {
    /// Has the file at `path` put back to `value` in the end. Not before this returns may the file be changed.
    ///
    /// # Errors
    /// If nobody could be told.
    fn keep(&mut self, path: &str, value: &str) -> Result<(), MeterError>;

    /// Leaves the file at `path` as it is: somebody else has set it meanwhile.
    ///
    /// # Errors
    /// If nobody could be told.
    fn forget(&mut self, path: &str) -> Result<(), MeterError>;

    /// Everything is put back when this returns.
    ///
    /// # Errors
    /// If something is left changed.
    fn end(self: Box<Self>) -> Result<(), MeterError>;
}
