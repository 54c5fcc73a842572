//! A trial over boots compares settings that take effect after a reboot.
//! The trial runs the arms A-B-B-A, one boot each, and continues by itself after each boot.
//!
//! `state` is everything that the trial knows, as one checksummed line on disk.
//! `next` is a pure function that chooses the action for the current boot.
//! `drive` carries out the action through a [`Machine`]. `transactions` changes the host.
//! Each change is a transaction of the journal, so `evenkeel revert` always restores the host.
//! `report` has the result, `guards` has the vetoes, and `engaged` decides whether the settings were engaged at all.
//!
//! A kill at any moment leaves one of two cases.
//! Either the state does not yet contain the last action, which can then safely be repeated.
//! Or the journal has an interrupted transaction, which evenkeel reverts before the next one begins.

mod caveat;
mod counters;
mod disk;
mod drive;
mod engaged;
mod error;
mod guards;
mod next;
mod patience;
mod report;
mod state;
#[cfg(test)]
mod tests;
mod transactions;

pub use caveat::{BootsCaveat, GuardUnknown, Part};
pub use counters::{BOOT_COUNTERS_MAX, BootCounters};
pub use disk::{BootsFileError, read, write};
pub use drive::{Ending, Machine, Windows, go_on};
pub use error::BootsError;
pub use guards::GuardOfBoots;
pub use next::{Action, BootStatus, next};
pub use patience::Wait;
pub use report::{ArmOfBoots, BootsReport, label};
pub use state::{
    Armed, BOOT_GUARDS_MAX, BootOutcome, BootWords, BootsDesign, BootsEnded, BootsState, EXTRA_BOOTS, InvalidBoots,
    SeenBoot, WINDOWS_MAX, parse, parse_json,
};
pub use transactions::BootTransactions;
