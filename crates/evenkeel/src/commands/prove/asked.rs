//! The arguments of a new trial.

use std::path::PathBuf;

use super::design::DesignArgs;
use crate::args::StateArgs;
use crate::workload_args::WorkloadArgs;

/// The options of a new trial.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TrialArgs {
    /// The setting to prove; several settings form one arm
    #[arg(value_name = "KNOB=VALUE", value_parser = crate::args::Completed(crate::args::settings), hide_possible_values = true)]
    pub(super) settings: Vec<String>,
    /// Prove the settings of a goal file of `evenkeel tune` again
    #[arg(long, value_name = "FILE", conflicts_with = "settings")]
    pub(super) goal: Option<PathBuf>,
    /// Write report.html and report.json into DIR
    #[arg(long, value_name = "DIR")]
    pub(super) report: Option<PathBuf>,
    /// Store the session in FILE [default: a file next to the journal]
    #[arg(long, value_name = "FILE")]
    pub(super) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(super) state: StateArgs,
    #[command(flatten)]
    pub(super) plan: DesignArgs,
    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
}
