//! The interface between the agent and its host: read the journal and the values in force, apply a goal, revert a transaction.

use super::desired::Desired;
use super::journal::{Journal, SetKnob};

/// The host that an agent looks after. Each call may take seconds and blocks.
pub trait Host: Send + Sync + 'static {
    /// The transactions of goals, and the result of verifying their settings.
    ///
    /// # Errors
    /// If the journal cannot be read.
    fn journal(&self) -> Result<Journal, HostError>;

    /// Applies a goal as one transaction, completely or not at all.
    ///
    /// # Errors
    /// If the goal could not be applied.
    fn apply(&self, goal: &Desired) -> Result<Applied, HostError>;

    /// What [`Host::apply`] would change, as one line.
    ///
    /// # Errors
    /// As [`Host::apply`].
    fn audit(&self, goal: &Desired) -> Result<String, HostError>;

    /// The settings that [`Host::apply`] would bring into force for a goal that applies advice, also those that are in force already.
    ///
    /// # Errors
    /// As [`Host::apply`].
    fn advice(&self, goal: &Desired) -> Result<Vec<SetKnob>, HostError>;

    /// The id of the present boot. Every boot has another one.
    ///
    /// # Errors
    /// If the kernel's file cannot be read.
    fn boot(&self) -> Result<String, HostError>;

    /// Requests a reboot of the host, and returns before the host reboots.
    ///
    /// # Errors
    /// If the command that reboots it could not be run, or failed.
    fn reboot(&self) -> Result<(), HostError>;

    /// Reverts one transaction.
    ///
    /// # Errors
    /// If not everything could be restored.
    fn revert(&self, transaction: u64) -> Result<(), HostError>;
}

/// The result of applying a goal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Whether all settings were in force already, so that there is no transaction.
    pub already_so: bool,
}

/// Why a request to the host failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// A setting does not exist on this host.
    #[error("not possible on this host: {why}")]
    NotApplicable {
        /// The reason, in the words of the host's program.
        why: String,
    },
    /// The goal was refused or failed, and the host is unchanged.
    #[error("refused, and all is as before: {why}")]
    Refused {
        /// The reason, in the words of the host's program.
        why: String,
    },
    /// The goal failed, and the host could not be restored completely.
    #[error("not everything could be put back: {why}; on the host run: evenkeel revert")]
    NotPutBack {
        /// The reason, in the words of the host's program.
        why: String,
    },
    /// The program of the host could not be run, or its answer could not be read.
    #[error("failed to ask the host: {why}")]
    Unreachable {
        /// What happened.
        why: String,
    },
}
