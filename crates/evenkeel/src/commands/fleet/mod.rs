//! `evenkeel fleet`: many machines at once, from files that they wrote or as a Kubernetes cluster.

#[cfg_attr(not(feature = "kubernetes"), expect(dead_code, reason = "filled in programs for Kubernetes"))]
pub(crate) mod answers;
mod audit;
mod diff;
mod files;
mod hosts;
#[cfg(feature = "kubernetes")]
mod prometheus;
mod prove;
#[cfg(feature = "kubernetes")]
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
    Prove(Box<prove::Args>),
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

/// What this program cannot do, because its client for Kubernetes was left out.
#[cfg(not(feature = "kubernetes"))]
pub(super) fn without_kubernetes(tried: &str) -> crate::failure::Failure {
    let cause = "this program was built without Kubernetes, whose client would make it a third larger";
    crate::failure::Failure::text(crate::exit::NOT_POSSIBLE, tried, cause)
        .hint("use the container image, or build it: cargo build --release -p evenkeel --features kubernetes")
}

/// The cluster of a file of credentials, of this pod, or of `$KUBECONFIG`.
#[cfg(feature = "kubernetes")]
pub(super) async fn connect(
    file: Option<&std::path::Path>,
) -> Result<evenkeel_fleet::kubernetes::Client, crate::failure::Failure> {
    let client = evenkeel_fleet::kubernetes::connect(file).await;
    client.map_err(|error| {
        crate::failure::Failure::text(crate::exit::WRONG_USE, "find the cluster", error)
            .hint("name its file with --kubeconfig, or set KUBECONFIG")
    })
}
