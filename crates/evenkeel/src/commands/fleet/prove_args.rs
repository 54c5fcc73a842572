//! The arguments of `fleet prove`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use evenkeel_stats::Direction;

use crate::args::number;
use crate::times;

/// The playbook of the collection `evenkeel.host`.
const PLAYBOOK: &str = "evenkeel.host.arm";

/// The end of `--help`.
const EXAMPLES: &str = "\
Before the trial, no host has the goal for some blocks of time: evenkeel pairs hosts with similar
numbers, and estimates how many blocks an effect needs. Then one host of each pair, chosen at random,
has the goal in each block. evenkeel tests the result after every block, and at the end every host
reverts the goal. In a cluster, the HostGoal must have `rollout`, so that nodes wait for its release.
With --inventory, a playbook of Ansible switches the hosts. docs/fleet-prove.md explains both.

Examples:
  evenkeel fleet prove steady --prometheus http://prom:9090 --metric 'sum by (instance) (x)'
  evenkeel fleet prove steady --prometheus http://prom:9090 --metric 'rate(x[$window])' --only-before
  evenkeel fleet prove goal.json --inventory hosts.ini --prometheus http://prom:9090 --metric 'rate(x[$window])'
  evenkeel fleet prove goal.json --inventory hosts.ini --prometheus http://prom:9090 --metric 'rate(x[$window])' --continue";

/// Prove a goal on pairs of similar hosts, in random order by blocks of time, through Kubernetes or Ansible
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The HostGoal, by name; with --inventory the file of a goal or plan
    pub(super) goal: String,
    /// Query with one number per `node` or `instance`; $window becomes the length of a block
    #[arg(long, value_name = "PROMQL")]
    pub(super) metric: String,
    /// Which direction of the number is better: lower or higher
    #[arg(long, value_enum, value_name = "WAY", default_value_t, hide_possible_values = true)]
    pub(super) better: Better,
    /// Address of the Prometheus server that has the numbers
    #[arg(long, value_name = "http://HOST:PORT")]
    pub(super) prometheus: String,
    /// Query that lists the hosts on which the goal must end at once, such as 'late_ticks > 10'; asked every 15 s
    #[arg(long, value_name = "PROMQL")]
    pub(super) guard: Option<String>,
    /// How long each block is measured
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = times::time)]
    pub(super) block: Duration,
    /// How long the effect of a switch may last before a block is measured
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = times::time)]
    pub(super) wash_out: Duration,
    /// Blocks before the trial, in which no node has the goal
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) blocks_before: u32,
    /// Maximum number of blocks of the trial
    #[arg(long, value_name = "N", default_value_t = 144, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) blocks: u32,
    /// The smallest effect that matters, in percent
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    pub(super) smallest_effect: f64,
    /// End before the trial, and show how many blocks an effect needs
    #[arg(long)]
    pub(super) only_before: bool,
    /// How long hosts may take to apply the goal or put it back
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = times::time)]
    pub(super) patience: Duration,
    /// Log of the trial, from which --continue goes on [default: fleet-GOAL.jsonl]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Continue the trial in the log
    #[arg(long = "continue", conflicts_with_all = ["seed", "only_before"])]
    pub(super) go_on: bool,
    /// Seed of the random order [default: a new one]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// The cluster's address and credentials [default: those of the pod, or $KUBECONFIG]
    #[arg(long, value_name = "FILE", conflicts_with = "inventory")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Switch the hosts of this inventory with Ansible, instead of nodes of a cluster
    #[arg(long, short, value_name = "INVENTORY")]
    pub(super) inventory: Option<PathBuf>,
    /// With --inventory: the hosts, as a pattern of Ansible
    #[arg(long, value_name = "PATTERN", default_value = "all", requires = "inventory")]
    pub(super) hosts: String,
    /// With --inventory: the playbook that applies the goal to the hosts in `evenkeel_with`, and reverts all others
    #[arg(long, value_name = "NAME", default_value = PLAYBOOK, requires = "inventory")]
    pub(super) playbook: String,
}

impl Args {
    /// The path of the trial's log. For a goal file, the log has the name of that file without folder and extension.
    pub(super) fn log_path(&self) -> PathBuf {
        let goal = match self.inventory {
            Some(_) => Path::new(&self.goal).file_stem().unwrap_or_default().display().to_string(),
            None => self.goal.clone(),
        };
        self.log.clone().unwrap_or_else(|| PathBuf::from(format!("fleet-{goal}.jsonl")))
    }
}

/// Which direction of the number is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Better {
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
