//! `evenkeel fleet`: handles many machines at once, from files that they wrote, or in a Kubernetes cluster.

pub(crate) mod answers;
mod audit;
mod diff;
mod files;
mod hosts;
mod prometheus;
mod prove;
mod prove_ansible;
mod prove_args;
mod prove_engine;
mod prove_log;
mod rollout;
pub(crate) mod table;

use crate::failure::Outcome;
use crate::show::Out;

/// Compare many machines by the files that they wrote; bring goals to the nodes of a cluster
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Table(table::Args),
    Audit(audit::Args),
    Diff(diff::Args),
    Rollout(rollout::Args),
    Prove(Box<prove_args::Args>),
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.what {
        What::Table(args) => table::run(args, out),
        What::Audit(args) => audit::run(args, out),
        What::Diff(args) => diff::run(args, out),
        What::Rollout(args) => rollout::run(args, out),
        What::Prove(args) => prove::run(args, out),
    }
}
