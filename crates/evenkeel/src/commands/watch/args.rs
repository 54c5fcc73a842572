//! The arguments of `watch`.

use std::path::PathBuf;

use evenkeel_watch::store::StoreOptions;

use super::at::At;
use crate::watch_args::WatchArgs;

/// Watch the host and the servers on it: CPUs, ticks, network, settings; nothing is changed
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Finds servers by their telemetry pages and their sockets, and shows the ticks of each server, \
with the causes of late ticks. What this user may not read is listed with the command that gives access.

Examples:
  evenkeel watch --once --pid 1234
  evenkeel watch --store /var/lib/evenkeel/watch
  evenkeel watch --replay /var/lib/evenkeel/watch --at 21:14
  sudo evenkeel watch --dumps /var/lib/evenkeel/dumps --dump-over 5ms"
)]
pub(crate) struct Args {
    /// Print the events of one interval, and exit
    #[arg(long)]
    pub(super) once: bool,
    /// Append every sample to the store in DIR
    #[arg(long, value_name = "DIR")]
    pub(super) store: Option<PathBuf>,
    /// Days that the store holds [default: 30]
    #[arg(long, value_name = "N", default_value_t = 30, hide_default_value = true, requires = "store", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep_days: u32,
    /// MiB that the store holds [default: 1024]
    #[arg(long, value_name = "MIB", default_value_t = 1024, hide_default_value = true, requires = "store", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    store_mib: u64,
    /// Show a store, or a dump, instead of this machine
    #[arg(long, value_name = "DIR", conflicts_with_all = ["store", "textfile", "pids", "comms", "no_find", "gaps", "dumps", "host", "root", "metadata", "state", "interval", "late"])]
    pub(super) replay: Option<PathBuf>,
    /// Moment in UTC, such as 21:14 [default: the last]
    #[arg(long, value_name = "TIME", requires = "replay", value_parser = At::parse)]
    pub(super) at: Option<At>,
    /// Request a dump in the folder of --dumps, and exit
    #[arg(long, requires = "dumps", conflicts_with_all = ["once", "store", "replay", "textfile"])]
    pub(super) dump: bool,
    /// Write metrics to FILE, for node_exporter
    #[arg(long, value_name = "FILE")]
    pub(super) textfile: Option<PathBuf>,
    #[command(flatten)]
    pub(super) watch: WatchArgs,
}

impl Args {
    pub(super) fn store_options(&self) -> StoreOptions {
        StoreOptions { keep_days: self.keep_days as usize, bytes_max: self.store_mib.saturating_mul(1 << 20) }
    }
}
