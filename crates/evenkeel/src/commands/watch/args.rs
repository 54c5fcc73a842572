//! The arguments of `watch`.

use std::path::PathBuf;

use evenkeel_watch::store::StoreOptions;

use super::at::At;
use crate::watch_args::WatchArgs;

/// Watch the host and the servers on it: CPUs, ticks, network, settings; nothing is changed
///
/// Finds servers that were built with evenkeel-rt by itself; name others with --pid. Takes one sample a second, and shows CPU time and
/// steal, run-queue delay, throttling, UDP drops, page faults, and of each server its ticks, CPU time, switches and sockets. What this user
/// may not read is listed with the command that repairs it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel watch --once
  evenkeel watch --once --pid 1234 --json
  evenkeel watch --store /var/lib/evenkeel/watch
  evenkeel watch --replay /var/lib/evenkeel/watch --at 21:14
  evenkeel watch --dumps /var/lib/evenkeel/dumps --dump-over 5ms
  evenkeel watch --dumps /var/lib/evenkeel/dumps --dump
  evenkeel watch --textfile /var/lib/node_exporter/evenkeel.prom --interval 10s")]
pub(crate) struct Args {
    /// Take two samples one interval apart, print what happened between, and end
    #[arg(long)]
    pub(super) once: bool,
    /// Append every sample to the store in DIR
    #[arg(long, value_name = "DIR")]
    pub(super) store: Option<PathBuf>,
    /// Hold the newest N days of the store that have samples [default: 30]
    #[arg(long, value_name = "N", default_value_t = 30, hide_default_value = true, requires = "store", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep_days: u32,
    /// Hold at most MIB of the store [default: 1024]
    #[arg(long, value_name = "MIB", default_value_t = 1024, hide_default_value = true, requires = "store", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    store_mib: u64,
    /// Show the store in DIR, or a dump of the flight recorder, instead of this machine
    #[arg(long, value_name = "DIR", conflicts_with_all = ["store", "textfile", "pids", "comms", "no_find", "gaps", "dumps", "host", "root", "metadata", "state", "interval", "late"])]
    pub(super) replay: Option<PathBuf>,
    /// The moment of the store to show, in UTC: 21:14, or 2026-11-26T21:14:05 [default: the last]
    #[arg(long, value_name = "TIME", requires = "replay", value_parser = At::parse)]
    pub(super) at: Option<At>,
    /// Ask the `watch` or `serve` that writes its dumps to the folder of --dumps for one now, and end
    #[arg(long, requires = "dumps", conflicts_with_all = ["once", "store", "replay", "textfile"])]
    pub(super) dump: bool,
    /// Write the metrics to FILE after each sample, for the textfile collector of node_exporter
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
