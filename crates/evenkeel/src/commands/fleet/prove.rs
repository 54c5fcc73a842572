//! `fleet prove`: whether a goal helps, over many hosts of a cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use evenkeel_stats::Direction;

use crate::args::number;
use crate::times;

/// The end of `--help`.
const EXAMPLES: &str = "\
The goal must have `rollout`, so that nodes wait for its release. Before the trial, no node has the
goal for some blocks of time: evenkeel pairs nodes with similar numbers, and estimates how many
blocks an effect needs. Then one node of each pair, chosen at random, has the goal in each block.
evenkeel tests the result after every block, and at the end every node reverts the goal.
docs/fleet.md explains every option.

Examples:
  evenkeel fleet prove steady-games --prometheus http://prometheus:9090 --metric 'sum by (instance) (x)'
  evenkeel fleet prove steady-games --prometheus http://prometheus:9090 --metric 'x[$window]' --only-before
  evenkeel fleet prove steady-games --prometheus http://prometheus:9090 --metric 'x[$window]' --continue";

/// Prove a HostGoal on pairs of similar nodes of a Kubernetes cluster, in random order by blocks of time
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The goal, by name
    goal: String,
    /// Query with one number per `node` or `instance`; $window becomes the length of a block
    #[arg(long, value_name = "PROMQL")]
    metric: String,
    /// Which direction of the number is better: lower or higher
    #[arg(long, value_enum, value_name = "WAY", default_value_t, hide_possible_values = true)]
    better: Better,
    /// Prometheus, which has the numbers
    #[arg(long, value_name = "http://HOST:PORT")]
    prometheus: String,
    /// How long each block is measured
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = times::time)]
    block: Duration,
    /// How long the effect of a switch may last before a block is measured
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = times::time)]
    wash_out: Duration,
    /// Blocks before the trial, in which no node has the goal
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    blocks_before: u32,
    /// Maximum number of blocks of the trial
    #[arg(long, value_name = "N", default_value_t = 144, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    blocks: u32,
    /// The smallest effect that matters, in percent
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    smallest_effect: f64,
    /// End before the trial, and show how many blocks an effect needs
    #[arg(long)]
    only_before: bool,
    /// How long nodes may take to apply the goal or put it back
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = times::time)]
    patience: Duration,
    /// Log of the trial, from which --continue goes on [default: fleet-GOAL.jsonl]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Go on with the trial in the log
    #[arg(long = "continue", conflicts_with_all = ["seed", "only_before"])]
    go_on: bool,
    /// Seed of the random order [default: a new one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The cluster's address and credentials [default: those of the pod, or $KUBECONFIG]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Which direction of the number is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Better {
    #[default]
    Lower,
    Higher,
}

impl From<Better> for Direction {
    fn from(better: Better) -> Direction {
        match better {
            Better::Lower => Direction::Lower,
            Better::Higher => Direction::Higher,
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    number(text.trim_end_matches('%'), 0.1..=50.0, "expected a percentage from 0.1 to 50")
        .map(|percent| percent / 100.0)
}

#[cfg(not(feature = "kubernetes"))]
pub(super) fn run(_: &Args, _: &crate::show::Out) -> crate::failure::Outcome {
    Err(crate::cluster::without_kubernetes("prove a goal on a cluster"))
}

#[cfg(feature = "kubernetes")]
pub(super) use self::with_kubernetes::run;

#[cfg(feature = "kubernetes")]
#[path = "prove_trial.rs"]
mod with_kubernetes;
