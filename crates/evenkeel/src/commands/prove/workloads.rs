//! `evenkeel prove workloads`: lists the workloads that `--workload` accepts.

use crate::exit;
use crate::failure::Outcome;
use crate::show::Out;
use crate::show::page::fitted;
use crate::workload_args;

/// List all workloads with their settings and requirements
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel prove workloads
  evenkeel prove workloads --json")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, out: &Out) -> Outcome {
    let list = workload_args::list();
    out.answer(&list, || fitted(&list.text()))?;
    Ok(exit::WELL)
}
