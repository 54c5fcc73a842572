//! A trial over boots: what takes effect after a reboot is compared A-B-B-A, a boot each, and goes on by itself after each boot.
//!
//! `state` is all that is known, as one checksummed line on disk; `next` says what is to be done in the boot that the machine is in,
//! and is pure; `drive` does it, by a [`Machine`]; `hands` are the changes to the host, each of them a transaction of the journal, so that
//! `evenkeel revert` puts the host back whatever became of all this. `told` is what came out, `guards` what may veto it,
//! `at_work` whether the settings were at work at all.
//!
//! Who is killed at any moment leaves one of these: a state that says less than was done, which is then done again without harm; or a
//! transaction that the journal calls interrupted, which is put back before the next begins.

mod caveat;
mod counters;
mod disk;
mod drive;
mod engaged;
mod error;
mod guards;
mod next;
mod patience;
mod state;
#[cfg(test)]
mod tests;
mod told;
mod transactions;

pub use caveat::{BootsCaveat, GuardUntold, Part};
pub use counters::{BOOT_COUNTERS_MAX, BootCounters};
pub use disk::{BootsFileError, read, write};
pub use drive::{Ending, Machine, Windows, go_on};
pub use error::BootsError;
pub use guards::GuardOfBoots;
pub use next::{Action, BootStatus, next};
pub use patience::Wait;
pub use state::{
    Armed, BOOT_GUARDS_MAX, BootOutcome, BootWords, BootsDesign, BootsEnded, BootsState, EXTRA_BOOTS, InvalidBoots,
    SeenBoot, WINDOWS_MAX, parse, parse_json,
};
pub use told::{ArmOfBoots, BootsReport, label};
pub use transactions::BootTransactions;
