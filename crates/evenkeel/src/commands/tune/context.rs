//! `SearchContext`: what the parts of a search share, and the options for its result.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evenkeel_change::ServiceName;
use evenkeel_host::Facts;
use evenkeel_hostfs::Root;
use evenkeel_trial::ConcurrentTrials;

use crate::args::StateArgs;
use crate::exit;
use crate::failure::Failure;
use crate::show::Out;

/// The options for the result.
#[derive(Debug, clap::Args)]
pub(super) struct OutArgs {
    /// Write the set and its evidence to FILE, for `evenkeel apply`
    #[arg(long, short, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Make the plan persist across reboots
    #[arg(long, requires = "out")]
    pub(super) persist: bool,
    /// The systemd unit of the server, for process.* settings
    #[arg(long, value_name = "UNIT", requires = "out")]
    pub(super) unit: Option<ServiceName>,
}

/// The data that the parts of a new or resumed search share.
pub(super) struct SearchContext<'a> {
    pub(super) out_args: &'a OutArgs,
    pub(super) state: &'a StateArgs,
    /// The command that continues it.
    pub(super) resume: String,
    pub(super) out: &'a Out,
    pub(super) root: &'a Root,
    pub(super) facts: &'a Facts,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) concurrent: Arc<ConcurrentTrials>,
}

pub(super) fn not_possible(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(exit::NOT_POSSIBLE, error)
}
