//! Connects to a Kubernetes cluster. A program without the Kubernetes client only explains why it can't connect.

#[cfg(feature = "kubernetes")]
use std::path::Path;

use crate::exit;
use crate::failure::Failure;

/// The failure of a command that needs Kubernetes, in a program without the Kubernetes client.
#[cfg(not(feature = "kubernetes"))]
pub(crate) fn without_kubernetes(tried: &str) -> Failure {
    let cause = "this program was built without Kubernetes, whose client would make it a third larger";
    Failure::text(exit::NOT_POSSIBLE, tried, cause)
        .hint("use the container image, or build it: cargo build --release -p evenkeel --features kubernetes")
}

/// Connects to the cluster that the file names.
/// Without a file, connects to the cluster of this pod or of `$KUBECONFIG`.
#[cfg(feature = "kubernetes")]
pub(crate) async fn connect(
    file: Option<&Path>,
    requests: evenkeel_fleet::kubernetes::Requests,
) -> Result<evenkeel_fleet::kubernetes::Client, Failure> {
    if let Some(file) = file {
        let tried = format!("read the cluster's file {}", file.display());
        evenkeel_hostfs::user_file::read_text(file, FILE_BYTES_MAX)
            .map_err(|error| Failure::user_file(tried, &error).or_hint(HINT))?;
    }
    let client = evenkeel_fleet::kubernetes::connect(file, requests).await;
    client.map_err(|error| {
        let why = evenkeel_fleet::kubernetes::why(&error);
        let looked = match file {
            Some(file) => file.display().to_string(),
            None => format!("this is not a pod of a cluster, and {}", looked_for()),
        };
        Failure::text(exit::WRONG_USE, "find the cluster", format_args!("{looked}: {why}")).hint(HINT)
    })
}

#[cfg(feature = "kubernetes")]
const HINT: &str =
    "name the file of the cluster's address and credentials with --kubeconfig, or set KUBECONFIG; a pod needs neither";

/// The maximum size of a kubeconfig file.
#[cfg(feature = "kubernetes")]
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The names of the kubeconfig files that the client reads by default.
#[cfg(feature = "kubernetes")]
fn looked_for() -> String {
    match (std::env::var("KUBECONFIG"), std::env::var("HOME")) {
        (Ok(files), _) if !files.is_empty() => format!("{files} (KUBECONFIG)"),
        (_, Ok(home)) => format!("{home}/.kube/config"),
        _ => "$HOME/.kube/config".to_owned(),
    }
}
