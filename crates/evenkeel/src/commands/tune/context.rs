//! `SearchContext`: the data that the parts of a search share, and the options for its result.

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
pub(crate) struct OutArgs {
    /// Write the set and its evidence to FILE, for `evenkeel apply`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Make the plan persist across reboots
    #[arg(long, requires = "out")]
    pub(crate) persist: bool,
    /// The systemd unit of the server, for process.* settings
    #[arg(long, value_name = "UNIT", requires = "out")]
    pub(crate) unit: Option<ServiceName>,
}

/// The data that the parts of a new or resumed search share.
pub(crate) struct SearchContext<'a> {
    pub(crate) out_args: &'a OutArgs,
    pub(crate) state: &'a StateArgs,
    /// The command that continues the search.
    pub(crate) resume: String,
    pub(crate) out: &'a Out,
    pub(crate) root: &'a Root,
    pub(crate) facts: &'a Facts,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) concurrent: Arc<ConcurrentTrials>,
}

pub(crate) fn not_possible(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(exit::NOT_POSSIBLE, error)
}
